"""Trainings of two processes of which one is killed, for benchmarks/goodput.

`mmt launch` runs docs/launch/slurm.sbatch unchanged. When one process is killed, the other has to
notice it and end, and the script is requeued: it starts both again from the last checkpoint.

Seconds are CPU seconds of both processes, which share one core; see `killed_runs` for the reason.
The time from the kill until both have ended is mostly waiting, so it is in seconds of the clock.
"""

import contextlib
import functools
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.goodput.killed_runs import (
    Bench,
    constants,
    cpu_seconds,
    kill_until_done,
    last_line,
)
from mmt import timings
from mmt.run import Run, read_metrics

Row = dict[str, Any]

PROCESSES = 2
REFERENCE = ((200, 200), (400, 20))  # (steps, period) of the starts of an unkilled run
STEPS, PERIODS, MEAN = 600, (100, 300), 50.0  # of the killed runs; seconds between kills
FLAGS = (  # the smallest model, since both processes compile at each start
    "--gin_file=gin_configs/meshes/data.gin", "--gin.transformer.Config.encoder_layers=1",
    "--gin.transformer.Config.decoder_layers=1",
)  # fmt: skip
SCRIPT = "docs/launch/slurm.sbatch"
MESSAGES = ("lost another one", "another task died")  # of a process that notices the death
_POLL = 0.02  # seconds
_PATIENCE = 900.0  # seconds until the processes must have started, or ended after a kill


class Launcher:
    """`mmt launch` with the batch script; a context that ends it."""

    def __init__(self, bench: Bench, name: str, steps: int, period: int) -> None:
        self.run, self.steps = Run(bench.folder / name), steps
        self.stderr = bench.folder / f"{name}.stderr"
        flags = [*bench.flags(self.run.directory, steps, period), *FLAGS]
        command = [sys.executable, "-m", "mmt.cli", "launch", "--file", SCRIPT, "--processes",
                   str(PROCESSES), "--", *flags]  # fmt: skip
        environment = {**bench.environment, "CONFIG": "gin_configs/models/tiny.gin",
                       "RUN": str(self.run.directory), "MOST_RESTARTS": "1000"}  # fmt: skip
        with self.stderr.open("ab") as stderr:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=stderr,
            )  # fmt: skip

    def __enter__(self) -> "Launcher":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def life(self, victim: int, number: int = signal.SIGKILL) -> "LaunchedLife":
        """Returns the processes of the next start, as soon as all of them run.

        victim, number: the process to kill, and the signal for it.
        """
        deadline = time.monotonic() + _PATIENCE
        while len(tasks := self._tasks()) < PROCESSES:
            self.check()
            if time.monotonic() > deadline:
                raise self.failure(f"only the processes {sorted(tasks)} have been started")
            time.sleep(_POLL)
        return LaunchedLife(self, tasks, victim, number)

    def done(self) -> bool:
        """Returns whether the last checkpoint is complete."""
        return self.run.checkpoint(self.steps).is_dir()

    def end(self) -> None:
        """Waits for the end. Raises OSError if it fails."""
        if status := self._process.wait():
            raise self.failure(f"ended with status {status}")

    def check(self) -> None:
        """Raises OSError if the launcher has ended before the run is done."""
        if self._process.poll() is not None and not self.done():
            raise self.failure(f"ended with status {self._process.returncode}")

    def failure(self, reason: str) -> OSError:
        """Returns an error with the last line of stderr."""
        return OSError(f"{SCRIPT}: {reason}: {last_line(self.stderr)}")

    def _tasks(self) -> dict[int, int]:
        """Returns {index: id} of the processes that train: they lead a session of their own."""
        found = {}
        mine = f"RUN={self.run.directory}".encode()
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                pid = int(folder.name)
                variables = (folder / "environ").read_bytes().split(b"\0")
                index = next(
                    (int(v[13:]) for v in variables if v.startswith(b"SLURM_PROCID=")), None
                )
                if index is not None and mine in variables and os.getsid(pid) == pid:
                    found[index] = pid
        return found


