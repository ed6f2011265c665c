"""Only examples that fit into a row are counted; a warning counts the others."""

import shutil

import numpy as np
import pytest

from mmt.data.cache import Cache, longest, open_cache
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


@pytest.mark.filterwarnings("ignore:.*do not fit")
def test_examples_are_those_of_a_mask_of_all_lengths(tmp_path):
    counts = {"deu_Latn": 60, "swh_Latn": 20}
    opened = open_cache(write_cache(tmp_path, counts, corpora=("bible", "news", "web")))
    lengths = opened.lengths("swh_Latn", "train")
    shape = np.quantile(lengths, 0.8, axis=0).astype(int).tolist()
    sizes = dict(zip(("inputs", "targets"), shape, strict=True))
    for leave_out in ((), ("news",), ("bible", "web")):
        split = Split(opened, "train", list(counts), sizes, leave_out=leave_out)
        out = [name in leave_out for _, name in opened.manifest.corpus_table]
        for language, code in enumerate(counts):
            fits = (opened.lengths(code, "train") < shape).all(axis=1)
            kept = np.flatnonzero(fits & ~np.array(out)[opened.manifest.corpus_ids(code)])
            assert 0 < split.counts[code] == len(kept) <= fits.sum() < len(fits)
            found = [split.example(0, language, index).record for index in range(len(kept))]
            assert found == kept.tolist()
            assert split.records(language, np.arange(len(kept))).tolist() == found


def test_a_list_of_the_longest_changes_nothing(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(longest, "LEAST_RECORDS", 100)
    monkeypatch.setattr(longest, "_RECORDS_PER_LISTED", 2)
    copy = Cache(tmp_path / "cache", opened.manifest)
    shutil.copytree(opened.directory, copy.directory)
    file = longest.path_of(copy.directory / "train", "deu_Latn")
    longest.write(file, opened.lengths("deu_Latn", "train"))
    assert np.load(file)[-1, 0] < 7  # the list suffices
    splits = []
    for which in (opened, copy):
        with pytest.warns(UserWarning, match="omitted; most of them: deu_Latn 99, swh_Latn 6$"):
            splits.append(Split(which, "train", list(COUNTS), {"inputs": 16, "targets": 7}))
    of_opened, of_copy = splits
    assert of_opened.counts == of_copy.counts
    for index in range(of_opened.counts["deu_Latn"]):
        assert of_opened.example(0, 0, index) == of_copy.example(0, 0, index)
