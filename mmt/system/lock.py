"""Locks a directory for one run at a time, by a file with the host and process of its holder.

The lock of the file system (`flock`) ends with its process, so a killed run leaves no lock. Some
file systems do not share locks between hosts. The holder therefore updates a counter in the file,
and a process on another host checks whether the counter still changes.
"""

import contextlib
import fcntl
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

FILE = "run.lock"
BEAT = 2.0  # seconds between updates of the counter
_MISSED_BEATS = 5  # number of beats without an update after which the holder counts as dead
_FILE_BYTES = 200  # bytes of the file, which is overwritten in place, also on a full disk

_held: set[Path] = set()


@contextlib.contextmanager
def held(
    directory: str | Path, *, first: bool = True, agree: Callable[[str], str] = str
) -> Iterator[None]:
    """Locks a directory for this run inside the `with` statement; creates it if it is missing.

    A second call inside for the same directory has no effect. Of the processes of one run only the
    `first` locks; `agree` sends its error message, '' for none, to all of them
    (`mmt.distributed.held`). Raises ValueError at once if another run holds the directory, with its
    host and process, and if the directory cannot be written.

    >>> with held("runs/mine"):  # doctest: +SKIP
    ...     train()
    """
    path = Path(directory).absolute().resolve() / FILE
    if path in _held:
        yield
        return
    message, handle, is_new = "", -1, not path.parent.exists()
    if first:
        try:
            handle = _acquire(path)
        except ValueError as error:
            message = str(error)
        except OSError as error:
            reason = error.strerror or error
            message = f"{directory} cannot be written: cannot lock {path}: {reason}"
    if message := agree(message):
        raise ValueError(message)
    stop, beat_thread = threading.Event(), None
    _held.add(path)
    try:
        if handle >= 0:
            beat_thread = threading.Thread(target=_beat, args=(handle, stop), daemon=True)
            beat_thread.start()
        yield
    finally:
        _held.discard(path)
        if beat_thread:
            stop.set()
            beat_thread.join()
            path.unlink(missing_ok=True)
            os.close(handle)
            if is_new:
                with contextlib.suppress(OSError):  # not empty: the run has written files
                    path.parent.rmdir()


def _acquire(path: Path) -> int:
    """Opens and locks the file. Raises ValueError with the process that holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_same_file(path, handle):  # its holder has removed it meanwhile
                os.close(handle)
                continue
            _wait_for_other_host(path)
            _write(handle, 0)
        except BlockingIOError:
            os.close(handle)
            raise ValueError(f"{path.parent} is in use by {_holder(path)}") from None
        except BaseException:
            os.close(handle)
            raise
        return handle


def _is_same_file(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _wait_for_other_host(path: Path) -> None:
    """Watches the counter of a lock that a run on another host did not release."""
    last_seen = _read(path)
    if not last_seen or last_seen.get("host") == socket.gethostname():
        return
    print(f"{path.parent} was not released by {_holder(path)}: checking whether it is alive",
          file=sys.stderr)  # fmt: skip
    deadline = time.monotonic() + BEAT * _MISSED_BEATS
    while time.monotonic() < deadline:
        time.sleep(BEAT / 4)
        if _read(path) != last_seen:
            raise ValueError(f"{path.parent} is in use by {_holder(path)}")
    print(f"it is not; taking over {path}", file=sys.stderr)


def _holder(path: Path) -> str:
    holder = _read(path)
    if not holder:
        return f"another run ({path})"
    return f"process {holder.get('pid')} on host {holder.get('host')} ({path})"


def _read(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write(handle: int, count: int) -> None:
    text = json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "count": count})
    os.pwrite(handle, (text.ljust(_FILE_BYTES - 1) + "\n").encode(), 0)
    os.fsync(handle)


def _beat(handle: int, stop: threading.Event) -> None:
    count = 0
    while not stop.wait(BEAT):
        count += 1
        with contextlib.suppress(OSError):  # other writes report a full or absent disk
            _write(handle, count)
