"""Word documents: formats follow their words, and another reader opens the result."""

import io
import zipfile

import pytest
from lxml import etree

from mmt.documents import by_position, docx, locales
from tests.helpers.documents import EXAMPLES, W, zipped
from tests.helpers.documents import docx as made

NAME = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def body(content: bytes) -> etree._Element:
    return etree.fromstring(zipfile.ZipFile(io.BytesIO(content)).read("word/document.xml"))


def written(document, change) -> bytes:
    return document.write([by_position(s.source, change(s.source.text)) for s in document.segments])


def test_paragraphs_are_whole_and_boxes_apart():
    document = docx.read("a.docx", EXAMPLES["a.docx"])
    assert [segment.source.text for segment in document.segments] == [
        "Das ist ein fettes Wort\tund ein Link & Öl.", "Neben dem Kasten", "Im Kasten", "Eine Note",
    ]  # fmt: skip


def test_formats_follow_their_words():
    tree = body(written(docx.read("a.docx", EXAMPLES["a.docx"]), str.upper))
    bold = [
        "".join(run.itertext())
        for run in tree.iter(f"{NAME}r")
        if run.find(f".//{NAME}b") is not None
    ]
    link = ["".join(run.itertext()) for run in tree.iter(f"{NAME}hyperlink")]
    assert "".join(bold) == "FETTES" and link == ["EIN LINK"]
    texts = ["".join(p.itertext()) for p in tree.iter(f"{NAME}p")]
    assert texts == [
        "DAS IST EIN FETTES WORTUND EIN LINK & ÖL.",
        "",
        "IM KASTENNEBEN DEM KASTEN",
        "IM KASTEN",
    ]
    for run in tree.iter(f"{NAME}t"):
        assert run.getparent().tag == f"{NAME}r"


def test_parts_without_changes_keep_their_content():
    document = docx.read("a.docx", EXAMPLES["a.docx"])
    given = [None] * len(document.segments)
    given[-1] = document.segments[-1].source._replace(text="A note")
    old, new = (
        zipfile.ZipFile(io.BytesIO(content))
        for content in (EXAMPLES["a.docx"], document.write(given))
    )
    assert old.namelist() == new.namelist()
    changed = [name for name in old.namelist() if old.read(name) != new.read(name)]
    assert changed == ["word/footnotes.xml"]
    assert [i.compress_type for i in old.infolist()] == [i.compress_type for i in new.infolist()]


@pytest.mark.parametrize(
    "runs",
    [
        '<w:r><w:t>Ein Wort</w:t><w:br w:type="page"/></w:r>',
        "<w:r><w:rPr/><w:t>Ein</w:t><w:br/><w:t>Wort</w:t></w:r>",
        "<w:ins><w:r><w:t>Ein</w:t></w:r></w:ins><w:del><w:r><w:delText>x</w:delText></w:r></w:del>"
        "<w:r><w:t>Wort</w:t></w:r>",
        "<w:sdt><w:sdtPr/><w:sdtContent><w:r><w:t>Ein Wort</w:t></w:r></w:sdtContent></w:sdt>",
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r>'
        '<w:r><w:t>Ein</w:t></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r><w:hyperlink/>',
    ],
)
def test_what_is_between_runs_stays(runs):
    content = made(f"<w:p>{runs}</w:p>")
    document = docx.read("a.docx", content)
    before, after = body(content), body(written(document, str.upper))
    names = [
        [e.tag for e in tree.iter() if e.tag.removeprefix(NAME) not in ("r", "t", "rPr")]
        for tree in (before, after)
    ]
    assert names[0] == names[1]
    assert "EIN" in "".join(after.itertext())


def field(code: str, result: str) -> str:
    runs = [f"<w:instrText>{code}</w:instrText>", mark("separate"), result, mark("end")]
    return "".join(f"<w:r>{run}</w:r>" for run in [mark("begin"), *runs])


def mark(kind: str) -> str:
    return f'<w:fldChar w:fldCharType="{kind}"/>'


