"""XLIFF, TMX and TS: translations beside their sources, read again by lxml."""

import pytest
from lxml import etree

from mmt.documents import Locales, MarkedText, locales
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


def test_a_group_says_for_its_units_whether_they_are_translated():
    units = [f'<trans-unit id="{i}" {more}><source>Ein</source></trans-unit>'
             for i, more in enumerate(["", 'translate="yes"', ""])]  # fmt: skip
    xliff = f'''<xliff version="1.2"><file><body><group translate="no"><group>{units[0]}</group>
        {units[1]}</group>{units[2]}</body></file></xliff>'''
    assert [key for key, _, _ in found(bilingual.read_xliff("a.xlf", xliff.encode()))] == ["1", "2"]
    segment = "<segment><source>Ein</source></segment>"
    xliff = f'''<xliff version="2.0"><file id="f"><unit id="1">{segment}</unit></file>
        <file id="g" translate="no"><unit id="2">{segment}</unit></file></xliff>'''
    assert [key for key, _, _ in found(bilingual.read_xliff("a.xlf", xliff.encode()))] == ["1"]


def test_a_translated_unit_has_another_state():
    units = "".join(
        f'<trans-unit id="{i}"><source>Ein</source>{target}</trans-unit>'
        for i, target in enumerate([
            '<target state="new">Ein</target>', "<target xml:lang='en' state='new'/>",
            '<target state="final"></target>', '<target state="needs-translation">A</target>',
        ])
    )  # fmt: skip
    xliff = f'<xliff version="1.2"><file><body>{units}</body></file></xliff>'
    document = bilingual.read_xliff("a.xlf", xliff.encode())
    assert [target for _, _, target in found(document)] == [None, None, None, "A"]
    assert document.write([None] * 4) == xliff.encode()
    tree = etree.fromstring(document.write([MarkedText("One")] * 4))
    review = ("needs-review-translation", "One")
    targets = [(target.get("state"), target.text) for target in tree.iter("target")]
    assert targets == [review, review, ("final", "One"), review]


def test_a_translated_segment_of_xliff_2_has_another_state():
    segments = "".join(
        f'<segment state="{state}"><source>Ein &lt;</source>{target}</segment>'
        for state, target in [("initial", ""), ("initial", "<target>Ein &lt;</target>"),
                              ("reviewed", "<target>A</target>")]
    )  # fmt: skip
    xliff = f'<xliff version="2.0"><file id="f"><unit id="1">{segments}</unit></file></xliff>'
    document = bilingual.read_xliff("a.xlf", xliff.encode())
    assert [target for _, _, target in found(document)] == [None, None, "A"]
    assert document.write([None] * 3) == xliff.encode()
    tree = etree.fromstring(document.write([MarkedText("One <"), MarkedText("Two"), None]))
    assert [(s.get("state"), s.findtext("source"), s.findtext("target"))
            for s in tree.iter("segment")] == [
        ("translated", "Ein <", "One <"), ("translated", "Ein <", "Two"), ("reviewed", "Ein <", "A")
    ]  # fmt: skip


def test_protected_text_of_xliff_is_no_text():
    xliff = """<xliff version="1.2"><file><body><trans-unit id="1"><source>Die <mrk
        mtype="protected">Datei.txt</mrk> fehlt</source></trans-unit></body></file></xliff>"""
    (segment,) = bilingual.read_xliff("a.xlf", xliff.encode()).segments
    assert segment.source.text == "Die  fehlt"
    assert [tag.kind for tag in segment.source.tags] == ["alone"]


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
        ("Datei öffnen", "", None), ("Schließen", "", "Close"), ("%n Datei(en)", "0", None),
        ("%n Datei(en)", "1", None),
    ]  # fmt: skip
    assert document.segments[0].key == "Fenster\x04Datei &öffnen"
    tree = etree.fromstring(document.write([MarkedText("open")] * 4))
    forms = tree.findall(".//numerusform")
    assert [form.text for form in forms] == ["open", "open"]
    assert tree.findtext(".//translation") == "&open"


@pytest.mark.parametrize("read", [bilingual.read_xliff, bilingual.read_qt])
def test_another_root_is_refused(read):
    with pytest.raises(ValueError, match=r"a\.xml:2: the root is <a>; expected <"):
        read("a.xml", b"<!-- x -->\n<a/>")


def renamed(read, content: str, source: str | None, target: str) -> etree._Element:
    """The root of a file with everything translated."""
    document = read("a.xml", content.encode(), locales(source, target))
    assert document.write([None] * len(document.segments)) == content.encode()
    return etree.fromstring(document.write([MarkedText("x")] * len(document.segments)))


@pytest.mark.parametrize(
    ("named", "source", "target", "expected"),
    [
        ('source-language="de-DE"', None, "en", "en-US"),
        ('source-language="de" target-language="de"', "de", "en", "en"),
        ('source-language="de" target-language=""', "de", "zh-Hant", "zh-Hant"),
        ('source-language="de" target-language="fr"', "de", "en", "fr"),
    ],
)
def test_xliff_names_its_target(named, source, target, expected):
    content = EXAMPLES["a.xlf"].decode().replace('source-language="de" target-language="en"', named)
    (file,) = renamed(bilingual.read_xliff, content, source, target).iter("{*}file")
    assert file.get("target-language") == expected
    content = f"<xliff version='2.0' {named}><unit><segment><source>Haus</source></segment></unit>"
    content = content.replace("source-language", "srcLang").replace("target-language", "trgLang")
    root = renamed(bilingual.read_xliff, f"{content}</xliff>", source, target)
    assert root.get("trgLang") == expected


@pytest.mark.parametrize(
    ("named", "target", "expected", "forms"),
    [
        ('language="de"', "ru", "ru", 3), ('language="de_DE"', "ar", "ar_EG", 6),
        ("", "ja", "ja", 1), ('language="hu"', "hu", "hu", 1), ('language=""', "en-GB", "en_GB", 2),
        ('language="fr"', "ru", "fr", 2), ("", "ckb", "ckb", 2),
    ],
)  # fmt: skip
def test_messages_of_qt_have_the_forms_of_the_target(named, target, expected, forms):
    content = EXAMPLES["a.ts"].decode().replace('language="en"', named)
    root = renamed(bilingual.read_qt, content, "de", target)
    assert root.get("language") == expected
    assert [form.text for form in root.iter("numerusform")] == ["x"] * forms


def test_filled_forms_of_qt_stay_unless_the_file_was_in_the_source():
    form = "<numerusform>%n alte</numerusform>"
    for named, count in (("en", 4), ("ru", 2)):
        content = EXAMPLES["a.ts"].decode().replace('language="en"', f'language="{named}"')
        content = content.replace("<numerusform/>", f"<numerusform/>{form}{form}")
        root = renamed(bilingual.read_qt, content, "ru", "en")
        assert root.get("language") == "en" and len(list(root.iter("numerusform"))) == count
