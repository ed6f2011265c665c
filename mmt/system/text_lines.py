"""Reads lines of UTF-8 text from plain or compressed files: strict, in constant memory.

Readers interpret the lines; `mmt.system.compression` decompresses. Faults raise a ValueError with
the file and, if possible, the line.
"""

import codecs
import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from mmt.system import compression

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_INVISIBLE = {"Zs", "Zl", "Zp", "Cc", "Cf"}  # categories of Unicode
LONGEST = 1 << 24  # most bytes of a line: a file without line feeds must not fill the memory


def read(path: Path) -> Iterator[str]:
    """Yields the lines of a file without their ends, and without a byte order mark at the start.

    Only a line feed ends a line, with or without a carriage return before it. U+2028, U+0085 and
    other carriage returns are text. A last line without a line feed counts.
    """
    return lines(compression.chunks(path), path)


def lines(chunks: Iterable[bytes], path: Path | str, *, first: int = 0) -> Iterator[str]:
    """Yields the lines of the bytes of a file, as `read` does.

    Args:
      chunks: the bytes, decompressed, from the start of a line.
      path: the file, for errors.
      first: number of that line in the file, from 0.
    """
    for number, raw in enumerate(_raw(chunks, path, first), first + 1):
        yield _decode(raw, path, number)


def offsets(chunks: Iterable[bytes], path: Path | str, every: int) -> tuple[list[int], int]:
    """Returns where every `every`-th line begins, in bytes from the start, and the lines' number.

    The lines are decoded, so that a fault is found; `path` is for errors.

    >>> offsets([b"one\\ntwo\\nth", b"ree"], "a.txt", 2)
    ([0, 8], 3)
    """
    starts, number, offset = [], 0, 0
    for raw in _raw(chunks, path, 0):
        if number % every == 0:
            starts.append(offset)
        number += 1
        offset += len(raw) + 1
        _decode(raw, path, number)
    return starts, number


def count(path: Path) -> int:
    """Returns the number of lines that `read` yields, without decoding them."""
    count, last = 0, b"\n"
    for chunk in compression.chunks(path):
        count, last = count + chunk.count(b"\n"), chunk[-1:]
    return count + (last != b"\n")


def one_line(text: str) -> bool:
    """Returns whether a text has no line break, no other control character and no lone surrogate.

    >>> one_line("news\N{NO-BREAK SPACE}x"), one_line("a\\nb")
    (True, False)
    """
    return not _CONTROL.search(text)


def is_blank(text: str) -> bool:
    """Returns whether a text has no visible character, only spaces, controls and formats.

    >>> is_blank("\N{ZERO WIDTH SPACE} "), is_blank(".")
    (True, False)
    """
    return all(unicodedata.category(character) in _INVISIBLE for character in text)


def _raw(chunks: Iterable[bytes], path: Path | str, first: int) -> Iterator[bytes]:
    """Yields lines as bytes, without line feeds. first: number of the first one, from 0."""
    number, unfinished = first, b""
    for chunk in chunks:
        *complete, unfinished = (unfinished + chunk).split(b"\n")
        yield from complete
        number += len(complete)
        if len(unfinished) > LONGEST:
            raise ValueError(f"{path}:{number + 1}: a line of more than {LONGEST >> 20} MiB")
    if unfinished:
        yield unfinished


def _decode(raw: bytes, path: Path | str, number: int) -> str:
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