@pytest.mark.parametrize(
    ("code", "result", "words"),
    [
        ("PAGE", "<w:t>17</w:t>", "17"), ("HYPERLINK", "<w:t>zwei drei</w:t>", "zwei drei"),
        ("XE", "<w:tab/>", ""), ("IF", f"{mark('begin')}</w:r><w:r>{mark('end')}", ""),
    ],
)  # fmt: skip
def test_a_field_is_a_pair_around_its_result_or_one_tag(code, result, words):
    before, after = (f"<w:r><w:t>{text}</w:t></w:r>" for text in ("Seite", "von"))
    content = made(f"<w:p>{before}{field(code, result)}{after}</w:p>")
    document = docx.read("a.docx", content)
    source = document.segments[0].source
    assert source.text == f"Seite{words}von"
    front = source._replace(tags=tuple(tag._replace(position=0) for tag in source.tags))
    others = [None] * (len(document.segments) - 1)
    old, new = body(content), body(document.write([front, *others]))
    name = f"{NAME}fldCharType"
    marks = [[e.get(name) for e in tree.iter() if e.get(name)] for tree in (old, new)]
    assert marks[0] == marks[1]
    assert [tag.kind for tag in source.tags] == (["start", "end"] if words else ["alone"])


def test_words_beside_the_marks_of_a_field_are_translated():
    run = f"<w:r><w:t>Seite </w:t>{mark('begin')}{mark('end')}</w:r>"
    document = docx.read("a.docx", made(f"<w:p>{run}</w:p>"))
    assert document.segments[0].source.text == "Seite "


def test_runs_of_two_fields_keep_their_tags_balanced():
    runs = [mark("begin"), mark("separate"), "<w:t>a</w:t>", mark("end") + mark("begin"),
            mark("separate") + mark("begin"), "<w:t>b</w:t>", mark("end"), mark("end")]  # fmt: skip
    content = made("<w:p>" + "".join(f"<w:r>{run}</w:r>" for run in runs) + "</w:p>")
    kinds = [tag.kind for tag in docx.read("a.docx", content).segments[0].source.tags]
    assert [kind for kind in kinds if kind != "alone"] == ["start", "end", "start", "end"]


def test_a_document_names_its_new_language():
    """In the styles, in the settings, in runs that are written anew, and in its data."""
    parts = zipfile.ZipFile(io.BytesIO(EXAMPLES["a.docx"]))
    lang = '<w:lang w:val="de-DE" w:eastAsia="zh-CN" w:bidi="ar-SA"/>'
    more = {
        "word/styles.xml": f"<w:styles {W}><w:docDefaults>{lang}</w:docDefaults></w:styles>",
        "word/settings.xml": f'<w:settings {W}><w:themeFontLang w:val="de-DE"/></w:settings>',
        "docProps/core.xml": '<c xmlns:dc="x"><dc:language>de</dc:language></c>',
    }
    content = zipped(**{name: parts.read(name) for name in parts.namelist()}, **more)
    document = docx.read("a.docx", content, locales("de", "en"))
    assert document.write([None] * len(document.segments)) == content
    new = zipfile.ZipFile(io.BytesIO(written(document, str.upper)))
    assert new.namelist() == [*parts.namelist(), *more]
    trees = (etree.fromstring(new.read(f"word/{name}.xml")) for name in ("styles", "settings"))
    named = [e.attrib.values() for t in trees for e in t.iter("{*}lang", "{*}themeFontLang")]
    assert named == [["en-US", "zh-CN", "ar-SA"], ["en-US"]]
    assert b"<dc:language>en</dc:language>" in new.read("docProps/core.xml")
    run = '<w:r><w:rPr><w:lang w:val="de-AT"/><w:b/></w:rPr><w:t>fett</w:t></w:r>'
    document = docx.read("a.docx", made(f"<w:p>{run}</w:p>"), locales("de", "en-GB"))
    ((language,),) = [e.attrib.values() for e in body(written(document, str.upper)).iter("{*}lang")]
    assert language == "en-GB"


def test_the_body_may_have_a_number_as_word_online_writes_it():
    parts = zipfile.ZipFile(io.BytesIO(EXAMPLES["a.docx"]))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as made:
        for name in parts.namelist():
            made.writestr(name.replace("document.xml", "document2.xml"), parts.read(name))
    document = docx.read("a.docx", content.getvalue())
    expected = docx.read("a.docx", EXAMPLES["a.docx"])
    assert [s.source.text for s in document.segments] == [s.source.text for s in expected.segments]
