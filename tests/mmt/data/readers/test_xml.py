"""TMX and XLIFF: both directions, languages checked, streamed, and XML's tricks refused."""

import tracemalloc
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt.data import corpora, readers
from mmt.data.readers import xml
from mmt.data.readers.files import Files

LANGUAGES = ("deu_Latn", "eng_Latn")
HEAD = '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><body>\n'
TAIL = "</body></tmx>\n"


def unit(**texts):
    """A `tu` of texts by language, as XML."""
    return "<tu>" + "".join(
        f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in texts.items()
    ) + "</tu>\n"  # fmt: skip


def pairs(path, languages=LANGUAGES, **options):
    files = Files(path, languages=languages, **options)
    read = [sides[:3] for sides in readers.read(files)]
    assert readers.count(files) == len(read)
    return read


@pytest.fixture
def tmx(tmp_path):
    """A function that writes units into a TMX and gives its path."""

    def write(*units, head=HEAD, tail=TAIL):
        path = tmp_path / "a.tmx"
        path.write_text(head + "".join(units) + tail, "utf-8")
        return path

    return write


def test_tmx_is_read_in_either_direction_and_order(tmx):
    path = tmx(unit(de="eins", en="one"), unit(EN="two", fr="deux", **{"de-AT": "zwei"}))
    assert pairs(path) == [(1, "eins", "one"), (2, "zwei", "two")]
    assert pairs(path, LANGUAGES[::-1]) == [(1, "one", "eins"), (2, "two", "zwei")]


def test_a_tmx_of_many_languages_has_gaps(tmx):
    path = tmx(unit(fr="un", en="one"), unit(de="zwei", en="two"), unit(de="drei", fr="trois"))
    assert pairs(path) == [(2, "zwei", "two")]


def test_tmx_as_other_programs_write_it(tmp_path):
    text = (
        '<tmx version="1.1"><body><tu tuid="9"><note>no <b>text</b></note><prop type="x">p</prop>'
        '<tuv lang="EN-US"><prop type="y">q</prop><seg>Press\r\n   <ph x="1">&lt;b&gt;</ph><hi>the'
        "</hi> key<bpt i='1'><sub>s</sub></bpt> &amp; go</seg></tuv>"
        '<tuv lang="DE"><seg>Taste<![CDATA[ <drücken>]]></seg></tuv></tu></body></tmx>'
    )
    path = tmp_path / "a.tmx"
    for encoding in ("utf-8", "utf-16", "iso-8859-1"):
        path.write_bytes(f'<?xml version="1.0" encoding="{encoding}"?>{text}'.encode(encoding))
        assert pairs(path) == [(1, "Taste <drücken>", "Press the key & go")]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(*[st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]),
                                    min_size=1)] * 2), min_size=1))  # fmt: skip
def test_any_text_comes_back(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("any") / "a.tmx"
    units = (unit(de=escape(source), en=escape(target)) for source, target in texts)
    path.write_text(HEAD + "".join(units) + TAIL, "utf-8")
    assert [both[1:] for both in pairs(path)] == texts


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (unit(fr="un", en="one"), r"a\.tmx:4: unit 1: no deu_Latn; available: fr \(fra_Latn\), en"),
        (unit(de="eins"), r"a\.tmx:4: unit 1: no eng_Latn; available: de \(deu_Latn\)"),
        (unit(de="eins", xx="one"), r"no eng_Latn; available: de \(deu_Latn\), xx \(unknown\)"),
        (unit(de="eins", en="one") + unit(de=" ", en="two"), r"tmx: unit 2: the source side is em"),
        ("<tu><tuv><seg>x</seg></tuv></tu>", r"a\.tmx:4: unit 1: a tuv without xml:lang"),
        ("<tu>", r"a\.tmx:4: broken XML: mismatched tag"),
        ("<tu>&nbsp;</tu>", r"a\.tmx:4: refused: names the entity nbsp"),
        ("", r"a\.tmx: no pairs"),
    ],
)
def test_faults_of_a_tmx_are_named(tmx, content, message):
    with pytest.raises(ValueError, match=message):
        pairs(tmx(content))


BOMB = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
TRICKS = [
    f'<!DOCTYPE tmx [<!ENTITY l0 "lol">{BOMB}]><tmx><body>&l11;',
    '<!DOCTYPE tmx [<!ENTITY x SYSTEM "file:///etc/passwd">]><tmx><body>&x;',
    '<!DOCTYPE tmx [<!ENTITY % x SYSTEM "http://localhost/x.dtd"> %x;]><tmx><body>',
    '<!DOCTYPE tmx [<!ENTITY x "y">]><tmx><body>',
    '<!DOCTYPE tmx [<!NOTATION n SYSTEM "n"><!ENTITY x SYSTEM "y" NDATA n>]><tmx><body>',
]


@pytest.mark.parametrize("head", TRICKS)
def test_entities_are_refused(tmx, head):
    path = tmx(unit(de="eins", en="one"), head=head)
    with pytest.raises(ValueError, match=r"a\.tmx:1: refused: declares the entity"):
        pairs(path)
    assert len(pairs(tmx(unit(de="eins", en="one")))) == 1  # a document type alone is usual


