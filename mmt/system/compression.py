"""Reads plain and compressed files as bytes: `.gz`, `.bz2`, `.xz`, `.zst` and `.zip`.

Memory use is constant, and nothing is written to disk. A path names the only member of a zip, or a
member by its name: `corpus.zip/train.de`. Damaged and malicious files raise a ValueError that names
the file. Malicious are zips with absolute names, `..` or symbolic links, and bombs: files that
expand to more than RATIO times their size (and more than FREE).
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

RATIO, FREE = 200, 1 << 26  # text shrinks 3 to 20 times, bombs 1000 times or more
WHOLE = 1 << 28  # most bytes of a file that is read at once

_CHUNK_BYTES = 1 << 18
_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ),
    ".zst": lambda: zstandard.ZstdDecompressor().decompressobj(),
}
_DECODE_ERRORS = (
    EOFError, OSError, RuntimeError, ValueError, NotImplementedError, zlib.error, lzma.LZMAError,
    zipfile.BadZipFile, zstandard.ZstdError,
)  # fmt: skip


def chunks(path: Path, start: int = 0) -> Iterator[bytes]:
    """Yields the bytes of a file, or of a member of a zip, in pieces.

    start: number of bytes, decompressed, to leave out at the start. A compressed file is
        decompressed up to there.
    """
    disk_file, member = _file_and_member(path)
    with open(disk_file, "rb") as file:
        size, end = disk_file.stat().st_size, 0
        if member:
            size = min(size, members(disk_file)[member])
        elif path.suffix not in (*_DECOMPRESSORS, ".gz"):
            end = file.seek(start)
        for piece in _decompressed(path, file, member):
            begin, end = end, end + len(piece)
            if end > FREE and end > RATIO * size:
                raise ValueError(
                    f"{path}: expands to more than {RATIO} times its {size} bytes, like a bomb; "
                    "if it is text, decompress it first"
                )
            if end > start:
                yield piece[max(start - begin, 0) :]


def whole(path: Path) -> bytes:
    """Returns all bytes of a file. Raises ValueError for more than WHOLE."""
    content = bytearray()
    for piece in chunks(path):
        content += piece
        if len(content) > WHOLE:
            raise ValueError(f"{path}: larger than {WHOLE >> 20} MiB; it is read at once")
    return bytes(content)


def name(path: Path) -> str:
    """Returns the name of a file without its compression: 'a.tsv' for `a.tsv.gz` or a zip of it."""
    disk_file, member = _file_and_member(path)
    inner = PurePosixPath(member or disk_file.name)
    return inner.stem if inner.suffix in (*_DECOMPRESSORS, ".gz") else inner.name


def file(path: Path) -> Path:
    """Returns the file on disk: for a member, its zip."""
    return _split(path)[0]


def exists(path: Path) -> bool:
    """Returns whether a file exists, and the named member in it."""
    disk_file, member = _split(path)
    return disk_file.is_file() and (not member or member in members(disk_file))


def members(path: Path) -> dict[str, int]:
    """Returns the names of the files in a zip with their compressed sizes, in order."""
    with open(path, "rb") as raw:
        try:
            with zipfile.ZipFile(raw) as archive:
                infos = archive.infolist()
        except _DECODE_ERRORS as error:
            raise ValueError(f"{path}: damaged: {error}") from None
    sizes = {}
    for info in infos:
        parts = re.split(r"[/\\]", info.filename)
        if not parts[0] or ".." in parts or re.match("[A-Za-z]:", parts[0]):
            raise ValueError(f"{path}: refused: its member {info.filename!r} lies outside")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise ValueError(f"{path}: refused: its member {info.filename!r} is a symbolic link")
        if info.flag_bits & 1:
            raise ValueError(f"{path}: its member {info.filename!r} is encrypted; decrypt it first")
        if not info.is_dir() and parts[0] != "__MACOSX":
            sizes[info.filename] = info.compress_size
    return sizes


def _decompressed(path: Path, file: IO[bytes], member: str) -> Iterator[bytes]:
    try:
        if not member:
            yield from _pieces(file, path.suffix)
            return
        with zipfile.ZipFile(file) as archive, archive.open(member) as inner:
            yield from _pieces(inner, PurePosixPath(member).suffix)
    except _DECODE_ERRORS as error:
        raise ValueError(f"{path}: damaged: {error}") from None


def _file_and_member(path: Path) -> tuple[Path, str]:
    """Returns the file on disk and, for a zip, the name of the member."""
    disk_file, member = _split(path)
    if disk_file.suffix != ".zip" or not disk_file.is_file():
        return disk_file, member
    names = list(members(disk_file))
    if member and member not in names:
        raise ValueError(f"{disk_file} has no member {member!r}; it has: {_listed(names)}")
    if not member and len(names) != 1:
        raise ValueError(
            f"{disk_file} has {len(names)} members; name one, as "
            f"{disk_file.name}/{(names or ['a.tsv'])[0]}; it has: {_listed(names)}"
        )
    if (member or names[0]).endswith(".zip"):
        raise ValueError(
            f"{disk_file}: its member {member or names[0]!r} is a zip; unpack it first"
        )
    return disk_file, member or names[0]


def _split(path: Path) -> tuple[Path, str]:
    for parent in path.parents:
        if parent.suffix == ".zip" and parent.is_file():
            return parent, path.relative_to(parent).as_posix()
    return path, ""


def _listed(names: list[str]) -> str:
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "") or "none"


def _pieces(file: Any, suffix: str) -> Iterator[bytes]:
    """Yields the decompressed content of an open file, by its suffix; `file` can read bytes."""
    if suffix in _DECOMPRESSORS:
        yield from _frames(file, _DECOMPRESSORS[suffix])
        return
    inner = gzip.GzipFile(fileobj=file) if suffix == ".gz" else file
    while piece := inner.read(_CHUNK_BYTES):
        yield piece


def _frames(file: Any, new: Callable[[], Any]) -> Iterator[bytes]:
    """Decompresses all frames of a file.

    Unlike the libraries' readers, it detects a file that ends inside a frame, and other data after
    the last frame. Pieces are small, because their decompressed content is in memory at once; a
    bomb's is 30,000 times as large.
    """
    frame, padding = None, b""
    while compressed := file.read(1 << 12):
        compressed = compressed if frame else compressed.lstrip(padding)
        while compressed:
            frame = frame or new()
            chunk = frame.decompress(compressed)
            if chunk:
                yield chunk
            compressed = b""
            if frame.eof:  # zeros may follow, as on a tape
                compressed, frame, padding = frame.unused_data.lstrip(b"\0"), None, b"\0"
    if frame:
        raise EOFError("the file ends inside a frame")
