"""Lines of UTF-8 text from plain, `.gz`, `.xz` or `.zst` files: strict, streaming, flat in memory.

What a line means (a sentence, two columns, a score) is the reader's business; what is broken here
is a ValueError that names the file, and the line where there is one.
"""

import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path

import zstandard


def read(path: Path) -> Iterator[str]:
    """The lines of a file without their ends, and without a byte order mark at the start.

    Only a line feed ends a line (a carriage return before it belongs to the end); U+2028, U+0085
    and a carriage return elsewhere are text.  A last line without a line feed counts.
    """
    number, rest = 0, b""
    for chunk in _chunks(path):
        *whole, rest = (rest + chunk).split(b"\n")
        for raw in whole:
            number += 1
            yield _decode(raw, path, number)
    if rest:
        yield _decode(rest, path, number + 1)


def count(path: Path) -> int:
    """How many lines `read` yields, found without decoding them."""
    count, last = 0, b"\n"
    for chunk in _chunks(path):
        count, last = count + chunk.count(b"\n"), chunk[-1:]
    return count + (last != b"\n")


def _decode(raw: bytes, path: Path, number: int) -> str:
    raw = raw.removesuffix(b"\r")
    if number == 1:
        raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}:{number}: not UTF-8: {error.reason} {raw[error.start]:#04x} at byte "
            f"{error.start + 1} of the line"
        ) from None


def _chunks(path: Path) -> Iterator[bytes]:
    try:
        if path.suffix == ".zst":
            yield from _unzstd(path)
            return
        with _open(path) as file:
            while chunk := file.read(1 << 18):
                yield chunk
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
        raise ValueError(f"{path}: damaged: {error}") from None


def _open(path: Path) -> io.BufferedIOBase:
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    return lzma.open(path, "rb") if path.suffix == ".xz" else open(path, "rb")


def _unzstd(path: Path) -> Iterator[bytes]:
    """All frames; unlike zstandard's own reader it notices a file that is cut off in a frame."""
    frame = None
    with open(path, "rb") as file:
        while packed := file.read(1 << 15):
            while packed:
                frame = frame or zstandard.ZstdDecompressor().decompressobj()
                chunk = frame.decompress(packed)
                if chunk:
                    yield chunk
                packed = frame.unused_data if frame.eof else b""
                if frame.eof:
                    frame = None
    if frame:
        raise EOFError("the file ends inside a Zstandard frame")
