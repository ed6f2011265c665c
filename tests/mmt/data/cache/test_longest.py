"""The list of the longest examples finds the same as a pass over all; gaps against plain masks."""

import numpy as np
import pytest

from mmt.data.cache import longest
from mmt.data.cache.longest import Omitted


@pytest.fixture(params=[7, 64, 1000], ids="of {} at once".format)
def written(request, tmp_path, monkeypatch):
    """Lengths with many ties, and their file, written some records at a time."""
    monkeypatch.setattr(longest, "LEAST_RECORDS", 100)
    monkeypatch.setattr(longest, "_CHUNK_RECORDS", request.param)
    lengths = np.random.default_rng(0).geometric(0.2, (1000, 2)).astype(np.int32)
    path = longest.path_of(tmp_path, "deu_Latn")
    longest.write(path, lengths)
    return path, lengths


def test_the_longest_are_listed_in_order(written):
    path, lengths = written
    longer = lengths.max(axis=1)
    order = np.lexsort((np.arange(1000), -longer))[: 1000 // 16]
    np.testing.assert_array_equal(np.load(path), np.stack([longer[order], order], axis=1))


@pytest.mark.parametrize(
    "shape", [(18, 18), (40, 40), (16, 25), (25, 16), (3, 30), (2, 2)], ids=str
)
def test_the_same_records_are_too_long_with_and_without_the_list(written, shape):
    path, lengths = written
    expected = np.flatnonzero((lengths >= np.array(shape)).any(axis=1))
    np.testing.assert_array_equal(longest.too_long(path, lengths, shape), expected)
    np.testing.assert_array_equal(longest.scan(lengths, shape), expected)


def test_the_list_is_read_in_place_of_all_lengths(written):
    path, lengths = written
    unread = np.zeros_like(lengths)  # a pass over these finds nothing
    assert len(longest.too_long(path, unread, (20, 20))) == (lengths >= 20).any(axis=1).sum() > 9


def test_a_small_language_has_no_list(tmp_path):
    path = longest.path_of(tmp_path, "swh_Latn")
    longest.write(path, np.ones((longest.LEAST_RECORDS - 1, 2), np.int32))
    assert not path.exists()


def test_a_damaged_list_is_an_error(written):
    path, lengths = written
    with pytest.raises(ValueError, match=r"int64 \(62, 2\), expected int64 \(31, 2\): build"):
        longest.too_long(path, lengths[:500], (18, 18))
    path.write_bytes(path.read_bytes()[:150])
    with pytest.raises(ValueError, match=r"longest.npy is damaged"):
        longest.too_long(path, lengths, (18, 18))


@pytest.mark.parametrize("seed", range(5))
def test_indices_without_gaps_are_those_of_a_mask(seed):
    random = np.random.default_rng(seed)
    omitted = np.repeat(random.random(60) < 0.4, random.integers(1, 5, 60))
    starts = np.flatnonzero(omitted & ~np.concatenate([[False], omitted[:-1]]))
    ends = np.flatnonzero(omitted & ~np.concatenate([omitted[1:], [False]])) + 1
    kept = np.flatnonzero(~omitted)
    singles = np.flatnonzero(omitted)  # adjacent gaps mean the same
    for gaps in (Omitted(starts, ends - starts), Omitted(singles, np.ones_like(singles))):
        assert gaps.count == omitted.sum()
        np.testing.assert_array_equal(gaps.records(np.arange(len(kept))), kept)
        assert [gaps.record(index) for index in range(len(kept))] == kept.tolist()
