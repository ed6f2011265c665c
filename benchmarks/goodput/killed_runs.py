"""Real trainings that are killed at random moments, for benchmarks/goodput.

All seconds are CPU seconds of the training process, which is bound to one core: other load on the
machine changes them little. A process is killed when it has used the seconds that
`numpy.random.default_rng(seed).exponential(mean)` draws, one number for each start. The simulator
draws the same numbers, so that each killed run has a forecast of its own.
"""

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks.faulty_run import LENGTH, PIECES, make_cache
from mmt import timings
from mmt.run import Run, read_metrics

ROWS = 8  # of a batch
REFERENCE = ((800, 800), (1200, 50), (1600, 50))  # (steps, period) of the starts of an unkilled run
_POLL = 0.01  # seconds


class Process(Protocol):
    """A training that has been started."""

    def seconds(self) -> float:
        """Returns the seconds that it has used."""

    def done(self) -> bool:
        """Returns whether the last checkpoint is complete."""

    def pause(self) -> None:
        """Lets a little time pass. Raises OSError if it has ended before it is done."""

    def kill(self) -> None:
        """Kills it."""

    def end(self) -> None:
        """Waits for its end. Raises OSError if it fails."""


class Life(NamedTuple):
    """A process from its start until it is killed, or until the last checkpoint is complete."""

    seconds: float
    killed: bool


def kill_until_done(start: Callable[[], Process], limits: Iterator[float]) -> Iterator[Life]:
    """Starts a training again and again, and kills each process after the next of `limits`.

    limits: seconds of each process. Yields each life at its end.
    """
    killed = True
    while killed:
        process, limit = start(), next(limits)
        while not (done := process.done()) and process.seconds() < limit:
            process.pause()
        seconds, killed = process.seconds(), not done
        process.kill() if killed else process.end()
        yield Life(seconds, killed)


class Training:
    """`mmt train` of a tiny model in a process of its own."""

    def __init__(self, bench: "Bench", name: str, steps: int, period: int) -> None:
        self._directory, self._steps = bench.folder / name, steps
        self._stderr = bench.folder / f"{name}.stderr"
        with self._stderr.open("ab") as stderr:
            self._process = subprocess.Popen(
                bench.command(self._directory, steps, period), env=bench.environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
            )  # fmt: skip

    def seconds(self) -> float:
        return cpu_seconds(self._process.pid)

    def done(self) -> bool:
        return Run(self._directory).checkpoint(self._steps).is_dir()

    def pause(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_POLL)
            if not self.done():
                self._fail()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        if self._process.wait():
            self._fail()

    def _fail(self) -> None:
        status = self._process.returncode
        raise OSError(f"the training ended with status {status}: {last_line(self._stderr)}")


