"""Reads sentence pairs from files, one module per family of formats."""

from mmt.data.readers.by_suffix import READERS, count, read

__all__ = [
    "READERS",
    "count",
    "read",
]
