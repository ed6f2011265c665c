"""The languages and directions that a Word document names."""

import pytest

from mmt.documents import docx, locales
from tests.helpers.documents import docx as made
from tests.mmt.documents.test_docx import NAME, body, written

ARABIC = (
    '<w:p><w:pPr><w:bidi/><w:jc w:val="left"/></w:pPr><w:r><w:rPr><w:rtl/>'
    '<w:lang w:val="en-US" w:bidi="ar-SA"/></w:rPr><w:t>نص</w:t></w:r></w:p>'
    '<w:p><w:pPr><w:bidi w:val="0"/></w:pPr></w:p><w:sectPr><w:bidi/></w:sectPr>'
)
GERMAN = (
    "<w:p><w:r><w:rPr/><w:t>eins</w:t></w:r></w:p><w:p><w:pPr/><w:r><w:rPr><w:b/></w:rPr><w:t>zwei</w:t>"
    '</w:r></w:p><w:p/><w:p><w:pPr><w:keepNext/><w:jc w:val="left"/></w:pPr><w:r><w:rPr>'
    '<w:sz w:val="20"/><w:lang w:val="de-DE"/></w:rPr><w:t>drei</w:t></w:r></w:p>'
)


def test_the_direction_is_that_of_the_target():
    document = docx.read("a.docx", made(ARABIC), locales("ar", "en"))
    tree = body(written(document, lambda _: "text"))
    first, second = tree.iter(f"{NAME}pPr")
    assert [e.tag.removeprefix(NAME) for e in first] == ["jc"] and len(second) == 1
    assert not list(tree.iter(f"{NAME}rtl")) and len(next(tree.iter(f"{NAME}sectPr"))) == 0
    kept = docx.read("a.docx", made(ARABIC), locales("ar", "fa"))
    assert len(list(body(written(kept, lambda _: "متن")).iter(f"{NAME}rtl"))) == 1


def test_paragraphs_and_runs_are_turned_to_the_right():
    document = docx.read("a.docx", made(GERMAN), locales("de", "ar"))
    tree = body(written(document, lambda _: "نص"))
    names = [[e.tag.removeprefix(NAME) for e in found] for found in tree.iter(f"{NAME}pPr")]
    assert names == [["bidi"], ["bidi"], ["keepNext", "bidi", "jc"]]
    runs = [[e.tag.removeprefix(NAME) for e in found] for found in tree.iter(f"{NAME}rPr")]
    assert runs == [["rtl"], ["b", "rtl"], ["sz", "rtl", "lang"]]


def test_directions_that_are_switched_off_are_turned_too():
    """Google Docs writes them so for every paragraph and run."""
    run = '<w:r><w:rPr><w:b/><w:rtl w:val="0"/></w:rPr><w:t>one</w:t></w:r>'
    text = f'<w:p><w:pPr><w:bidi w:val="0"/><w:jc w:val="left"/></w:pPr>{run}</w:p>'
    tree = body(written(docx.read("a.docx", made(text), locales("en", "he")), lambda _: "אחת"))
    for name in ("bidi", "rtl"):
        assert [dict(e.attrib) for e in tree.iter(f"{NAME}{name}")] == [{}]


def test_tables_and_sections_are_turned_to_the_right():
    cell = "<w:tr><w:tc><w:p><w:r><w:t>one</w:t></w:r></w:p></w:tc></w:tr>"
    text = (
        f'<w:tbl><w:tblPr><w:tblStyle w:val="a"/><w:tblW w:w="5"/></w:tblPr>{cell}</w:tbl>'
        f"<w:tbl><w:tblPr/>{cell}</w:tbl><w:p><w:pPr><w:sectPr/></w:pPr></w:p>"
        '<w:sectPr w:rsidR="7"><w:cols/><w:docGrid/><w:sectPrChange><w:sectPr/></w:sectPrChange>'
        "</w:sectPr>"
    )
    tree = body(written(docx.read("a.docx", made(text), locales("en", "he")), lambda _: "אחת"))
    names = [[e.tag.removeprefix(NAME) for e in found] for found in tree.iter(f"{NAME}tblPr")]
    assert names == [["tblStyle", "bidiVisual", "tblW"], ["bidiVisual"]]
    names = [[e.tag.removeprefix(NAME) for e in found] for found in tree.iter(f"{NAME}sectPr")]
    assert names == [["bidi"], ["cols", "bidi", "docGrid", "sectPrChange"], []]
    names = [[e.tag.removeprefix(NAME) for e in found] for found in tree.iter(f"{NAME}pPr")]
    assert names == [["bidi"], ["bidi"], ["bidi", "sectPr"]]


@pytest.mark.parametrize(
    ("source", "target", "given", "expected"),
    [
        ("ar", "en", 'w:val="fr-FR" w:bidi="ar-SA"', {"val": "en-US", "bidi": "ar-SA"}),
        ("ar", "en", 'w:bidi="ar-SA"', {"val": "en-US", "bidi": "ar-SA"}),
        ("en", "ar", 'w:val="en-US" w:bidi="he-IL"', {"val": "en-US", "bidi": "ar-EG"}),
        ("de", "ja", 'w:val="de-DE"', {"val": "de-DE", "eastAsia": "ja-JP"}),
        ("de", "ja", 'w:val="fr-FR" w:eastAsia="zh-CN"', {"val": "fr-FR", "eastAsia": "zh-CN"}),
    ],
)
def test_the_language_of_each_kind_of_script(source, target, given, expected):
    run = f"<w:r><w:rPr><w:lang {given}/></w:rPr><w:t>text</w:t></w:r>"
    document = docx.read("a.docx", made(f"<w:p>{run}</w:p>"), locales(source, target))
    (tag,) = body(written(document, str.upper)).iter(f"{NAME}lang")
    assert {name.removeprefix(NAME): value for name, value in tag.items()} == expected
