"""Finds the examples that are too long for a row without reading the lengths of all.

A large language has `<language>.longest.npy` beside its records: int64 [n // 16, 2], the tokens of
the longer side and the record, for the longest sixteenth of its n records, the longest first. Other
limits, and older caches, need a pass over `<language>.lengths.npy`.
"""

import bisect
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int, Int32, Int64

from mmt.data.cache.arrays import open_array
from mmt.system.atomic import disk_errors

LEAST_RECORDS = 1 << 17  # a smaller language has no file: a pass over it takes a millisecond
_RECORDS_PER_LISTED = 16  # the longest sixteenth of the records is listed
_CHUNK_RECORDS = 1 << 20  # records in memory at once


def path_of(directory: Path, language: str) -> Path:
    """Returns the path of a language's list."""
    return directory / f"{language}.longest.npy"


def write(path: Path, lengths: Int32[np.ndarray, "n 2"]) -> None:
    """Writes the list of a large language; memory does not grow with the number of records."""
    if len(lengths) < LEAST_RECORDS:
        return
    listed = len(lengths) // _RECORDS_PER_LISTED
    counts = np.zeros(0, np.int64)  # records by tokens
    for _, longer in _longer_sides(lengths):
        counts = _sum(counts, np.bincount(longer))
    longer_than = counts[::-1].cumsum()[::-1] - counts  # records with more tokens than the index
    next_rows = longer_than.copy()  # where the next record of each number of tokens goes
    with disk_errors(path):
        rows = np.lib.format.open_memmap(path, "w+", np.dtype("<i8"), (listed, 2))
        for first, longer in _longer_sides(lengths):
            candidates = np.flatnonzero(next_rows[longer] < listed)
            candidates = candidates[np.argsort(longer[candidates], kind="stable")]
            tokens, group_starts, sizes = np.unique(
                longer[candidates], return_index=True, return_counts=True
            )
            positions = np.repeat(next_rows[tokens] - group_starts, sizes)
            positions += np.arange(len(candidates))
            is_listed = positions < listed
            rows[positions[is_listed], 0] = longer[candidates[is_listed]]
            rows[positions[is_listed], 1] = first + candidates[is_listed]
            next_rows[tokens] += sizes
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
    shortest_row = min(shape)
    listed = len(lengths) // _RECORDS_PER_LISTED
    rows = open_array(path, (listed, 2), np.int64) if path.is_file() else None
    if rows is None or rows[-1, 0] >= shortest_row:  # not all candidates are listed
        return scan(lengths, shape)
    end = bisect.bisect_right(range(len(rows)), -shortest_row, key=lambda row: -int(rows[row, 0]))
    records = np.sort(rows[:end, 1])
    if shape[0] == shape[1]:
        return records
    return records[(lengths[records] >= np.array(shape)).any(axis=1)]


def scan(lengths: Int[np.ndarray, "n 2"], shape: Sequence[int]) -> Int64[np.ndarray, "m"]:
    """Returns the records that `too_long` returns, by a pass over all lengths."""
    records = [np.zeros(0, np.int64)]
    for first in range(0, len(lengths), _CHUNK_RECORDS):
        chunk = lengths[first : first + _CHUNK_RECORDS]
        is_too_long = (chunk[:, 0] >= shape[0]) | (chunk[:, 1] >= shape[1])
        records.append(first + np.flatnonzero(is_too_long))
    return np.concatenate(records)


def _longer_sides(
    lengths: Int32[np.ndarray, "n 2"],
) -> Iterator[tuple[int, Int[np.ndarray, "_"]]]:
    """Yields the first record of each part, and the tokens of the longer side of its records."""
    for first in range(0, len(lengths), _CHUNK_RECORDS):
        chunk = lengths[first : first + _CHUNK_RECORDS]
        yield first, np.maximum(chunk[:, 0], chunk[:, 1])


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
