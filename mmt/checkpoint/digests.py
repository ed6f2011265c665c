"""Checks that a checkpoint's files are unchanged, by the sizes and CRCs stored with them.

Orbax's OCDBT format checks its lists of arrays but not the arrays. A third of a checkpoint's bytes
can be flipped, and wrong numbers are restored without an error. This module does not interpret the
files.
"""

import concurrent.futures
import fnmatch
import hashlib
import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

from mmt.run import Run

FILE = "digests.json"
_CHUNK = 1 << 22
_THREADS = 8  # zlib releases the interpreter lock


def write(directory: Path) -> None:
    """Stores size and CRC-32 of every file in the folders of `directory` in `digests.json` there.

    A CRC-32 detects every burst of up to 32 bits and misses other damage with probability 2^-32. It
    protects against faulty disks, not against manipulation. Raises OSError if the file cannot be
    written.
    """
    names = sorted(_files(directory))
    digests = dict(zip(names, _digests(directory, names), strict=True))
    text = json.dumps({"digest": "crc32", "files": digests}, indent=0)
    (directory / FILE).write_text(text + "\n", encoding="utf-8")


def has_digests(directory: Path) -> bool:
    """Returns whether `digests.json` exists; older checkpoints and other programs have none."""
    return (directory / FILE).is_file()


def size(directory: Path) -> int:
    """Returns the bytes of all files in the folders of a checkpoint."""
    return sum(_files(directory).values())


def of_steps(run: Run, steps: Sequence[int]) -> str:
    """Returns one digest of the parameters of several checkpoints, from their stored digests.

    Without `digests.json` the SHA-256 sums of a published model are used, else the step.
    """
    digest = hashlib.blake2b(digest_size=8)
    for step in steps:
        recorded = (run.checkpoint(step) / FILE, run.hashes)
        content = (file.read_bytes() for file in recorded if file.is_file())
        digest.update(next(content, str(step).encode()))
    return digest.hexdigest()


def verify(directory: Path, pattern: str = "*", *, part: tuple[int, int] = (0, 1)) -> str:
    """Returns a description of the first file that was changed; '' without damage or digests.

    part: (i, n) checks every n-th file from the i-th, so that n processes share the work.

    >>> verify(Path("run/checkpoints/6"), "params/*")  # doctest: +SKIP
    'params/d/4ab3e5 is missing'
    """
    if not has_digests(directory):
        return ""
    try:
        files = json.loads((directory / FILE).read_text(encoding="utf-8"))["files"]
        stored = {str(name): (int(size), int(crc)) for name, (size, crc) in files.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return f"{FILE} cannot be read"
    names = [name for name in sorted(stored) if fnmatch.fnmatch(name, pattern)]
    names = names[part[0] :: part[1]]
    sizes = _files(directory)
    for name in names:
        if name not in sizes:
            return f"{name} is missing"
        if sizes[name] != stored[name][0]:
            return f"{name} has {sizes[name]} bytes of {stored[name][0]}"
    for name, digest in zip(names, _digests(directory, names), strict=True):
        if digest != stored[name]:
            return f"{name} has other bytes than were written"
    return ""


def set_aside(directory: Path) -> Path:
    """Renames a damaged directory, so that it is no longer used, and returns the new path."""
    names = (f"{directory.name}.damaged{n or ''}" for n in range(1000))
    new = next(path for path in map(directory.with_name, names) if not path.exists())
    os.rename(directory, new)
    return new


def _files(directory: Path) -> dict[str, int]:
    """Returns the size of every file by name, without Orbax's time stamps."""
    sizes = {}
    for path in directory.glob("*/**/*"):
        if path.is_file():
            sizes[path.relative_to(directory).as_posix()] = path.stat().st_size
    return sizes


def _digests(directory: Path, names: Sequence[str]) -> list[tuple[int, int]]:
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(_digest, (directory / name for name in names)))


def _digest(path: Path) -> tuple[int, int]:
    """Returns size and CRC-32."""
    size = crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            size, crc = size + len(chunk), zlib.crc32(chunk, crc)
    return size, crc
