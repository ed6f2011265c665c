"""Bytes of plain and packed files, unpacked on the way: `.gz`, `.bz2`, `.xz`, `.zst` and `.zip`.

Flat in memory, and nothing is written to disk.  A zip is read by its only member or by the one
that is named after it, `corpus.zip/train.de`.  What is broken or a trick is a ValueError that names
the file: damage, a zip whose members have absolute names, `..` or symbolic links, and a bomb: what
unpacks to more than RATIO times its size (and more than FREE).
"""

import bz2
import gzip
import lzma
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

import zstandard

RATIO, FREE = 200, 1 << 26  # text packs 3 to 20 times; the smallest bombs pack 1000 times
WHOLE = 1 << 28  # bytes of a file that must be read at once

_PIECE = 1 << 18
_FRAMES: dict[str, Callable[[], Any]] = {
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ),
    ".zst": lambda: zstandard.ZstdDecompressor().decompressobj(),
}
_DAMAGE = (
    EOFError, OSError, RuntimeError, ValueError, NotImplementedError, zlib.error, lzma.LZMAError,
    zipfile.BadZipFile, zstandard.ZstdError,
)  # fmt: skip


def chunks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, or of a member of a zip, a piece at a time."""
    place, member = _place(path)
    with open(place, "rb") as file:
        size, unpacked = place.stat().st_size, 0
        if member:
            size = min(size, members(place)[member])
        for piece in _unpacked(path, file, member):
            unpacked += len(piece)
            if unpacked > FREE and unpacked > RATIO * size:
                raise ValueError(
                    f"{path}: unpacks to more than {RATIO} times its {size} bytes, as bombs do "
                    "and text does not; if it is text, unpack it first"
                )
            yield piece


def whole(path: Path) -> bytes:
    """All bytes of a file; ValueError for more than WHOLE."""
    found = bytearray()
    for piece in chunks(path):
        found += piece
        if len(found) > WHOLE:
            raise ValueError(f"{path}: larger than {WHOLE >> 20} MiB, and read at once")
    return bytes(found)


def name(path: Path) -> str:
    """What a file is called without its packing: 'a.tsv' of `a.tsv.gz` and of a zip with it."""
    place, member = _place(path)
    inner = PurePosixPath(member or place.name)
    return inner.stem if inner.suffix in (*_FRAMES, ".gz") else inner.name


def file(path: Path) -> Path:
    """The file on disk: of a member the zip."""
    return _split(path)[0]


def exists(path: Path) -> bool:
    """Whether a file is there, and a named member in it."""
    place, member = _split(path)
    return place.is_file() and (not member or member in members(place))


def members(path: Path) -> dict[str, int]:
    """The names of the files in a zip and their packed sizes, in its order."""
    with open(path, "rb") as raw:
        try:
            with zipfile.ZipFile(raw) as archive:
                infos = archive.infolist()
        except _DAMAGE as error:
            raise ValueError(f"{path}: damaged: {error}") from None
    found = {}
    for info in infos:
        parts = re.split(r"[/\\]", info.filename)
        if not parts[0] or ".." in parts or re.match("[A-Za-z]:", parts[0]):
            raise ValueError(f"{path}: refused: its member {info.filename!r} lies outside of it")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise ValueError(f"{path}: refused: its member {info.filename!r} is a symbolic link")
        if info.flag_bits & 1:
            raise ValueError(f"{path}: its member {info.filename!r} is encrypted; unpack it")
        if not info.is_dir() and parts[0] != "__MACOSX":
            found[info.filename] = info.compress_size
    return found


def _unpacked(path: Path, file: IO[bytes], member: str) -> Iterator[bytes]:
    try:
        if not member:
            yield from _pieces(file, path.suffix)
            return
        with zipfile.ZipFile(file) as archive, archive.open(member) as inner:
            yield from _pieces(inner, PurePosixPath(member).suffix)
    except _DAMAGE as error:
        raise ValueError(f"{path}: damaged: {error}") from None


def _place(path: Path) -> tuple[Path, str]:
    """The file on disk and, where that is a zip, the member that is meant."""
    place, member = _split(path)
    if place.suffix != ".zip" or not place.is_file():
        return place, member
    there = list(members(place))
    if member and member not in there:
        raise ValueError(f"{place} has no member {member!r}; it has: {_listed(there)}")
    if not member and len(there) != 1:
        raise ValueError(
            f"{place} has {len(there)} members; name one, as {place.name}/{(there or ['a.tsv'])[0]}"
            f"; it has: {_listed(there)}"
        )
    if (member or there[0]).endswith(".zip"):
        raise ValueError(f"{place}: its member {member or there[0]!r} is a zip itself; unpack it")
    return place, member or there[0]


def _split(path: Path) -> tuple[Path, str]:
    for parent in path.parents:
        if parent.suffix == ".zip" and parent.is_file():
            return parent, path.relative_to(parent).as_posix()
    return path, ""


def _listed(names: list[str]) -> str:
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "") or "none"


def _pieces(file: Any, suffix: str) -> Iterator[bytes]:
    """What an open file holds, unpacked as its suffix says; `file` can read bytes."""
    if suffix in _FRAMES:
        yield from _frames(file, _FRAMES[suffix])
        return
    inner = gzip.GzipFile(fileobj=file) if suffix == ".gz" else file
    while piece := inner.read(_PIECE):
        yield piece


def _frames(file: Any, new: Callable[[], Any]) -> Iterator[bytes]:
    """All frames; unlike the packings' own readers it notices a file that is cut off in a frame,
    and what is none after the last.

    A piece is small, because what it unpacks to is in memory at once: of a bomb 30,000 times it.
    """
    frame, padding = None, b""
    while packed := file.read(1 << 12):
        packed = packed if frame else packed.lstrip(padding)
        while packed:
            frame = frame or new()
            chunk = frame.decompress(packed)
            if chunk:
                yield chunk
            packed = b""
            if frame.eof:  # zeros may follow, as of a tape
                packed, frame, padding = frame.unused_data.lstrip(b"\0"), None, b"\0"
    if frame:
        raise EOFError("the file ends inside a frame")