class Bench:
    """A folder with a token cache and the runs that are trained from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ, "JAX_PLATFORMS": "cpu", "MMT_DATA": str(folder / "data"),
            "JAX_COMPILATION_CACHE_DIR": str(folder / "programs"),
        }  # fmt: skip
        make_cache(folder / "cache")

    def command(self, directory: Path, steps: int, period: int) -> list[str]:
        """Returns the command of a training."""
        flags = ["--gin_file=gin_configs/models/tiny.gin", *self.flags(directory, steps, period)]
        return [sys.executable, "-m", "mmt.cli", "train", *flags]

    def flags(self, directory: Path, steps: int, period: int) -> list[str]:
        """Returns the flags of a training beside its model."""
        bindings = {
            "MODEL_DIR": str(directory), "CACHE_DIR": str(self.folder / "cache"),
            "MIXTURE_OR_TASK_NAME": "made_up", "VOCAB_SIZE": PIECES, "BATCH_SIZE": ROWS,
            "TASK_FEATURE_LENGTHS": {"inputs": LENGTH, "targets": LENGTH}, "TRAIN_STEPS": steps,
            "CHECKPOINT_PERIOD": period, "checkpoint.Policy.minutes": 0, "train.train.hooks": (),
            "train.Trainer.log_every": 1,
        }  # fmt: skip
        given = [f"--gin.{name}={value!r}" for name, value in bindings.items()]
        return ["--gin_file=gin_configs/runs/train.gin", *given]

    def start(self, name: str, steps: int, period: int) -> Training:
        """Starts a training, or resumes it."""
        return Training(self, name, steps, period)

    def unkilled(self, name: str, parts: Sequence[tuple[int, int]]) -> dict[str, Any]:
        """Trains a run in several starts without kills, and returns the constants of its rows."""
        seconds = [
            life.seconds
            for steps, period in parts
            for life in kill_until_done(lambda: self.start(name, steps, period), iter([np.inf]))  # noqa: B023
        ]
        return constants(parts, seconds, timings.read(Run(self.folder / name)))

    def killed(
        self, name: str, *, steps: int, period: int, seed: int, mean: float
    ) -> dict[str, Any]:
        """Trains a run that is killed, and returns its row."""
        random, began = np.random.default_rng(seed), time.monotonic()
        limits = (float(random.exponential(mean)) for _ in iter(int, 1))
        start = lambda: self.start(name, steps, period)  # noqa: E731
        lives: list[dict[str, Any]] = []
        computed = resumed = 0
        for life in kill_until_done(start, limits):
            logged = read_metrics(self.folder / name / "metrics.jsonl")
            reached = max((row["step"] for row in logged), default=0)
            lives.append({"seconds": round(life.seconds, 2), "resumed": resumed,
                          "reached": max(reached, resumed)})  # fmt: skip
            computed += max(reached, resumed) - resumed
            resumed = Run(self.folder / name).last_step()
        rows = [row for row in timings.read(Run(self.folder / name)) if "start" in row]
        # A process that was killed before its first step has no row: it only started.
        starting = sum(row["cpu_seconds"] for row in rows)
        starting += sum(life["seconds"] for life in lives if life["reached"] == life["resumed"])
        return {
            "steps": steps, "period": period, "seed": seed, "mean": mean,
            "seconds": round(sum(life["seconds"] for life in lives), 2),
            "failures": len(lives) - 1, "steps_again": computed - steps,
            "starting": round(starting, 2), "wall_seconds": round(time.monotonic() - began, 1),
            "lives": lives,
        }  # fmt: skip


def cpu_seconds(pid: int) -> float:
    """Returns the CPU seconds of a process. Raises OSError if there is none."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def last_line(file: Path) -> str:
    """Returns the last line of a file; '' if it is empty."""
    return "".join(file.read_text(errors="replace").splitlines()[-1:])


def constants(
    parts: Sequence[tuple[int, int]], seconds: Sequence[float], rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Returns the constants of an unkilled run for the simulator, in CPU seconds.

    Seconds of a step and of a save are those that fit the starts best: a save takes time in the
    background too, which lengthens the steps beside it.

    Args:
        parts: (steps at the end, period) of each start.
        seconds: CPU seconds of each start, until its last checkpoint is complete.
        rows: of `timings.jsonl`.
    """
    starts = [row for row in rows if "start" in row]
    saves = [row for row in rows if "save" in row]
    counts, before = [], 0
    for steps, period in parts:
        made = steps // period - before // period + (steps % period > 0)
        counts.append((steps - before, made))
        before = steps
    training = [total - row["cpu_seconds"] for total, row in zip(seconds, starts, strict=True)]
    step, save = np.linalg.lstsq(np.array(counts, float), np.array(training), rcond=None)[0]
    latency = statistics.median(row["cpu_seconds"] for row in saves)
    again = [row for row in starts if row["start"]]
    return {
        "step": round(float(step), 5), "save": round(float(save), 4),
        "write": round(max(latency - float(save), 0.0), 4),
        "start": statistics.mean(row["cpu_seconds"] for row in starts if not row["start"]),
        "restart": round(statistics.mean(row["cpu_seconds"] for row in again), 3),
        "wall": {
            "restart": round(statistics.mean(row["seconds"] for row in again), 2),
            "parts": {name: round(statistics.mean(row["parts"].get(name, 0.0) for row in again), 3)
                      for name in again[0]["parts"]},
            "first_step": round(statistics.mean(row["first_step"] for row in again), 4),
            "blocked": round(statistics.median(row["blocked"] for row in saves), 4),
            "complete": round(statistics.median(row["seconds"] for row in saves), 4),
            "bytes": saves[-1]["bytes"],
        },
    }  # fmt: skip
