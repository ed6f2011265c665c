"""Zips: bombs, damage and passwords are refused by name."""

import io
import re
import zipfile

import pytest

from mmt.documents import archive, docx
from tests.helpers.documents import EXAMPLES, zipped


def bomb() -> bytes:
    return zipped(**{"a": "a", "word/document.xml": b"<a>" + b" " * (archive.FREE * 2) + b"</a>"})


def repeated() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made, pytest.warns(UserWarning):
        for _ in range(2):
            made.writestr("word/document.xml", "<a/>")
    return file.getvalue()


def encrypted() -> bytes:
    content = bytearray(zipped(**{"word/document.xml": "<a/>"}))
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


def nameless() -> bytes:
    content = bytearray(zipped(**{"mimetype": "a", "word/document.xml": "<a/>"}))
    content[content.rindex(b"mimetype")] = 0
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bomb, r"a\.docx: refused: it expands to [\d,]+ bytes, like a bomb"),
        (repeated, r"a\.docx: refused: its part 'word/document.xml' is repeated"),
        (encrypted, r"a\.docx: it is encrypted"),
        (lambda: EXAMPLES["a.docx"][:-30], r"a\.docx: damaged: File is not a zip file"),
        (nameless, r"a\.docx: damaged: its part without a name"),
        (lambda: EXAMPLES["a.odt"], r"a\.docx: it has no part "),
        (lambda: zipped(**{"word/document.xml": "<a>"}), r"a\.docx: word/document\.xml:1: broken"),
    ],
    ids=["bomb", "repeated", "encrypted", "damaged", "nameless", "other", "broken"],
)
def test_damaged_and_dangerous_zips_are_refused(content, message):
    with pytest.raises(ValueError, match=message):
        docx.read("a.docx", content())


def test_a_member_with_a_false_checksum_is_named():
    content = bytearray(EXAMPLES["a.docx"])
    start = re.search(rb"PK\x03\x04.{26}word/document\.xml", content, re.DOTALL).end()
    content[start + 40] ^= 0x55
    with pytest.raises(ValueError, match=r"a\.docx: (damaged|word)"):
        docx.read("a.docx", bytes(content))
