"""The character encoding of a file: found in its first bytes, kept when it is written."""

import codecs
import re
from collections.abc import Sequence
from typing import NamedTuple

LARGEST = 1 << 26  # most bytes of a document, which is held in memory
_MARKS = (  # UTF-32's begins with UTF-16's
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class Encoding(NamedTuple):
    """A codec, the byte order mark before the text, and what is written for other characters.

    Attributes:
      errors: 'xmlcharrefreplace' in markup, which can write every character as a reference.
      name: that of the file, for errors.
    """

    codec: str = "utf-8"
    mark: bytes = b""
    errors: str = "strict"
    name: str = "the file"

    def encode(self, text: str) -> bytes:
        """Returns the bytes of a file.

        Raises:
          ValueError: the encoding lacks a character.
        """
        try:
            return self.mark + text.encode(self.codec, self.errors)
        except UnicodeEncodeError as error:
            character = text[error.start]
            raise ValueError(
                f"{self.name}: its encoding, {self.codec}, has no {character!r}; "
                "convert it to UTF-8 first"
            ) from None


def decode(
    name: str, content: bytes, codecs_to_try: Sequence[str] = ("utf-8",), errors: str = "strict"
) -> tuple[str, Encoding]:
    """Returns the text of a file and its encoding: that of the byte order mark, else the first fit.

    Raises:
      ValueError: too many bytes, no fit, or a NUL; the message has the line.
    """
    if len(content) > LARGEST:
        raise ValueError(f"{name}: {len(content):,} bytes; allowed: {LARGEST >> 20} MiB")
    mark, marked = next(((m, c) for m, c in _MARKS if content.startswith(m)), (b"", ""))
    fault = None
    for codec in (marked,) if marked else codecs_to_try:
        try:
            text = content[len(mark) :].decode(codec)
        except UnicodeDecodeError as error:
            fault = fault or error
            continue
        except LookupError:
            raise ValueError(f"{name}: its encoding {codec!r} is unknown") from None
        encoding = Encoding(codec, mark, errors, name)
        if "\0" in text:
            line = text.count("\n", 0, text.index("\0")) + 1
            raise ValueError(f"{name}:{line}: a NUL character; is it {codec}?")
        if text.encode(codec) != content[len(mark) :]:
            raise ValueError(f"{name}: text in {codec} cannot be written back; convert it to UTF-8")
        return text, encoding
    assert fault
    line = content.count(b"\n", 0, fault.start) + 1
    byte = fault.object[fault.start]
    raise ValueError(f"{name}:{line}: not {fault.encoding}: {fault.reason} {byte:#04x}")


def whole_characters(text: str) -> str:
    """Returns text whose surrogate pairs are characters, and whose lone halves are U+FFFD.

    >>> whole_characters("\\ud83d\\ude00 \\ud83d")
    '😀 \ufffd'
    """
    if text.isascii() or not re.search("[\ud800-\udfff]", text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def declared(content: bytes, pattern: bytes) -> str:
    """Returns the encoding that the first kibibyte of a file declares, else 'utf-8'."""
    match = re.search(pattern, content[:1024], re.IGNORECASE)
    return match[1].decode("ascii", "replace").lower() if match else "utf-8"
