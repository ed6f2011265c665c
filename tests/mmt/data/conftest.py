"""A small cache of two languages that the tests of sampling share."""

import pytest

from mmt import languages
from mmt.data import cache, vocabulary

COUNTS = {"deu_Latn": 300, "swh_Latn": 20}


@pytest.fixture(scope="session")
def opened(tmp_path_factory):
    """The cache; the example at `index` repeats a token 1 to 9 times on both sides."""
    folder = tmp_path_factory.mktemp("data")
    texts = [language.name for language in languages.all_languages()]
    vocabulary.train(texts, folder / "vocabulary.model", size=600, tags=["<2eng>"])

    def examples(count):
        return lambda: ([[3 + i % 500] * (1 + i % 9)] * 2 for i in range(count))

    cache.build(
        folder / "cache", {("train", code): examples(count) for code, count in COUNTS.items()},
        name="toy", target="eng_Latn", corpus_hash="1",
        vocabularies=dict.fromkeys(("source", "target"), folder / "vocabulary.model"),
    )  # fmt: skip
    return cache.open_cache(folder / "cache")
