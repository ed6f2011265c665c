"""Only examples that fit into a row are counted, and a warning says how many do not."""

import numpy as np
import pytest

from mmt import languages
from mmt.data import cache, vocabulary
from mmt.data.split import Split

COUNTS = {"deu_Latn": 300, "swh_Latn": 20}


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    texts = [language.name for language in languages.all_languages()]
    vocabulary.train(texts, folder / "vocabulary.model", size=600, tags=["<2eng>"])

    def made_up(count):
        return lambda: ([[3 + i % 500] * (1 + i % 9)] * 2 for i in range(count))

    cache.build(
        folder / "cache", {("train", code): made_up(count) for code, count in COUNTS.items()},
        name="toy", target="eng_Latn", corpus_hash="1",
        vocabularies=dict.fromkeys(("source", "target"), folder / "vocabulary.model"),
    )  # fmt: skip
    return cache.open_cache(folder / "cache")


def test_only_what_fits_is_counted(opened):
    with pytest.warns(UserWarning, match="left out; most of them: deu_Latn 132, swh_Latn 8$"):
        split = Split(opened, "train", list(COUNTS), {"inputs": 16, "targets": 6})
    assert split.counts == {"deu_Latn": 168, "swh_Latn": 12}
    lengths = np.array([[e.source, e.target] for e in (split.example(0, 0, i) for i in range(168))])
    assert lengths.max() == 6
