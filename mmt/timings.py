"""The seconds that starts and saves of a run take: `timings.jsonl` in its run directory.

Each start of a training command and each finished save appends a row. Rows stay when a killed run
is resumed:

    {"start": 40, "seconds": 9.1, "cpu_seconds": 7.9, "parts": {"loading libraries": 3.2, ...},
     "first_step": 0.06, "read_bytes": 2837124, "processes": 1}
    {"save": 60, "blocked": 0.05, "seconds": 0.31, "cpu_seconds": 0.33, "bytes": 2837124}

`start` is the step that was resumed, 0 in a new run. Its seconds are those from the start of the
process to its first step, whose own seconds are in `first_step`. `blocked` are seconds without a
step; `seconds` of a save end when the write is seen to be complete, after the next step at the
latest. `cpu_seconds` are of the whole process, also of the steps during a save.
"""

import contextlib
import itertools
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from mmt import distributed
from mmt.checkpoint import Checkpoints, digests
from mmt.run import Run
from mmt.step import Step
from mmt.system import status

_IMPORTED = time.monotonic()
# Only the first run of a command records a start: later ones start in the same process.
_command_starts = itertools.count()


class Timings:
    """A hook that writes the rows, in the first process.

    checkpoints: their saves are recorded. step: the step that was resumed.
    """

    def __init__(
        self, model_dir: str | Path, checkpoints: Sequence[Checkpoints], step: int
    ) -> None:
        self._file = Run(model_dir).timings
        self._checkpoints, self._step = checkpoints, step
        self._read_bytes = sum(digests.size(source.directory / str(step)) for source in checkpoints)
        self._row: dict[str, Any] | None = None  # of this start, until its first step is done
        self._restored, self._first = time.perf_counter(), 0.0
        # Commands show phases. Another program may have done other work before.
        shows_phases = bool(status.seconds())
        self._done = not (distributed.is_first() and shows_phases and next(_command_starts) == 0)
        self._half_line = not _ends_with_newline(self._file)

    def __call__(self, now: Step) -> None:
        if not self._done and now.number > self._step:  # else hooks of the resumed step
            self._record_start(now)
        self.record_saves(now.log)

    def _record_start(self, now: Step) -> None:
        """Records the start at its first step, and writes it when that step is computed."""
        clock = time.perf_counter()
        if self._row is not None:
            self._row["first_step"] = round(clock - self._first, 4)
            self._write([self._row], now.log)
            self._done = True
            return
        self._first = clock
        seconds = _process_seconds()
        parts = {**status.seconds(), "compiling": clock - self._restored}
        parts["other"] = max(seconds - sum(parts.values()), 0.0)
        self._row = {
            "start": self._step, "seconds": round(seconds, 3),
            "cpu_seconds": round(time.process_time(), 3),
            "parts": {name: round(part, 3) for name, part in parts.items()},
            "read_bytes": self._read_bytes, "processes": jax.process_count(),
        }  # fmt: skip

    def record_saves(self, log: Any) -> None:
        """Writes a row for each save that is complete."""
        rows = [
            {"save": write.step, "blocked": round(write.blocked, 4),
             "seconds": round(write.seconds, 4),
             "cpu_seconds": round(write.cpu_seconds, 4), "bytes": write.size}
            for source in self._checkpoints for write in source.written()
        ]  # fmt: skip
        if rows and distributed.is_first():
            self._write(rows, log)

    def _write(self, rows: Sequence[dict[str, Any]], log: Any) -> None:
        text = "\n" * self._half_line + "".join(json.dumps(row) + "\n" for row in rows)
        try:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(text)
            self._half_line = False
        except OSError as error:  # a full disk
            self._half_line = True
            log.say(f"{self._file}: {error.strerror}; training goes on")


def read(run: Run) -> list[dict[str, Any]]:
    """Returns the rows of a run, without half lines of killed starts; [] if it has none."""
    rows = []
    lines = run.timings.read_text(encoding="utf-8").splitlines() if run.timings.exists() else ()
    for line in lines:
        with contextlib.suppress(json.JSONDecodeError):
            rows.append(json.loads(line))
    return rows


def _ends_with_newline(file: Path) -> bool:
    if not file.exists() or not file.stat().st_size:
        return True
    with file.open("rb") as opened:
        opened.seek(-1, os.SEEK_END)
        return opened.read() == b"\n"


def _process_seconds() -> float:
    """Returns the seconds since this process began; without /proc, since this module was loaded."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        # Seconds after the start of the machine.
        process_start = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - process_start
    except (OSError, AttributeError):  # another system
        return time.monotonic() - _IMPORTED
