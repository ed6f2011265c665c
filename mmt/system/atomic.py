"""Work on disk that is whole or not there: directories, JSON files, and compressed lines.

Work of many pieces that is interrupted goes on where it was (`working`); what is made at once, as a
cache, begins anew (`replacing`). What is left of other work is cleared away.
"""

import contextlib
import errno
import fcntl
import glob
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zstandard

_LINES = 1000  # written at once


@contextlib.contextmanager
def working(out: Path, key: str) -> Iterator[Path]:
    """The directory beside `out` where work of a `key` goes on; gone when it is done or cannot be
    (ValueError), kept if it is interrupted, until there is work of another key for `out`.

    ValueError where another process is at it, OSError naming `out` where it cannot be made.
    """
    with disk_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    work = out.parent / f".{out.name}.{key}.unfinished"
    for left in out.parent.glob(f".{glob.escape(out.name)}.*.unfinished"):
        if left != work:
            with locked(left) as ours:
                if ours:
                    shutil.rmtree(left)
    with disk_errors(out):
        work.mkdir(exist_ok=True)
    with locked(work) as ours:
        if not ours:
            raise ValueError(f"another process is making {out} (in {work}); wait for it")
        try:
            yield work
        except ValueError:
            shutil.rmtree(work)
            raise
        shutil.rmtree(work)


@contextlib.contextmanager
def replacing(directory: Path, unless: Callable[[], bool]) -> Iterator[Path]:
    """A new directory, which at the very end becomes `directory`, in the place of what was there
    before; it is gone if it cannot be finished, and so are those of killed processes.

    unless: whether what another process has put there meanwhile is as good, and stays.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{directory.name}.building-"
    for left in directory.parent.glob(f"{glob.escape(prefix)}*"):
        with contextlib.suppress(FileNotFoundError), locked(left) as ours:
            if ours:
                shutil.rmtree(left, ignore_errors=True)
    before = _identity(directory)
    with contextlib.ExitStack() as stack:
        ours = False
        while not ours:  # else another process took it for that of a killed one
            work = Path(tempfile.mkdtemp(prefix=prefix, dir=directory.parent))
            with contextlib.suppress(FileNotFoundError):
                ours = stack.enter_context(locked(work)) and work.is_dir()
        try:
            work.chmod(0o755)
            yield work
            while not _moved(work, directory):
                if _identity(directory) != before and unless():
                    return
                with contextlib.suppress(FileNotFoundError):  # another process moved it
                    old = tempfile.mkdtemp(prefix=prefix, dir=directory.parent)
                    directory.rename(Path(old, "old"))
                shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _moved(work: Path, directory: Path) -> bool:
    """Whether there was room for it; an empty directory is room."""
    try:
        work.rename(directory)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _identity(directory: Path) -> tuple[int, int] | None:
    if not directory.exists():
        return None
    found = directory.stat()
    return found.st_dev, found.st_ino


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[bool]:
    """Whether the lock of `directory` could be had; a process that dies leaves its locks free."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ours = True
    except BlockingIOError:
        ours = False
    try:
        yield ours
    finally:
        os.close(handle)


@contextlib.contextmanager
def packed(path: Path) -> Iterator[Callable[[str], None]]:
    """A function that writes a line into a compressed file, which `lines.read` reads."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = zstandard.open(path, "wb")
    buffer: list[str] = []

    def flush() -> None:
        with disk_errors(path):
            file.write("".join(buffer).encode())
        buffer.clear()

    def write(line: str) -> None:
        buffer.append(line + "\n")
        if len(buffer) == _LINES:
            flush()

    try:
        yield write
        flush()
        with disk_errors(path):
            file.close()
    finally:
        with contextlib.suppress(OSError):
            file.close()


def write_json(file: Path, content: Any) -> None:
    """A JSON file that is there whole or not at all: it says that its piece of work is done."""
    with disk_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        half = file.with_suffix(".half")
        half.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
        half.replace(file)


def read_json(file: Path) -> Any:
    """What `write_json` wrote."""
    return json.loads(file.read_text(encoding="utf-8"))


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Raises OSError that names `path` for what fails inside a `with` block.

    ArrayRecord raises RuntimeError when a disk is full; a file object leaves out the path.
    """
    try:
        yield
    except RuntimeError as error:
        raise OSError(f"cannot write {path}: {error}") from error
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error