class LaunchedLife:
    """The processes from their start until one is killed, or until the run is done.

    Attributes:
        starting: seconds until the first step was done; None until then.
        detection: seconds of the clock from the kill until all had ended.
        noticed: of MESSAGES, that of a process that noticed the kill; '' if none did.
    """

    def __init__(self, launcher: Launcher, tasks: dict[int, int], victim: int, number: int) -> None:
        self._launcher, self._tasks, self.victim, self._signal = launcher, tasks, victim, number
        self._starts = len(start_rows(launcher.run))
        self._used = dict.fromkeys(tasks, 0.0)
        self.starting: float | None = None
        self.detection, self.noticed = 0.0, ""

    def seconds(self) -> float:
        """Returns the CPU seconds of all processes."""
        for index, pid in self._tasks.items():
            with contextlib.suppress(OSError):  # it has ended
                self._used[index] = cpu_seconds(pid)
        used = sum(self._used.values())
        if self.starting is None and len(start_rows(self._launcher.run)) > self._starts:
            self.starting = used
        return used

    def done(self) -> bool:
        """Returns whether the last checkpoint is complete."""
        return self._launcher.done()

    def pause(self) -> None:
        """Lets a little time pass. Raises OSError if a process has ended before the run is done."""
        time.sleep(_POLL)
        self._launcher.check()
        ended = [index for index, pid in self._tasks.items() if not _runs(pid)]
        if ended and not self.done():
            raise self._launcher.failure(f"process {ended[0]} ended by itself")

    def kill(self) -> None:
        """Kills one process, and waits until all have ended."""
        before = self._launcher.stderr.stat().st_size
        os.kill(self._tasks[self.victim], self._signal)
        began = time.monotonic()
        while any(map(_runs, self._tasks.values())):
            if time.monotonic() - began > _PATIENCE:
                raise self._launcher.failure(f"process {self.victim} was killed, others run")
            time.sleep(_POLL)
        self.detection = round(time.monotonic() - began, 2)
        time.sleep(1)  # for the last lines of the launcher
        with self._launcher.stderr.open("rb") as file:
            file.seek(before)
            text = file.read().decode(errors="replace")
        self.noticed = next((message for message in MESSAGES if message in text), "")

    def end(self) -> None:
        """Waits for the end. Raises OSError if it fails."""
        self._launcher.end()


def unkilled(bench: Bench, name: str, parts: Sequence[tuple[int, int]] = REFERENCE) -> Row:
    """Trains a run in several starts without kills, and returns its constants."""
    lives: list[LaunchedLife] = []
    seconds = [finished(bench, name, steps, period, lives) for steps, period in parts]
    starts = iter(lives)
    rows = [
        {**row, "cpu_seconds": next(starts).starting if "start" in row
         else PROCESSES * row["cpu_seconds"]}  # in a save all processes do the same
        for row in timings.read(Run(bench.folder / name))
    ]  # fmt: skip
    return constants(parts, seconds, rows)


def finished(
    bench: Bench, name: str, steps: int, period: int, lives: list[LaunchedLife]
) -> float:
    """Trains a run without kills, adds its life to `lives`, and returns its seconds."""
    with Launcher(bench, name, steps, period) as launcher:
        start = functools.partial(_next_life, launcher, lives, itertools.repeat(0))
        return next(kill_until_done(start, itertools.repeat(np.inf))).seconds


def detections(bench: Bench, name: str, signals: Sequence[tuple[int, int]]) -> list[Row]:
    """Returns how long it takes until all processes have ended, for each (victim, signal).

    Each is killed a few steps after the first.
    """
    rows = []
    with Launcher(bench, name, steps=10**6, period=10**6) as launcher:
        for victim, number in signals:
            life = launcher.life(victim, number)
            while life.seconds() < (life.starting or np.inf) + 1.0:
                life.pause()
            life.kill()
            rows.append({"victim": victim, "signal": signal.Signals(number).name,
                         "seconds": life.detection, "noticed": life.noticed})  # fmt: skip
    return rows


def killed(
    bench: Bench, name: str, *, period: int, seed: int, steps: int = STEPS, mean: float = MEAN
) -> Row:
    """Trains a run of which a random process is killed, and returns its row."""
    random, began = np.random.default_rng(seed), time.monotonic()
    victim = np.random.default_rng([seed, 1])
    limits = (float(random.exponential(mean)) for _ in itertools.count())
    victims = (int(victim.integers(PROCESSES)) for _ in itertools.count())
    lives: list[LaunchedLife] = []
    rows: list[Row] = []
    computed = resumed = 0
    with Launcher(bench, name, steps, period) as launcher:
        start = functools.partial(_next_life, launcher, lives, victims)
        for life in kill_until_done(start, limits):
            logged = read_metrics(launcher.run.directory / "metrics.jsonl")
            reached = max((row["step"] for row in logged), default=0)
            ended, reached = lives[-1], max(reached, resumed)
            rows.append({
                "seconds": round(life.seconds, 2), "resumed": resumed, "reached": reached,
                "starting": round(life.seconds if ended.starting is None else ended.starting, 2),
                **({"victim": ended.victim, "detection": ended.detection, "noticed": ended.noticed}
                   if life.killed else {}),
            })  # fmt: skip
            computed += reached - resumed
            resumed = launcher.run.last_step()
    detection = sum(row.get("detection", 0.0) for row in rows)
    return {
        "processes": PROCESSES, "steps": steps, "period": period, "seed": seed, "mean": mean,
        "seconds": round(sum(row["seconds"] for row in rows) + detection, 2),
        "failures": len(rows) - 1, "steps_again": computed - steps,
        "starting": round(sum(row["starting"] for row in rows), 2),
        "detection": round(detection, 2), "wall_seconds": round(time.monotonic() - began, 1),
        "lives": rows,
    }  # fmt: skip


def _next_life(
    launcher: Launcher, lives: list[LaunchedLife], victims: Iterator[int]
) -> LaunchedLife:
    lives.append(launcher.life(next(victims)))
    return lives[-1]


def start_rows(run: Run) -> list[Row]:
    """Returns the rows of starts in `timings.jsonl`."""
    return [row for row in timings.read(run) if "start" in row]


def _runs(pid: int) -> bool:
    """Returns whether a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
