"""The rows of one process: which virtual shards it packs, and its batches without prefetching."""

import json
from typing import NamedTuple

from mmt.data.packing import Batch
from mmt.data.virtual_shards import SampleOrder, VirtualShard


class ProcessRows(NamedTuple):
    """The rows of the global batch that this process holds.

    Virtual shard n has the rows [n·k, (n + 1)·k), k = batch_size / virtual_shards.
    """

    batch_size: int
    virtual_shards: int
    rows: tuple[range, ...]

    def check(self) -> None:
        """Raises ValueError if the rows are not those of whole virtual shards."""
        if self.batch_size < 1:
            raise ValueError(f"batch_size {self.batch_size}; allowed: 1 or more")
        if self.virtual_shards < 1 or self.batch_size % self.virtual_shards:
            raise ValueError(
                f"batch_size {self.batch_size} must be a positive multiple of virtual_shards, "
                f"{self.virtual_shards}"
            )
        count, each = sum(map(len, self.rows)), self.batch_size // self.virtual_shards
        if len(self.shard_numbers()) * each != count:
            raise ValueError(
                f"{self.virtual_shards} virtual shards of {each} rows cannot be shared by "
                f"processes with {count} of {self.batch_size} rows each: set "
                "pipeline.train_batches.virtual_shards to a multiple of "
                f"{self.batch_size // count} that divides {self.batch_size}, in a new run"
            )

    def shard_numbers(self) -> list[int]:
        """Returns the virtual shards of this process."""
        each = self.batch_size // self.virtual_shards
        return sorted({row // each for rows in self.rows for row in rows})


class ProcessBatches:
    """The batches of one process, without prefetching; the state is a string (cheap to copy)."""

    def __init__(self, order: SampleOrder, process: ProcessRows, open_rows: int):
        self._split = order.split
        self._rows = process.batch_size // process.virtual_shards
        self._shards = {
            str(number): VirtualShard(order, number, process.virtual_shards, open_rows)
            for number in process.shard_numbers()
        }

    def __next__(self) -> Batch:
        return self._split.batch(
            [shard.row() for shard in self._shards.values() for _ in range(self._rows)]
        )

    def get_state(self) -> str:
        return json.dumps({number: shard.get_state() for number, shard in self._shards.items()})

    def set_state(self, state: str) -> None:
        for number, saved in json.loads(state).items():
            self._shards[number].set_state(saved)
