"""Whether a checkpoint's files are those that were written: their sizes and CRCs, kept with them.

OCDBT checks its lists of arrays and not the arrays: a third of the bytes of a checkpoint can be
flipped and other numbers come back without a word. Nothing here knows what the files mean.
"""

import concurrent.futures
import fnmatch
import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

FILE = "digests.json"
_CHUNK = 1 << 22
_THREADS = 8  # zlib lets go of the interpreter's lock


def write(directory: Path) -> None:
    """Notes size and CRC-32 of every file in the folders of `directory` in `digests.json` there.

    A CRC-32 notices every burst of up to 32 bits, and else misses one damage of 2^32; it is against
    disks, not against people. OSError where the note cannot be written.
    """
    names = sorted(_files(directory))
    digests = dict(zip(names, _digests(directory, names), strict=True))
    text = json.dumps({"digest": "crc32", "files": digests}, indent=0)
    (directory / FILE).write_text(text + "\n", encoding="utf-8")


def noted(directory: Path) -> bool:
    """Whether there is a note; not in checkpoints of before there were any, and of other programs.
    """
    return (directory / FILE).is_file()


def damage(directory: Path, pattern: str = "*", *, part: tuple[int, int] = (0, 1)) -> str:
    """What of the files that match is not as it was noted, in words; '' where all is, or nothing
    was noted.

    part: (i, n) looks at every n-th file from the i-th: n processes share the work.

    >>> damage(Path("run/checkpoints/6"), "params/*")  # doctest: +SKIP
    'params/d/4ab3e5 is missing'
    """
    if not noted(directory):
        return ""
    try:
        files = json.loads((directory / FILE).read_text(encoding="utf-8"))["files"]
        noted_digests = {str(name): (int(size), int(crc)) for name, (size, crc) in files.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return f"{FILE} cannot be read"
    names = [name for name in sorted(noted_digests) if fnmatch.fnmatch(name, pattern)]
    names = names[part[0] :: part[1]]
    sizes = _files(directory)
    for name in names:
        if name not in sizes:
            return f"{name} is missing"
        if sizes[name] != noted_digests[name][0]:
            return f"{name} has {sizes[name]} bytes of {noted_digests[name][0]}"
    for name, digest in zip(names, _digests(directory, names), strict=True):
        if digest != noted_digests[name]:
            return f"{name} has other bytes than were written"
    return ""


def set_aside(directory: Path) -> Path:
    """Renames a damaged directory, so that nothing takes it for a good one; where to."""
    names = (f"{directory.name}.damaged{n or ''}" for n in range(1000))
    new = next(path for path in map(directory.with_name, names) if not path.exists())
    os.rename(directory, new)
    return new


def _files(directory: Path) -> dict[str, int]:
    """Name and size of every file in a folder; beside them Orbax notes when it was done."""
    sizes = {}
    for path in directory.glob("*/**/*"):
        if path.is_file():
            sizes[path.relative_to(directory).as_posix()] = path.stat().st_size
    return sizes


def _digests(directory: Path, names: Sequence[str]) -> list[tuple[int, int]]:
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(_digest, (directory / name for name in names)))


def _digest(path: Path) -> tuple[int, int]:
    """Size and CRC-32."""
    size = crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            size, crc = size + len(chunk), zlib.crc32(chunk, crc)
    return size, crc
