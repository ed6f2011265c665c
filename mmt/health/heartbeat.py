"""`Heartbeat`: the last reported state of a process of a run, and its file."""

import contextlib
import dataclasses
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from mmt import checked
from mmt.checked import within

_FILE_BYTES = 4096  # bytes of a file, which is overwritten in place, also on a full disk
INPUT, DISPATCH, DEVICE, HOOKS = "input", "dispatch", "device", "hooks"  # parts of a step


@dataclass(frozen=True)
class Health:
    """When a run of several processes warns of a host, and when it gives up.

    Raises ValueError for a value that is not allowed.

    Attributes:
        period: seconds between the heartbeats of a process.
        warn_minutes: minutes without progress of any process after which the first one names the
            host that the others wait for.
        hang_minutes: minutes without progress of any process after which all processes print their
            stacks and end with status 75. Until the first step is compiled it is four times as
            long, and later at least three times the longest pause so far; 0: never.
        free_gib: free space in GiB below which a host is named, of the run directory, `$MMT_DATA`
            and the folder of temporary files.
    """

    period: float = field(default=10.0, metadata=within(0, above=True))
    warn_minutes: float = field(default=2.0, metadata=within(0, above=True))
    hang_minutes: float = field(default=15.0, metadata=within(0))
    free_gib: float = field(default=2.0, metadata=within(0))

    def __post_init__(self) -> None:
        checked.check(self)

    @property
    def silence(self) -> float:
        """Returns the seconds without a heartbeat after which a process counts as silent."""
        return max(30.0, 6 * self.period)


@dataclass(frozen=True)
class Heartbeat:
    """The last heartbeat of a process.

    Attributes:
        start: when the run was started, in seconds since 1970: the same for all its processes.
        process, processes: the index of the process, and the number of processes.
        host, pid: where it runs.
        time: when this was written, in seconds since 1970.
        step: the step that the process works at.
        activity: the part of the step: input, dispatch, device (it waits for it), hooks; or a
            phase, such as "validating loss".
        idle: seconds since the process last went from one part to the next.
        compiled: whether the first step was dispatched.
        steps, step_seconds, host_seconds: steps of the last minute, their mean time, and of it the
            time that the host itself needs, for input and dispatch.
        free: free bytes by directory.
        ended: why the process ended; '' if it runs.
        health: the settings of the run.
    """

    start: float
    process: int
    processes: int
    host: str
    pid: int
    time: float
    step: int = 0
    activity: str = "starting"
    idle: float = 0.0
    compiled: bool = False
    steps: int = 0
    step_seconds: float = 0.0
    host_seconds: float = 0.0
    free: dict[str, int] = field(default_factory=dict)
    ended: str = ""
    health: Health = Health()

    @property
    def name(self) -> str:
        """Returns the host and the index of the process."""
        return f"{self.host} (process {self.process})"


def path_of(directory: Path, process: int) -> Path:
    """Returns the file of the heartbeat of a process."""
    return directory / f"{process:05}.json"


def write(handle: int, beat: Heartbeat) -> None:
    """Overwrites the file in place, with the same number of bytes."""
    text = json.dumps(dataclasses.asdict(beat))
    os.pwrite(handle, (text.ljust(_FILE_BYTES - 1) + "\n").encode(), 0)
    os.fsync(handle)


def read(directory: Path) -> list[Heartbeat]:
    """Returns the heartbeats in a directory of the latest start of the run, by process.

    Files of an earlier start are left out; so is a file that is damaged or being written.
    """
    beats = []
    for file in _files(directory):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            content = json.loads(file.read_bytes())
            beat = Heartbeat(**content | {"health": Health(**content["health"])})
            checked.check(beat, max_int=None)
            beats.append(beat)
    latest = max((beat.start for beat in beats), default=0.0)
    return sorted((b for b in beats if b.start == latest), key=lambda beat: beat.process)


def remove_heartbeats(directory: Path) -> None:
    """Removes the heartbeats of earlier starts; their logs stay."""
    for file in _files(directory):
        file.unlink(missing_ok=True)


def _files(directory: Path) -> list[Path]:
    files = directory.glob("*.json") if directory.is_dir() else ()
    return [file for file in files if re.fullmatch(r"\d{5}\.json", file.name)]
