"""Which examples are too long for a row, found without reading the lengths of all.

A large language has `<language>.longest.npy` beside its records: int64 [n // 16, 2], the tokens of
the longer side and the record, for the longest sixteenth of its n records, the longest first. Other
limits, and caches of before, need a pass over `<language>.lengths.npy`.
"""

import bisect
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int, Int32, Int64

from mmt.system.atomic import disk_errors

LEAST_RECORDS = 1 << 17  # a smaller language has no file: a pass over it takes a millisecond
_PART = 16  # one record in so many is listed
_AT_ONCE = 1 << 20  # records


def file(directory: Path, language: str) -> Path:
    """Returns the path of a language's list."""
    return directory / f"{language}.longest.npy"


def write(path: Path, lengths: Int32[np.ndarray, "n 2"]) -> None:
    """Writes the list of a large language; memory does not grow with the number of records."""
    if len(lengths) < LEAST_RECORDS:
        return
    listed = len(lengths) // _PART
    counts = np.zeros(0, np.int64)  # records by tokens
    for _, longer in _longer_sides(lengths):
        counts = _sum(counts, np.bincount(longer))
    longer_than = counts[::-1].cumsum()[::-1] - counts  # records with more tokens than the index
    places = longer_than.copy()  # where the next record of each number of tokens goes
    with disk_errors(path):
        rows = np.lib.format.open_memmap(path, "w+", np.dtype("<i8"), (listed, 2))
        for first, longer in _longer_sides(lengths):
            chosen = np.flatnonzero(places[longer] < listed)
            chosen = chosen[np.argsort(longer[chosen], kind="stable")]
            tokens, begins, each = np.unique(longer[chosen], return_index=True, return_counts=True)
            place = np.repeat(places[tokens] - begins, each) + np.arange(len(chosen))
            fits = place < listed
            rows[place[fits], 0] = longer[chosen[fits]]
            rows[place[fits], 1] = first + chosen[fits]
            places[tokens] += each
        rows.flush()


def too_long(
    path: Path, lengths: Int32[np.ndarray, "n 2"], shape: Sequence[int]
) -> Int64[np.ndarray, "m"]:
    """Returns the records, in order, of which a side does not fit into a row with its EOS.

    Args:
      path: the language's list; it may be absent.
      lengths: tokens of source and target of every record, without EOS.
      shape: tokens of a source and of a target row.

    Raises:
      ValueError: the list is damaged.
    """
    least = min(shape)
    rows = _read(path, len(lengths)) if path.is_file() else None
    if rows is None or rows[-1, 0] >= least:  # not all candidates are listed
        return scan(lengths, shape)
    end = bisect.bisect_right(range(len(rows)), -least, key=lambda row: -int(rows[row, 0]))
    records = np.sort(rows[:end, 1])
    if shape[0] == shape[1]:
        return records
    return records[(lengths[records] >= np.array(shape)).any(axis=1)]


def scan(lengths: Int[np.ndarray, "n 2"], shape: Sequence[int]) -> Int64[np.ndarray, "m"]:
    """Returns the same by a pass over all lengths."""
    found = [np.zeros(0, np.int64)]
    for first in range(0, len(lengths), _AT_ONCE):
        part = lengths[first : first + _AT_ONCE]
        unfit = (part[:, 0] >= shape[0]) | (part[:, 1] >= shape[1])
        found.append(first + np.flatnonzero(unfit))
    return np.concatenate(found)


def _read(path: Path, count: int) -> Int64[np.ndarray, "m 2"]:
    try:
        rows = np.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is damaged ({error}): build the cache again") from error
    if rows.shape != (count // _PART, 2) or rows.dtype != np.int64:
        raise ValueError(
            f"{path} is damaged: it has {rows.dtype} {rows.shape}, by the manifest it is int64 "
            f"{(count // _PART, 2)}: build the cache again"
        )
    return rows


def _longer_sides(
    lengths: Int32[np.ndarray, "n 2"],
) -> Iterator[tuple[int, Int[np.ndarray, "_"]]]:
    """Yields the first record of each part, and the tokens of the longer side of its records."""
    for first in range(0, len(lengths), _AT_ONCE):
        part = lengths[first : first + _AT_ONCE]
        yield first, np.maximum(part[:, 0], part[:, 1])


def _sum(a: Int[np.ndarray, "m"], b: Int[np.ndarray, "n"]) -> Int[np.ndarray, "_"]:
    total = np.zeros(max(len(a), len(b)), np.int64)
    total[: len(a)] += a
    total[: len(b)] += b
    return total


class Omitted:
    """The records of a language without its omitted ones: maps an index to a record.

    It holds 16 bytes per gap, a run of omitted records, and nothing per other record.

    Args:
      starts, sizes: the gaps, in order, without overlap.

    >>> Omitted(np.array([1, 4]), np.array([2, 1])).records(np.arange(4))  # without 1, 2 and 4
    array([0, 3, 5, 6])
    """

    def __init__(self, starts: Int64[np.ndarray, "gaps"], sizes: Int64[np.ndarray, "gaps"]):
        through = np.concatenate([[0], np.cumsum(sizes)])
        self.count = int(through[-1])
        self._through = through  # records omitted before each gap, and at the end
        self._indices = starts - through[:-1]  # index of the first record after each gap

    def record(self, index: int) -> int:
        """Returns the record of an index."""
        if not self.count:
            return index
        return index + int(self._through[self._indices.searchsorted(index, side="right")])

    def records(self, indices: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        """Returns the record of each index."""
        if not self.count:
            return indices
        return indices + self._through[self._indices.searchsorted(indices, side="right")]
