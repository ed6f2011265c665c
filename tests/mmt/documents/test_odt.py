"""OpenDocument texts: paragraphs, with notes apart."""

import io
import zipfile

from lxml import etree

from mmt.documents import by_position, odt
from tests.helpers.documents import EXAMPLES


def test_paragraphs_and_their_notes():
    document = odt.read("a.odt", EXAMPLES["a.odt"])
    assert [segment.source.text for segment in document.segments] == [
        "Die Überschrift", "Das ist ein fettes Wort & Öl", "Eine Note", "zweite Zeile",
        "nach dem Tab.", "Punkt", "Zelle",
    ]  # fmt: skip
    given = [by_position(s.source, s.source.text.upper()) for s in document.segments]
    new = zipfile.ZipFile(io.BytesIO(document.write(given)))
    assert new.infolist()[0].filename == "mimetype"
    assert new.infolist()[0].compress_type == zipfile.ZIP_STORED
    tree = etree.fromstring(new.read("content.xml"))
    (span,) = tree.iter("{*}span")
    assert span.text == "EIN FETTES" and len(list(tree.iter("{*}note-body"))) == 1
    assert "EINE NOTE" in "".join(tree.itertext())
