"""A thread that writes heartbeats, warns of other hosts, and ends a run that hangs.

The training loop sets a few attributes of `StepProgress` per step and never waits.
"""

import collections
import contextlib
import dataclasses
import datetime
import faulthandler
import os
import shutil
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from mmt.health import heartbeat
from mmt.health.diagnosis import DONE, HUNG, HostProblem, examine, stalled, table
from mmt.health.heartbeat import DISPATCH, HOOKS, INPUT, Health, Heartbeat
from mmt.system import termination

_WINDOW = 60.0  # seconds over which times per step are averaged
_HARD_LIMIT_RATIO = 1.5  # times the limit, after which faulthandler ends the process
_LONGEST_PAUSE_RATIO = 3.0  # a process may pause this many times the longest pause so far


class StepProgress:
    """The progress of a training loop, which calls `enter` at each part of a step.

    `heartbeats` writes it in runs of several processes. This class alone only counts.
    """

    def __init__(self, *, count_dispatch: bool = True) -> None:
        """count_dispatch: whether dispatch is the host's own work. On CPUs it may compute."""
        self.step, self.activity, self.compiled = 0, "starting", False
        self._host_activities = (INPUT, DISPATCH) if count_dispatch else (INPUT,)
        self._since = time.perf_counter()
        self.longest = 0.0  # seconds without progress so far
        self.steps, self.host_seconds = 0, 0.0  # in total

    def enter(self, activity: str, step: int) -> None:
        """Records that the process starts another part of a step."""
        now = time.perf_counter()
        elapsed = now - self._since
        if self.activity in self._host_activities and self.compiled:
            self.host_seconds += elapsed
        if activity == HOOKS:
            self.steps += self.compiled
            self.compiled = True
        self.longest = max(self.longest, elapsed)
        self.step, self.activity, self._since = step, activity, now

    def progressed(self, phase: str) -> None:
        """Records progress of a long hook."""
        self.enter(phase, self.step)

    @property
    def idle(self) -> float:
        """Returns the seconds since the last progress."""
        return time.perf_counter() - self._since


@contextlib.contextmanager
def heartbeats(
    progress: StepProgress, first: Heartbeat, directory: Path, *, say: Callable[[str], None],
    disk_directories: tuple[str | Path, ...],
) -> Iterator[None]:  # fmt: skip
    """Writes the heartbeats of `progress` inside the `with` statement.

    Args:
      progress: the counts of the training loop.
      first: the first heartbeat, with start, process and settings.
      directory: of the heartbeats of all processes; it must be shared by all hosts.
      say: called with a line for each new problem, in another thread, in the first process.
      disk_directories: directories whose free space is measured.
    """
    thread = _HeartbeatThread(progress, first, directory, say, disk_directories)
    thread.thread.start()
    try:
        yield
    except BaseException as error:
        lines = str(error).splitlines()
        thread.stop(lines[0] if lines else type(error).__name__)
        raise
    thread.stop(DONE)


