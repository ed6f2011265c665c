"""XLIFF, TMX and TS: translations beside their sources, read again by lxml."""

import pytest
from lxml import etree

from mmt.documents import Locales, MarkedText
from mmt.documents.catalogues import bilingual
from tests.helpers.documents import EXAMPLES

LOCALES = Locales("deu_Latn", "eng_Latn")
SPACE = {"x": "urn:oasis:names:tc:xliff:document:1.2"}


def found(document) -> list[tuple[str, str, str | None]]:
    return [(s.key, s.source.text, s.target and s.target.text) for s in document.segments]


def test_units_of_xliff():
    document = bilingual.read_xliff("a.xlf", EXAMPLES["a.xlf"])
    assert found(document) == [
        ("1", "Ein großes Haus & ", None), ("2", "Zwei", None), ("3", "Drei", "Three"),
        ("4", "Vier", None),
    ]  # fmt: skip
    first = document.segments[0].source
    tree = etree.fromstring(document.write([first._replace(text=first.text.upper()), *[None] * 3]))
    target = tree.findall(".//x:target", SPACE)[0]
    assert [etree.QName(child).localname for child in target] == ["g", "x", "ph"]
    assert "".join(target.itertext()).split() == ["EIN", "GROSSES", "HAUS", "&%s"]


def test_segments_of_xliff_2():
    document = bilingual.read_xliff("b.xliff", EXAMPLES["b.xliff"])
    assert found(document) == [("u1", "Ein Haus.", None), ("u1", "Zwei", "Two")]


def test_a_new_variant_of_tmx_stands_like_its_neighbour():
    document = bilingual.read_tmx("a.tmx", EXAMPLES["a.tmx"], LOCALES)
    assert found(document) == [("1", "Ein Haus", None), ("2", "Zwei", "Two")]
    written = document.write([MarkedText("A <house>"), None]).decode()
    assert '</tuv>\n  <tuv xml:lang="en"><seg>A &lt;house&gt;</seg></tuv>\n </tu>' in written
    with pytest.raises(ValueError, match=r"a\.tmx: no unit has spa_Latn; available: de-DE, de, en"):
        bilingual.read_tmx("a.tmx", EXAMPLES["a.tmx"], Locales("spa_Latn", "eng_Latn"))
    with pytest.raises(ValueError, match="name the target language"):
        bilingual.read_tmx("a.tmx", EXAMPLES["a.tmx"], Locales())


def test_messages_of_qt_and_their_numerus_forms():
    document = bilingual.read_qt("a.ts", EXAMPLES["a.ts"])
    assert [(s.source.text, s.form, s.target and s.target.text) for s in document.segments] == [
        ("Datei &öffnen", "", None), ("Schließen", "", "Close"), ("%n Datei(en)", "0", None),
        ("%n Datei(en)", "1", None),
    ]  # fmt: skip
    assert document.segments[0].key == "Fenster\x04Datei &öffnen"
    tree = etree.fromstring(document.write([MarkedText("x")] * 4))
    forms = tree.findall(".//numerusform")
    assert [form.text for form in forms] == ["x", "x"]


@pytest.mark.parametrize("read", [bilingual.read_xliff, bilingual.read_qt])
def test_another_root_is_refused(read):
    with pytest.raises(ValueError, match=r"a\.xml:2: the root is <a>; expected <"):
        read("a.xml", b"<!-- x -->\n<a/>")
