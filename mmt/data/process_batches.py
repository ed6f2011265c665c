"""The rows of one process: which virtual shards it packs, alone or in worker processes."""

import json
import multiprocessing
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol

import numpy as np

from mmt.data.modifiers import Change, Changes
from mmt.data.packing import Batch
from mmt.data.virtual_shards import SampleOrder, VirtualShard
from mmt.system import termination

MAX_VIRTUAL_SHARDS = 64  # limit of the default number


class ProcessRows(NamedTuple):
    """The rows of the global batch that this process holds.

    Virtual shard n has the rows [n·k, (n + 1)·k), k = batch_size / virtual_shards.
    """

    batch_size: int
    virtual_shards: int
    rows: tuple[range, ...]

    @classmethod
    def whole(cls, batch_size: int, virtual_shards: int | None = None) -> "ProcessRows":
        """Returns the rows of a single process, checked.

        `virtual_shards` is by default the largest divisor of batch_size up to 64.
        """
        if virtual_shards is None:
            divisors = range(1, MAX_VIRTUAL_SHARDS + 1)
            virtual_shards = max((n for n in divisors if batch_size % n == 0), default=1)
        process = cls(batch_size, virtual_shards, (range(batch_size),))
        process.check()
        return process

    @property
    def rows_per_shard(self) -> int:
        """The number of rows of a virtual shard in a batch."""
        return self.batch_size // self.virtual_shards

    def check(self) -> None:
        """Raises ValueError if the rows are not those of whole virtual shards."""
        if self.batch_size < 1:
            raise ValueError(f"batch_size {self.batch_size}; allowed: 1 or more")
        if self.virtual_shards < 1 or self.batch_size % self.virtual_shards:
            raise ValueError(
                f"batch_size {self.batch_size} must be a positive multiple of virtual_shards, "
                f"{self.virtual_shards}"
            )
        count = sum(map(len, self.rows))
        if len(self.shard_numbers()) * self.rows_per_shard != count:
            raise ValueError(
                f"{self.virtual_shards} virtual shards of {self.rows_per_shard} rows cannot be "
                f"shared by processes with {count} of {self.batch_size} rows each: set "
                "pipeline.train_batches.virtual_shards to a multiple of "
                f"{self.batch_size // count} that divides {self.batch_size}, in a new run"
            )

    def shard_numbers(self) -> list[int]:
        """Returns the virtual shards of this process."""
        return sorted({row // self.rows_per_shard for rows in self.rows for row in rows})

    def parts(self, count: int) -> list[list[range]]:
        """Returns the rows in at most `count` parts of whole virtual shards, in order.

        >>> ProcessRows(8, 4, (range(8),)).parts(3)
        [[range(0, 2), range(2, 4)], [range(4, 6)], [range(6, 8)]]
        """
        shards, size = self.shard_numbers(), self.rows_per_shard
        parts = np.array_split(np.array(shards), min(count, len(shards)))
        return [[range(n * size, (n + 1) * size) for n in part.tolist()] for part in parts]


class ProcessBatches:
    """The batches of one process, without prefetching; the state is a string (cheap to copy)."""

    def __init__(self, order: SampleOrder, process: ProcessRows, open_rows: int):
        self._split = order.split
        self._rows = process.rows_per_shard
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

    def close(self) -> None:
        """Does nothing: there are no worker processes."""


class Shareable(Protocol):
    """The batches that a worker process reads: `pipeline.TrainBatches`."""

    def share(self, rows: Callable[[int], Sequence[range]]) -> None: ...
    def set_state(self, state: Mapping[str, Any]) -> None: ...
    def get_state(self) -> dict[str, Any]: ...
    @property
    def order(self) -> SampleOrder: ...
    def __iter__(self) -> Iterator[Batch]: ...


def check_workers(workers: Any) -> None:
    """Raises ValueError for a wrong number of worker processes."""
    if type(workers) is not int or workers < 0:
        raise ValueError(
            f"pipeline.train_batches.workers is {workers!r}; allowed: whole numbers from 0 on"
        )


class WorkerKilled(OSError):
    """A signal ended a worker process. status: the exit status of a command; it may be repeated."""

    status = termination.RETRY


class WorkerBatches:
    """The batches of `ProcessBatches`, read and packed by worker processes.

    Each worker has some of the virtual shards, so the batches are the same for any number of
    workers. They start at the first batch, and end with this process.

    Args:
      make: returns batches of all rows; pickled for each worker.
      process: the rows of this process.
      workers: number of worker processes, at most one per virtual shard.
      state: the state of `make()` at which they start.
      changed: gets the changes by modifiers that the workers make.
    """

    def __init__(
        self, make: Callable[[], Shareable], process: ProcessRows, workers: int,
        state: Mapping[str, Any], changed: Changes,
    ):  # fmt: skip
        self._changed = changed
        self._make = make
        self._parts = process.parts(workers)
        self._state = state
        self._shards = json.dumps(state["lane"])
        self._workers: list[_Worker] = []

    def __next__(self) -> Batch:
        """Returns the next batch.

        Raises:
          WorkerKilled: a signal ended a worker.
          OSError: a worker could not start.
          Exception: the first error of a worker.
        """
        if not self._workers:
            state = {**self._state, "lane": json.loads(self._shards)}
            for rows in self._parts:
                self._workers.append(_Worker.started(self._make, rows, state))
        received = [worker.receive() for worker in self._workers]
        states = {number: saved for _, shards, _ in received for number, saved in shards.items()}
        self._shards = json.dumps(states)
        for _, _, changes in received:
            self._changed.add(changes)
        batches = [batch for batch, _, _ in received]
        return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}

    def get_state(self) -> str:
        return self._shards

    def set_state(self, state: str) -> None:
        self.close()
        self._shards = state

    def close(self) -> None:
        """Ends the workers."""
        while self._workers:
            self._workers.pop().close()


class _Worker(NamedTuple):
    process: Any  # of multiprocessing
    results: Connection

    @classmethod
    def started(
        cls, make: Callable[[], Shareable], rows: Sequence[range], state: dict[str, Any]
    ) -> "_Worker":
        context = multiprocessing.get_context("spawn")  # forking a process with threads may hang
        results, sender = context.Pipe(duplex=False)
        process = context.Process(
            target=_send_batches, args=(make, rows, state, sender), daemon=True
        )
        process.start()
        sender.close()
        return cls(process, results)

    def receive(self) -> tuple[Batch, dict[str, Any], dict[int, Change | None]]:
        """Returns the next batch of the worker's rows, the state of its shards, and the changes."""
        try:
            result = self.results.recv()
        except (EOFError, OSError):  # between two messages, or in one
            self.process.join()
            status = self.process.exitcode
            if status < 0:
                raise WorkerKilled(
                    "a worker process of pipeline.train_batches was killed by signal "
                    f"{-status} (too little memory?)"
                ) from None
            raise OSError(
                f"a worker process of pipeline.train_batches ended with status {status}; its own "
                'message is above. A script needs `if __name__ == "__main__":` around code that '
                "starts processes, and must be a file"
            ) from None
        if isinstance(result, Exception):
            raise result
        return result

    def close(self) -> None:
        self.results.close()
        self.process.kill()
        self.process.join()


def _send_batches(
    make: Callable[[], Shareable], rows: Sequence[range], state: dict[str, Any], sender: Connection
) -> None:
    """Sends batches, the states of their shards and the changes by modifiers, or an error.

    It ends with the parent.
    """
    for signal_number in (signal.SIGINT, signal.SIGTERM):  # the parent answers them
        signal.signal(signal_number, signal.SIG_IGN)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the parent has shown them
            batches = make()
        batches.share(lambda _: rows)
        batches.set_state(state)
        for batch in batches:
            sender.send((batch, batches.get_state()["lane"], batches.order.changed.take()))
    except (BrokenPipeError, ConnectionResetError):
        pass
    except Exception as error:
        sender.send(error)
