"""One run at a time in a directory: a lock with the host and the process that hold it.

The file system's lock (`flock`) ends with its process, however that ends, so a killed run leaves
nothing in the way. Where the file system does not carry locks from host to host, the holder counts
in the file, and who comes from another host watches whether it still does.
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
BEAT = 2.0  # seconds between two counts
_PATIENCE = 5  # so many beats without a count, and the holder is gone
_WIDTH = 200  # bytes of the file: it is written over in place, also on a full disk

_held: set[Path] = set()


@contextlib.contextmanager
def held(
    directory: str | Path, *, first: bool = True, agree: Callable[[str], str] = str
) -> Iterator[None]:
    """Locks a directory for this run while the context lasts; makes it where it is missing.

    A second call inside, for the same directory, does nothing. Of the processes of one run only
    the `first` locks; `agree` gives all of them what the first was refused for, '' for nothing
    (`mmt.distributed.held`). Raises ValueError at once where another run holds the directory, with
    its host and process, and where the directory cannot be written.

    >>> with held("runs/mine"):  # doctest: +SKIP
    ...     train()
    """
    path = Path(directory).absolute().resolve() / FILE
    if path in _held:
        yield
        return
    refused, handle, new = "", -1, not path.parent.exists()
    if first:
        try:
            handle = _acquire(path)
        except ValueError as error:
            refused = str(error)
        except OSError as error:
            reason = error.strerror or error
            refused = f"{directory} cannot be written: cannot lock {path}: {reason}"
    if refused := agree(refused):
        raise ValueError(refused)
    stop, beats = threading.Event(), None
    _held.add(path)
    try:
        if handle >= 0:
            beats = threading.Thread(target=_beat, args=(handle, stop), daemon=True)
            beats.start()
        yield
    finally:
        _held.discard(path)
        if beats:
            stop.set()
            beats.join()
            path.unlink(missing_ok=True)
            os.close(handle)
            if new:
                with contextlib.suppress(OSError):  # a run that was refused leaves nothing
                    path.parent.rmdir()


def _acquire(path: Path) -> int:
    """The locked file, open. ValueError names who has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is(path, handle):  # its holder removed it meanwhile
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


def _is(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _wait_for_other_host(path: Path) -> None:
    """Of a lock that was not let go on another host, watches whether its holder still counts."""
    before = _read(path)
    if not before or before.get("host") == socket.gethostname():
        return
    print(f"{path.parent} was not let go by {_holder(path)}: looking whether it lives",
          file=sys.stderr)  # fmt: skip
    end = time.monotonic() + BEAT * _PATIENCE
    while time.monotonic() < end:
        time.sleep(BEAT / 4)
        if _read(path) != before:
            raise ValueError(f"{path.parent} is in use by {_holder(path)}")
    print(f"it does not; {path} is taken over", file=sys.stderr)


def _holder(path: Path) -> str:
    found = _read(path)
    if not found:
        return f"another run ({path})"
    return f"process {found.get('pid')} on host {found.get('host')} ({path})"


def _read(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(handle: int, count: int) -> None:
    text = json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "count": count})
    os.pwrite(handle, (text.ljust(_WIDTH - 1) + "\n").encode(), 0)
    os.fsync(handle)


def _beat(handle: int, stop: threading.Event) -> None:
    count = 0
    while not stop.wait(BEAT):
        count += 1
        with contextlib.suppress(OSError):  # of a full or absent disk others will tell
            _write(handle, count)
