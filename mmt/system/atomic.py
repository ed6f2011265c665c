"""Atomic writes: directories, JSON files and compressed lines that are complete or absent.

Work in many parts resumes after an interruption (`working`); work done at once, such as a cache,
starts again (`replacing`). Remains of other work are removed.
"""

import contextlib
import errno
import fcntl
import glob
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zstandard

_BUFFER_LINES = 1000  # number of lines written at once


@contextlib.contextmanager
def working(out: Path, key: str) -> Iterator[Path]:
    """Yields a directory next to `out` for the unfinished work of a `key`.

    The directory is removed at the end, and after a ValueError. After any other interruption it is
    kept, until work with another key for `out` begins. Raises ValueError if another process uses
    it, and OSError with `out` if it cannot be created.
    """
    with disk_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    work = out.parent / f".{out.name}.{key}.unfinished"
    for stale in out.parent.glob(f".{glob.escape(out.name)}.*.unfinished"):
        if stale != work:
            with locked(stale) as is_locked:
                if is_locked:
                    shutil.rmtree(stale)
    with disk_errors(out):
        work.mkdir(exist_ok=True)
    with locked(work) as is_locked:
        if not is_locked:
            raise ValueError(f"another process is making {out} (in {work}); wait for it")
        try:
            yield work
        except ValueError:
            shutil.rmtree(work)
            raise
        shutil.rmtree(work)


@contextlib.contextmanager
def replacing(directory: Path, unless: Callable[[], bool]) -> Iterator[Path]:
    """Yields a new directory, which replaces `directory` when the `with` statement ends.

    It is removed after an error; those of killed processes are removed too.

    unless: called if another process has written `directory` meanwhile; if it returns True, that
        content stays.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{directory.name}.building-"
    for stale in directory.parent.glob(f"{glob.escape(prefix)}*"):
        with contextlib.suppress(FileNotFoundError), locked(stale) as is_locked:
            if is_locked:
                shutil.rmtree(stale, ignore_errors=True)
    identity = _identity(directory)
    with contextlib.ExitStack() as stack:
        is_locked = False
        while not is_locked:  # else another process removed it as a killed one's
            work = Path(tempfile.mkdtemp(prefix=prefix, dir=directory.parent))
            with contextlib.suppress(FileNotFoundError):
                is_locked = stack.enter_context(locked(work)) and work.is_dir()
        try:
            work.chmod(0o755)
            yield work
            while not _moved(work, directory):
                if _identity(directory) != identity and unless():
                    return
                with contextlib.suppress(FileNotFoundError):  # another process moved it
                    old_parent = tempfile.mkdtemp(prefix=prefix, dir=directory.parent)
                    directory.rename(Path(old_parent, "old"))
                shutil.rmtree(old_parent, ignore_errors=True)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _moved(work: Path, directory: Path) -> bool:
    """Returns whether `work` was moved to `directory`, which must be absent or empty."""
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
    status = directory.stat()
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[bool]:
    """Yields whether `directory` could be locked. The end of a process releases its locks."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_locked = True
    except BlockingIOError:
        is_locked = False
    try:
        yield is_locked
    finally:
        os.close(handle)


@contextlib.contextmanager
def packed(path: Path) -> Iterator[Callable[[str], None]]:
    """Yields a function that writes a line to a compressed file, which `text_lines.read` reads."""
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
        if len(buffer) == _BUFFER_LINES:
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
    """Writes a JSON file atomically. Its presence shows that a part of the work is done."""
    write_bytes(file, json.dumps(content, ensure_ascii=False).encode())


def write_bytes(file: Path, content: bytes) -> None:
    """Writes a file atomically."""
    with disk_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.parent / f".{uuid.uuid4().hex[:12]}.half"  # no other writer has it
        try:
            unfinished.write_bytes(content)
            unfinished.replace(file)
        finally:
            unfinished.unlink(missing_ok=True)


def read_json(file: Path) -> Any:
    """Returns the content of a file of `write_json`."""
    return json.loads(file.read_text(encoding="utf-8"))


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turns errors inside the `with` statement into an OSError that names `path`.

    ArrayRecord raises RuntimeError when a disk is full; errors of file objects lack the path.
    """
    try:
        yield
    except RuntimeError as error:
        raise OSError(f"cannot write {path}: {error}") from error
    except FileExistsError as error:  # of a folder that is to be created
        raise OSError(f"cannot write {path}: {error.filename} is no folder") from error
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error
