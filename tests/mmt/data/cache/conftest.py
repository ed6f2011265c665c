"""Vocabularies for the tests of caches."""

import pytest

from mmt import languages
from mmt.data import vocabulary


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two vocabularies, of 700 and 600 pieces."""
    folder = tmp_path_factory.mktemp("vocabularies")
    texts = [language.name for language in languages.all_languages()]
    for size in (700, 600):
        vocabulary.train(texts, folder / f"{size}.model", size=size, tags=["<2eng>"])
    return {"source": folder / "700.model", "target": folder / "600.model"}
