"""Only examples that fit into a row are counted; a warning counts the others."""

import numpy as np
import pytest

from mmt.data.cache import open_cache
from mmt.data.split import Split
from tests.helpers.streams import write_cache
from tests.mmt.data.conftest import COUNTS


def test_only_what_fits_is_counted(opened):
    with pytest.warns(UserWarning, match="omitted; most of them: deu_Latn 132, swh_Latn 8$"):
        split = Split(opened, "train", list(COUNTS), {"inputs": 16, "targets": 6})
    assert split.counts == {"deu_Latn": 168, "swh_Latn": 12}
    lengths = np.array([[e.source, e.target] for e in (split.example(0, 0, i) for i in range(168))])
    assert lengths.max() == 6


def test_examples_of_a_corpus_are_left_out(tmp_path):
    counts = {"deu_Latn": 30, "swh_Latn": 9}
    directory = write_cache(tmp_path, counts, corpora=("bible", "news", "web"))
    opened = open_cache(directory)
    lengths = {"inputs": 40, "targets": 40}
    whole = Split(opened, "train", list(counts), lengths)
    split = Split(opened, "train", list(counts), lengths, leave_out=("news",))
    assert split.counts == {"deu_Latn": 20, "swh_Latn": 6}
    kept = [split.example(0, 0, index).record for index in range(20)]
    assert kept == [*range(10), *range(20, 30)]
    assert [whole.example(0, 0, index).record for index in range(30)] == list(range(30))
    with pytest.raises(ValueError, match="no corpus 'mews' .* known: bible, news, web; nearest: n"):
        Split(opened, "train", list(counts), lengths, leave_out=("mews",))


def test_a_language_of_one_corpus_has_nothing_without_it(tmp_path):
    counts = {"deu_Latn": 8, "swh_Latn": 1}
    directory = write_cache(tmp_path, counts, corpora=("bible", "news"))
    message = "without the corpora bible, no train example remains of swh_Latn$"
    with pytest.warns(UserWarning, match=message):
        split = Split(open_cache(directory), "train", list(counts), {"inputs": 40, "targets": 40},
                      leave_out=("bible",))  # fmt: skip
    assert split.counts == {"deu_Latn": 4}
