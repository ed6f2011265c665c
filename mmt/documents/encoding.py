"""The character encoding of a file: found in its first bytes, kept when it is written."""

import codecs
import re
from collections.abc import Sequence
from typing import NamedTuple

# What browsers read for labels that are used for more than they name (whatwg.org, Encoding).
_OF_BROWSERS = {
    "iso-8859-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252",
    "iso-8859-9": "cp1254", "latin5": "cp1254", "iso-8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "x-gbk": "gb18030", "shift_jis": "cp932",
    "sjis": "cp932", "euc-kr": "cp949", "ks_c_5601-1987": "cp949",
}  # fmt: skip
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

    After utf-8, another codec fits a file only if it is not UTF-8 with few wrong bytes.

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
            if codec == "utf-8" and _is_damaged_utf_8(content):
                break
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


def _is_damaged_utf_8(content: bytes) -> bool:
    """Returns whether bytes have more characters of UTF-8 beyond ASCII than wrong bytes."""
    text = content.decode("utf-8", "replace")
    wrong = text.count("\N{REPLACEMENT CHARACTER}")
    beyond_ascii = len(text) - len(text.encode("ascii", "ignore"))
    return beyond_ascii - wrong > wrong


def whole_characters(text: str) -> str:
    """Returns text whose surrogate pairs are characters, and whose lone halves are U+FFFD.

    >>> whole_characters("\\ud83d\\ude00 \\ud83d")
    '😀 \ufffd'
    """
    if text.isascii() or not re.search("[\ud800-\udfff]", text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def declared(content: bytes, pattern: bytes, default: str = "utf-8") -> str:
    """Returns the encoding that the first kibibyte of a file declares, else `default`."""
    match = re.search(pattern, content[:1024], re.IGNORECASE)
    return match[1].decode("ascii", "replace").lower() if match else default


def of_browsers(label: str) -> str:
    """Returns the codec with which browsers read a page that declares `label`.

    >>> of_browsers("iso-8859-1"), of_browsers("gb2312"), of_browsers("koi8-r")
    ('cp1252', 'gb18030', 'koi8-r')
    """
    return _OF_BROWSERS.get(label, label)
