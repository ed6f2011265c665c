"""OpenDocument texts: paragraphs, with notes apart."""

import io
import zipfile

from lxml import etree

from mmt.documents import by_position, locales, odt
from tests.helpers.documents import EXAMPLES, zipped


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


def test_a_deleted_paragraph_is_left_alone():
    """Its deletion stands before the text, with paragraphs of its own."""
    deleted = "<t:tracked-changes><t:deletion><t:p>alt</t:p></t:deletion></t:tracked-changes>"
    content = f'<o:text xmlns:o="o" xmlns:t="t">{deleted}<t:p>neu</t:p></o:text>'
    document = odt.read("a.odt", zipped(**{"content.xml": content}))
    assert [segment.source.text for segment in document.segments] == ["neu"]


def test_a_document_names_its_new_language():
    parts = zipfile.ZipFile(io.BytesIO(EXAMPLES["a.odt"]))
    styles = (
        '<a xmlns:fo="f" xmlns:style="s"><style:text-properties fo:language="de" fo:country="DE"/>'
        '<style:text-properties fo:country="FR" fo:language="fr"/>'
        '<style:text-properties fo:language="de" fo:country="none"/></a>'
    )
    meta = '<m xmlns:dc="d"><dc:language>de-DE</dc:language></m>'
    content = zipped(
        **{name: parts.read(name) for name in parts.namelist()},
        **{"styles.xml": styles, "meta.xml": meta},
    )
    document = odt.read("a.odt", content, locales("de", "en"))
    assert document.write([None] * len(document.segments)) == content
    given = [by_position(s.source, s.source.text.upper()) for s in document.segments]
    new = zipfile.ZipFile(io.BytesIO(document.write(given)))
    found = [tuple(sorted(e.attrib.values())) for e in etree.fromstring(new.read("styles.xml"))]
    assert found == [("US", "en"), ("FR", "fr"), ("en", "none")]
    assert b">en-US<" in new.read("meta.xml")


def test_the_direction_is_that_of_the_target():
    parts = zipfile.ZipFile(io.BytesIO(EXAMPLES["a.odt"]))
    styles = (
        '<a xmlns:style="s"><style:paragraph-properties style:writing-mode="rl-tb"/>'
        '<style:table-properties style:writing-mode="rl"/>'
        '<style:paragraph-properties style:writing-mode="page"/></a>'
    )
    given = {name: parts.read(name) for name in parts.namelist()} | {"styles.xml": styles}
    content = zipped(**given)
    for languages, expected in (
        (("ar", "en"), ["lr-tb", "lr", "page"]),
        (("ar", "fa"), ["rl-tb", "rl", "page"]),
    ):
        document = odt.read("a.odt", content, locales(*languages))
        given = [by_position(s.source, s.source.text.upper()) for s in document.segments]
        new = zipfile.ZipFile(io.BytesIO(document.write(given)))
        modes = [e.get("{s}writing-mode") for e in etree.fromstring(new.read("styles.xml"))]
        assert modes == expected
