"""Reads rates of saving and restarting from the `timings.jsonl` of a run."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmt import timings
from mmt.run import Run

_READING = "reading the checkpoint"  # a part of a start
_MAX_SIZE_RATIO = 10.0  # ratio of sizes up to which rates are used without a warning


@dataclass(frozen=True)
class MeasuredRun:
    """Medians of the saves and restarts of a run.

    Bytes per second are those of a host, so they hold for other sizes. For a small checkpoint most
    of the time does not depend on its size, and they are too low for a large one.

    Attributes:
        directory: of the run.
        bytes: of a checkpoint, on one host.
        blocked_rate: bytes per second while a save keeps training waiting.
        storage_rate: bytes per second from the beginning of a save until it is complete.
        restore_rate: bytes per second of verifying and reading a checkpoint.
        restart_seconds: from the start of the process to the first step, without reading.
        parts: the seconds of a restart by what it does, in order, with reading.
    """

    directory: Path
    bytes: float
    blocked_rate: float
    storage_rate: float
    restore_rate: float
    restart_seconds: float
    parts: dict[str, float]

    def note(self, host_bytes: float) -> str:
        """Returns a note on the source of the constants.

        host_bytes: bytes of a checkpoint per host, in the run to forecast.
        """
        text = f"saving and restarting as measured in {self.directory}"
        if host_bytes > _MAX_SIZE_RATIO * self.bytes:
            text += (f"; its checkpoint has {self.bytes / 1e6:,.1f} MB per host, this one "
                     f"{host_bytes / 1e6:,.1f}: seconds that do not depend on the size are counted "
                     "as if they did")  # fmt: skip
        return text


def read(directory: str | Path) -> MeasuredRun:
    """Returns the constants of a run.

    Raises:
        ValueError: the directory is missing; the run was not resumed by a command, or has no save.
    """
    run = Run(directory)
    if not run.directory.is_dir():
        raise ValueError(f"{run.directory}: no such directory{run.nearest()}")
    rows = _with_processes(timings.read(run))
    saves = [row for row in rows if "save" in row]
    restarts = [row for row in rows if row.get("read_bytes") and _READING in row["parts"]]
    if not saves or not restarts:
        reason = "no save" if not saves else "no restart: stop it once, and run it again"
        raise ValueError(f"{run.timings} has {reason}")
    parts = {
        name: statistics.median(row["parts"].get(name, 0.0) for row in restarts)
        for name in restarts[-1]["parts"]
    }

    def rate(seconds: str) -> float:
        return statistics.median(
            row["bytes"] / row["processes"] / max(row[seconds], 1e-4) for row in saves
        )

    return MeasuredRun(
        run.directory,
        bytes=statistics.median(row["bytes"] / row["processes"] for row in saves),
        blocked_rate=rate("blocked"),
        storage_rate=rate("seconds"),
        restore_rate=statistics.median(
            row["read_bytes"] / row["processes"] / max(row["parts"][_READING], 1e-4)
            for row in restarts
        ),
        restart_seconds=statistics.median(
            row["seconds"] - row["parts"][_READING] for row in restarts
        ),
        parts=parts,
    )


def _with_processes(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows, each save with the processes of the start before it.

    A run may go on with another number of processes. Saves before the first start had those of it.
    """
    processes = next((row["processes"] for row in rows if "processes" in row), 1)
    complete_rows = []
    for row in rows:
        processes = row.get("processes", processes)
        complete_rows.append({**row, "processes": processes})
    return complete_rows
