"""Processes own whole virtual shards: every row once; the error names the possible numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmt.data.process_batches import ProcessRows


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 8))
def test_every_virtual_shard_is_of_one_process(processes, shards_each, rows_each):
    shards = processes * shards_each
    batch_size = shards * rows_each
    size = batch_size // processes
    numbers = []
    for process in range(processes):
        rows = ProcessRows(batch_size, shards, (range(process * size, (process + 1) * size),))
        rows.check()
        numbers += rows.shard_numbers()
    assert numbers == list(range(shards))


def test_rows_of_half_a_virtual_shard_are_refused():
    with pytest.raises(ValueError, match="2 virtual shards of 4 rows .* a multiple of 4 that"):
        ProcessRows(8, 2, (range(2),)).check()
    with pytest.raises(ValueError, match="batch_size 8 must be a positive multiple"):
        ProcessRows(8, 3, (range(8),)).check()