class _HeartbeatThread:
    """The thread of `heartbeats`."""

    def __init__(
        self, progress: StepProgress, first: Heartbeat, directory: Path, say: Callable[[str], None],
        disk_directories: tuple[str | Path, ...],
    ) -> None:  # fmt: skip
        self._progress, self._first, self._directory = progress, first, directory
        self._say, self._directories = say, disk_directories
        self._health, self._stop = first.health, threading.Event()
        self._reported: set[tuple[str, tuple[int, ...]]] = set()
        self._ending = False
        directory.mkdir(parents=True, exist_ok=True)
        path = heartbeat.path_of(directory, first.process)
        self._log = path.with_suffix(".log")
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._counts = collections.deque([(time.monotonic(), 0, 0.0)])
        self._write()
        self._append_log(f"started, process {first.process} of {first.processes}, pid {first.pid}")
        self.thread = threading.Thread(target=self._run, daemon=True)

    def stop(self, reason: str) -> None:
        """Writes the last heartbeat and ends the thread."""
        if self._ending:  # the thread is ending this process
            self.thread.join()
        self._stop.set()
        self.thread.join()
        faulthandler.cancel_dump_traceback_later()
        self._append_log(f"ended at step {self._progress.step}: {reason}")
        self._write(reason)
        os.close(self._handle)

    def _run(self) -> None:
        while not self._stop.wait(self._health.period):
            self._write()
            limit = max(
                60 * self._health.hang_minutes, _LONGEST_PAUSE_RATIO * self._progress.longest
            )
            if self._health.hang_minutes:
                # A main thread that hangs and never releases the interpreter stops this one too.
                faulthandler.dump_traceback_later(_HARD_LIMIT_RATIO * limit, exit=True, file=2)
            is_first = not self._first.process
            if not is_first and self._progress.idle < limit / 2:
                continue  # while all is well, only the first process reads all heartbeats
            now, beats = time.time(), heartbeat.read(self._directory)
            problems = examine(beats, now)
            is_alone = any(problem.kind == "missing" for problem in problems)
            is_hung = stalled(beats, now) > limit or any(beat.ended == HUNG for beat in beats)
            if self._health.hang_minutes and is_hung and not is_alone:
                self._end_process(beats, problems)
            if is_first:
                self._report(problems)

    def _report(self, problems: list[HostProblem]) -> None:
        """Prints new problems. A problem that recurs is printed again."""
        for problem in problems:
            if problem[:2] not in self._reported:
                self._say(f"host problem: {problem.text}")
                self._append_log(problem.text)
        self._reported = {problem[:2] for problem in problems}

    def _end_process(self, beats: list[Heartbeat], problems: list[HostProblem]) -> NoReturn:
        """Prints the steps of all hosts and the stacks of this process; ends it with status 75.

        All processes agree by their heartbeats. The first ends last, since its end aborts others.
        """
        self._ending = True
        self._write(HUNG)
        is_first = not self._first.process
        text = f"process {self._first.process} of {self._first.processes} hangs; its threads:\n"
        text += _stacks()
        if is_first:
            names = "\n".join(problem.text for problem in problems)
            text = f"{table(beats, time.time())}\n{names}\n{text}"
        text += f"ended with status {termination.RETRY} (health.Health.hang_minutes); "
        text += "start the run again to resume"
        sys.stdout.flush()
        with contextlib.suppress(OSError):
            os.write(2, "".join(f"mmt: {line}\n" for line in text.splitlines()).encode())
        self._append_log(text)
        deadline = time.monotonic() + 3 * self._health.period
        while time.monotonic() < deadline and not self._all_ended():
            time.sleep(0.05)
        time.sleep(1.0 if is_first else 0.0)
        os._exit(termination.RETRY)

    def _all_ended(self) -> bool:
        """Returns whether all other processes have ended or are silent."""
        beats = heartbeat.read(self._directory)
        return all(beat.ended or time.time() - beat.time > beat.health.silence for beat in beats)

    def _write(self, ended: str = "") -> None:
        """Writes the heartbeat; a failed write is ignored, as other writes report it."""
        progress, now = self._progress, time.monotonic()
        window_start, steps, seconds = self._counts[0]
        self._counts.append((now, progress.steps, progress.host_seconds))
        while now - self._counts[0][0] > _WINDOW:
            self._counts.popleft()
        window_steps = progress.steps - steps
        beat = dataclasses.replace(
            self._first, time=time.time(), step=progress.step, activity=progress.activity,
            idle=progress.idle, compiled=progress.compiled, steps=window_steps,
            step_seconds=(now - window_start) / window_steps if window_steps else 0.0,
            host_seconds=(progress.host_seconds - seconds) / window_steps if window_steps else 0.0,
            free=_free(self._directories), ended=ended[:300],
        )  # fmt: skip
        with contextlib.suppress(OSError):
            heartbeat.write(self._handle, beat)

    def _append_log(self, text: str) -> None:
        """Appends lines to the log of this process, each with time and host.

        `sort -s -k1,1` merges the logs of all processes.
        """
        timestamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        with contextlib.suppress(OSError), self._log.open("a", encoding="utf-8") as file:
            file.writelines(
                f"{timestamp} {self._first.name}: {line}\n" for line in text.splitlines()
            )


def first_heartbeat(start: float, process: int, processes: int, health: Health) -> Heartbeat:
    """Returns the first heartbeat of this process of a run that was started at `start`."""
    host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    return Heartbeat(start, process, processes, host, os.getpid(), time.time(), health=health)


def _free(directories: tuple[str | Path, ...]) -> dict[str, int]:
    """Returns the free bytes of each file system, by the first directory on it."""
    free: dict[int, tuple[str, int]] = {}
    for directory in directories:
        with contextlib.suppress(OSError):
            device = os.stat(directory).st_dev
            if device not in free:
                free[device] = str(directory), shutil.disk_usage(directory).free
    return dict(free.values())


def _stacks() -> str:
    """Returns the stacks of all threads, the main thread last."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sorted(
        sys._current_frames().items(), key=lambda item: item[0] == threading.main_thread().ident
    )
    return "".join(
        f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in frames
        if ident != threading.get_ident()
    )