def test_no_text_or_tag_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(xml, "TAG", 1 << 18)
    monkeypatch.setattr(xml, "LONGEST", 1 << 18)
    for content in ("<tmx><tu><tuv lang='de'><seg>", "<tmx><!-- ", "<tmx><a b='", "<tmx><?"):
        (tmp_path / "a.tmx").write_text(content + "a" * (1 << 20))
        with pytest.raises(ValueError, match=r"a\.tmx:1: a (text|tag) of more than \d+ KiB"):
            pairs(tmp_path / "a.tmx")


def test_tmx_streams(tmx):
    path = tmx(*[unit(de=f"Satz {n}" + " x" * 4000, en="y" * 800) for n in range(300)], "<broken")
    stream = readers.read(Files(path, languages=LANGUAGES))
    assert next(stream).line == 1
    tracemalloc.start()
    assert sum(1 for _ in zip(range(299), stream, strict=False)) == 299
    assert tracemalloc.get_traced_memory()[1] < path.stat().st_size / 3
    tracemalloc.stop()
    with pytest.raises(ValueError, match=r"a\.tmx:304: broken XML"):
        next(stream)


def test_the_entry_may_name_the_codes_as_written(tmx, tmp_path):
    path = tmx(unit(zh="一", en="one"))
    (tmp_path / "corpus.toml").write_text('[train]\nzh-TW = "a.tmx"')
    with pytest.raises(ValueError, match=r"no zho_Hant; available: zh \(zho_Hans\), .*columns = "):
        corpora.load(tmp_path).validate()
    assert pairs(path, ("zho_Hant", "eng_Latn"), columns=("zh", "en")) == [(1, "一", "one")]


XLIFF1 = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file source-language="en-US" target-language="de" datatype="plaintext" original="x"><body><group>
<trans-unit id="1"><source>one</source><target>eins</target>
  <alt-trans><source>uno</source><target>ein</target></alt-trans></trans-unit>
<trans-unit id="2"><source>two</source></trans-unit>
<trans-unit id="3"><source>three</source><target/></trans-unit>
<trans-unit id="4" translate="no"><source>four</source><target>vier</target></trans-unit>
<trans-unit id="5"><source>five</source><target state="new">five</target></trans-unit>
<trans-unit id="6"><source>Press <g id="1">the</g> <x id="2"/>key<ph id="3">code</ph></source>
  <seg-source><mrk mtype="seg">no</mrk></seg-source>
  <target><mrk mtype="seg" mid="0">Taste</mrk> drücken</target></trans-unit>
</group></body></file></xliff>"""
XLIFF2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0"
srcLang="de" trgLang="en">
<file id="f"><unit id="1"><mtc:matches xmlns:mtc="urn:m"><mtc:match><source>ein</source>
<target>a</target></mtc:match></mtc:matches><segment><source>eins</source><target>one</target>
</segment><ignorable><source> </source></ignorable><segment><source>zwei <pc id="1">drei</pc>
</source><target>two <pc id="1">three</pc></target></segment></unit></file></xliff>"""


def test_xliff_is_read_in_either_direction(tmp_path):
    first, second = tmp_path / "a.xlf", tmp_path / "b.xliff"
    first.write_text(XLIFF1, "utf-8")
    second.write_text(XLIFF2, "utf-8")
    german = [(1, "eins", "one"), (6, "Taste drücken", "Press the key")]
    assert pairs(first) == german
    assert pairs(first, LANGUAGES[::-1]) == [(n, b, a) for n, a, b in german]
    assert pairs(second) == [(1, "eins", "one"), (2, "zwei drei", "two three")]
    first.write_text(XLIFF1.replace(' target-language="de"', ""), "utf-8")
    assert pairs(first) == german
    assert pairs(first, ("fra_Latn", "deu_Latn"), columns=("target", "source")) == german


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('target-language="de"', 'target-language="fr"', r"a\.xlf:2: from en-US to fr; expected"),
        ('source-language="en-US" target-language="de"', "", r"a\.xlf:3: no source-language"),
        ("<xliff", "<html", r"a\.xlf:1: the root is <html>; expected <xliff>"),
        ("</target>", "</traget>", r"a\.xlf:3: broken XML: mismatched tag"),
        ("<source>two", "<source> </source><target>zwei</target><source>", r"unit 2: the target"),
    ],
)
def test_faults_of_an_xliff_are_named(tmp_path, old, new, message):
    assert old in XLIFF1
    (tmp_path / "a.xlf").write_text(XLIFF1.replace(old, new, 1), "utf-8")
    with pytest.raises(ValueError, match=message):
        pairs(tmp_path / "a.xlf")


@pytest.mark.parametrize("parent", ["unit", "group", "file"])
def test_what_an_element_around_a_segment_leaves_untranslated_is_skipped(tmp_path, parent):
    unit = "<group><unit><segment><source>{}</source><target>{}</target></segment></unit></group>"
    units = [unit.format("eins", "one").replace("<unit>", '<unit translate="yes">')]
    units += [unit.format("MMT", "MMT").replace(f"<{parent}>", f'<{parent} translate="no">')]
    file = "<file>" if parent != "file" else '<file translate="no">'
    head, tail = '<xliff version="2.0" srcLang="de" trgLang="en">', "</xliff>"
    content = f"{head}<file>{units[0]}</file>{file}{units[1]}</file>{tail}"
    (tmp_path / "a.xlf").write_text(content)
    assert pairs(tmp_path / "a.xlf") == [(1, "eins", "one")]
