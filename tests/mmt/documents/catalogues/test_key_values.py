"""Properties and strings files: escapes, comments and encodings."""

import pytest

from mmt.documents import MarkedText
from mmt.documents.catalogues import key_values
from tests.helpers.documents import EXAMPLES


def test_properties():
    document = key_values.read_properties("a.properties", EXAMPLES["a.properties"])
    assert [(s.key, s.source.text) for s in document.segments] == [
        ("titel", "Die Überschrift"), ("menü datei", "Datei öffnen"),
        ("ende", "Letzte Zeile\tmit Tab"),
    ]  # fmt: skip
    written = document.write([MarkedText("a\\b\nc"), None, None])
    assert b"titel = a\\\\b\\nc\n" in written


def test_old_properties_are_latin_with_escapes():
    document = key_values.read_properties("a.properties", EXAMPLES["latin.properties"])
    assert [(s.key, s.source.text) for s in document.segments] == [("größe", "Größe é")]
    assert document.write([MarkedText("é 😀")]) == b"gr\xf6\xdfe=\\u00e9 \\ud83d\\ude00\n"


def test_an_apostrophe_is_two_in_a_pattern_of_messageformat():
    content = b"a=Geht''s, {0}?\nb=Geht''s?\nc={0} '{1}'\n"
    document = key_values.read_properties("a.properties", content)
    assert [s.source.text for s in document.segments] == ["Geht's, {0}?", "Geht''s?"]
    written = document.write([MarkedText("Isn't it, {0}?"), MarkedText("It isn't")])
    assert written == b"a=Isn''t it, {0}?\nb=It isn't\nc={0} '{1}'\n"
    assert document.write([MarkedText("Geht's, {0}?"), None]) == content


def test_strings():
    document = key_values.read_strings("a.strings", EXAMPLES["a.strings"])
    assert [(s.key, s.source.text) for s in document.segments] == [
        ("titel", 'Die "Überschrift"'), ("NSName", "Ein Name\n"),
    ]  # fmt: skip
    written = document.write([MarkedText('a "b" \\'), None]).decode("utf-16")
    assert '"titel" = "a \\"b\\" \\\\";' in written


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'"a" = "b";\n"c" = "d"', r"""a\.strings:2: '"c" = "d"'; expected "key" = "value";"""),
        (b'/* a "b" = "c";', r"a\.strings:1: "),
    ],
)
def test_broken_strings_are_refused(content, message):
    with pytest.raises(ValueError, match=message):
        key_values.read_strings("a.strings", content)
