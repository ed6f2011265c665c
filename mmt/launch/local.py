"""Runs processes on this machine as one job: one log, one end, one exit status."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, NamedTuple

from mmt.launch import with_parent

_GRACE_SECONDS = 10.0  # for the other processes, after the first failure
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # a scheduler, Ctrl-C, a closed terminal
_GRACE_AFTER_SIGNAL = 120.0  # after a SIGTERM, for writing a checkpoint


class Task(NamedTuple):
    """A process to start. environment: variables added to those of this process."""

    command: Sequence[str]
    environment: Mapping[str, str]


class Ended(NamedTuple):
    """The end of a job.

    Attributes:
        status: exit status of the first process that failed, as in a shell; else 0.
        signalled: whether this process received one of SIGNALS.
    """

    status: int
    signalled: bool


def run(tasks: Sequence[Task]) -> Ended:
    """Runs all tasks to their end. Each of their lines is printed with the number of the task.

    Each of SIGNALS is passed on as SIGTERM, and a second SIGINT kills the tasks. If a task fails,
    the others have ten seconds to end by themselves, and are then killed; after a signal they have
    two minutes. On Linux the tasks get SIGTERM too if this process is killed.

    Raises ValueError if a command does not exist.
    """
    processes: list[subprocess.Popen[bytes]] = []
    lock = threading.Lock()
    with _forwarding_signals(processes) as signals:
        try:
            for task in tasks:
                processes.append(_start(task))
            printers = [
                threading.Thread(target=_print, args=(number, source, target, lock), daemon=True)
                for number, process in enumerate(processes)
                for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
            ]
            for printer in printers:
                printer.start()
            status = _wait(processes, signals)
        finally:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with the children of a script
                process.wait()
    for printer in printers:
        printer.join(timeout=5)  # a child of a killed task may hold the pipe open
    return Ended(status, bool(signals))


def free_port(low: int = 0, high: int = 0) -> int:
    """Returns a random free port; of those from `low` to `high` where given.

    The first free one would often be that of another job, which has not begun to listen.
    """
    for port in random.sample(range(low, high + 1), high + 1 - low):
        with contextlib.suppress(OSError), socket.socket() as listening:
            listening.bind(("localhost", port))
            return int(listening.getsockname()[1])
    raise ValueError(f"no port from {low} to {high} is free")


def _start(task: Task) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **task.environment}
    program = task.command[0]
    if shutil.which(program, path=environment.get("PATH", os.defpath)) is None:
        reason = "Permission denied" if os.path.isfile(program) else "No such file or directory"
        raise ValueError(f"cannot start {program}: {reason}")
    # In a session of its own, Ctrl-C reaches a task once: from here.
    return subprocess.Popen(
        with_parent.wrapped(task.command), env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def _wait(processes: Sequence["subprocess.Popen[bytes]"], signals: list[int]) -> int:
    """Waits for all; returns the status of the first that failed."""
    first_status, failure_time = 0, 0.0
    while True:
        codes = [process.poll() for process in processes]
        failed = [(number, code) for number, code in enumerate(codes) if code]
        if failed and not failure_time:
            number, code = failed[0]
            first_status, failure_time = code if code > 0 else 128 - code, time.monotonic()
            if len(processes) > 1 and not signals:
                _report(f"task {number} ended with status {first_status}; the others end too")
        if None not in codes:
            return first_status
        if signals.count(signal.SIGINT) > 1:
            _report("a second Ctrl-C: kills what is left")
            return first_status or 128 + signal.SIGINT
        if failure_time and time.monotonic() - failure_time > (
            _GRACE_AFTER_SIGNAL if signals else _GRACE_SECONDS
        ):
            running = [str(number) for number, code in enumerate(codes) if code is None]
            _report(f"kills what is left: {', '.join(running)}")
            return first_status
        time.sleep(0.05)


@contextlib.contextmanager
def _forwarding_signals(processes: Sequence["subprocess.Popen[bytes]"]) -> Iterator[list[int]]:
    """Forwards signals as SIGTERM inside the `with` statement; yields the received ones."""
    received: list[int] = []

    def forward(number: int, _: object) -> None:
        received.append(number)
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)

    old_handlers = {number: signal.signal(number, forward) for number in SIGNALS}
    try:
        yield received
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


def _print(number: int, source: IO[bytes], target: IO[str], lock: threading.Lock) -> None:
    for line in source:
        text = line.decode(errors="replace").rstrip("\r\n")
        with lock, contextlib.suppress(OSError, ValueError):  # a closed pipe: go on reading
            print(f"{number}: {text}", file=target, flush=True)


def _report(text: str) -> None:
    print(f"mmt launch: {text}", file=sys.stderr, flush=True)
