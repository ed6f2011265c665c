"""PO: entries with their forms, read again by polib, and broken files."""

import gettext as standard_gettext
import io

import polib
import pytest
from babel.messages import pofile

from mmt.documents import MarkedText, locales
from mmt.documents.catalogues import gettext
from tests.helpers.documents import EXAMPLES


def test_entries_and_their_forms():
    document = gettext.read("a.po", EXAMPLES["a.po"])
    found = [(s.source.text, s.form, s.target and s.target.text) for s in document.segments]
    assert found == [
        ("Erste\n", "", "First\n"), ("Zweite", "", "Other"), ('Dritte "Öl" \\', "", None),
        ("%d Datei", "0", None), ("%d Dateien", "1", "%d files"),
    ]  # fmt: skip
    assert document.segments[-1].key == "Datei\x04%d Datei"


@pytest.mark.parametrize(
    "text", ["a", 'say "a" \\n', "one\ntwo\n", "\ttab", "word " * 40, "x" * 200, "语"]
)
def test_another_reader_reads_the_translation(text, tmp_path):
    document = gettext.read("a.po", EXAMPLES["a.po"])
    (tmp_path / "a.po").write_bytes(document.write([MarkedText(text)] * 5))
    entries = [entry for entry in polib.pofile(str(tmp_path / "a.po")) if not entry.obsolete]
    assert [entry.msgstr for entry in entries[:3]] == [text] * 3
    assert entries[3].msgstr_plural == {0: text, 1: text}
    assert [entry.msgid for entry in entries[:2]] == ["Erste\n", "Zweite"]


def test_line_ends_are_those_of_the_file():
    content = b'msgid ""\r\n"a\\n"\r\n"b"\r\nmsgstr ""\r\n'
    new = gettext.read("a.po", content).write([MarkedText("c\nde")])
    assert new == content.replace(b'msgstr ""', b'msgstr ""\r\n"c\\n"\r\n"de"')


def test_a_long_hexadecimal_escape_is_one_character():
    document = gettext.read("a.po", b'msgid "a\\xffffffffffe9 b"\nmsgstr ""\n')
    assert document.segments[0].source.text == "aé b"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'msgid "a\nmsgstr ""', r"a\.po:1: 'msgid \"a'; expected msgid or msgstr"),
        (b'msgid "a"\nmsgstr "b" c', r"a\.po:2: "),
        (b'"a"', r"a\.po:1: "),
        (b'msgid "a"\nmsgstr "b"\nmsgstr "c"', r"a\.po:3: msgstr is repeated"),
        (b"no catalogue", r"a\.po:1: 'no catalogue'"),
    ],
)
def test_faults_name_the_line(content, message):
    with pytest.raises(ValueError, match=message):
        gettext.read("a.po", content)


PLURAL = r"""msgid ""
msgstr ""
"Project-Id-Version: a\n"
"Language: LANGUAGE\n"
"Plural-Forms: RULE\n"

msgid "%d Datei"
msgid_plural "%d Dateien"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

msgid "Ende"
msgstr ""
"""
TEMPLATE = "nplurals=INTEGER; plural=EXPRESSION;"


def translated(content: str, source: str, target: str, tmp_path) -> polib.POFile:
    """Everything marked as translated, read again by polib; Babel must agree on the forms."""
    document = gettext.read("a.po", content.encode(), locales(source, target))
    assert document.write([None] * len(document.segments)) == content.encode()
    new = document.write([MarkedText(f"{segment.source.text}!") for segment in document.segments])
    (tmp_path / "new.po").write_bytes(new)
    catalog = pofile.read_po(io.BytesIO(new), abort_invalid=True)
    found = polib.pofile(str(tmp_path / "new.po"))
    for entry in found:
        forms = [*entry.msgstr_plural.values()]
        assert not forms or (len(forms) == catalog.num_plurals and all(forms))
    return found


@pytest.mark.parametrize(
    ("target", "name", "forms"),
    [
        ("ru", "ru", ["Datei", "Dateien", "Dateien"]), ("en-GB", "en_GB", ["Datei", "Dateien"]),
        ("ja", "ja", ["Dateien"]), ("sr-Latn", "sr@latin", ["Datei", "Dateien", "Dateien"]),
        ("ar", "ar", ["Dateien", "Datei", *["Dateien"] * 4]), ("ckb", "ckb", ["Datei", "Dateien"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("given", ["", "de"])
def test_a_catalogue_gets_the_name_and_the_forms_of_the_target(
    target, name, forms, given, tmp_path
):
    content = PLURAL.replace("LANGUAGE", given).replace("RULE", TEMPLATE)
    found = translated(content, "de", target, tmp_path)
    assert found.metadata["Language"] == name
    assert found.metadata["Plural-Forms"].startswith(f"nplurals={len(forms)}; plural=")
    assert list(found[0].msgstr_plural.values()) == [f"%d {word}!" for word in forms]
    assert list(found[0].msgstr_plural) == list(range(len(forms))) and found[1].msgstr == "Ende!"


def test_forms_of_a_source_with_more_are_dropped(tmp_path):
    content = PLURAL.replace("LANGUAGE", "ru_RU").replace("RULE", 'nplurals=3; "\n"plural=2;')
    content = content.replace('[2] ""', '[2] "alt"')
    found = translated(content, "ru", "en", tmp_path)
    assert found.metadata["Language"] == "en_US" and len(found[0].msgstr_plural) == 2
    assert found.metadata["Plural-Forms"] == "nplurals=2; plural=(n != 1);"


def test_a_header_in_the_target_keeps_its_rule(tmp_path):
    rule = "nplurals=4; plural=(n==1 ? 3 : n==2 ? 0 : n==3 ? 1 : 2);"
    content = PLURAL.replace("LANGUAGE", "ru").replace("RULE", rule)
    found = translated(content, "de", "ru", tmp_path)
    assert found.metadata["Plural-Forms"] == rule
    assert list(found[0].msgstr_plural.values()) == [*["%d Dateien!"] * 3, "%d Datei!"]
    without = content.replace(f'"Plural-Forms: {rule}\\n"\n', "")
    found = translated(without, "de", "ru", tmp_path)
    assert found.metadata["Plural-Forms"].startswith("nplurals=3;")


def test_a_header_of_another_language_is_left_alone():
    rule = "nplurals=3; plural=0;"
    content = PLURAL.replace("LANGUAGE", "pl").replace("RULE", rule)
    document = gettext.read("a.po", content.encode(), locales("de", "en"))
    assert len(document.segments) == 4
    assert document.write([None, None, None, MarkedText("End")]).decode() == content.replace(
        'msgid "Ende"\nmsgstr ""', 'msgid "Ende"\nmsgstr "End"'
    )


def test_the_encoding_is_found_after_long_comments():
    comments = "# Jörg Müller <a@b.de>, 2011.\n" * 60
    text = (
        f'{comments}msgid ""\nmsgstr "Content-Type: text/plain; charset=ISO-8859-1\\n"\n\n'
        'msgid "Größe"\nmsgstr ""\n'
    )
    document = gettext.read("a.po", text.encode("latin-1"))
    assert [segment.source.text for segment in document.segments] == ["Größe"]


@pytest.mark.parametrize("language", ["", "de", "fr"])
def test_a_template_gets_its_encoding(language, tmp_path):
    """Without it, gettext cannot load the compiled catalogue."""
    content = (
        f'msgid ""\nmsgstr ""\n"Language: {language}\\n"\n'
        '"Content-Type: text/plain; charset=CHARSET\\n"\n\nmsgid "Size"\nmsgstr ""\n'
    )
    document = gettext.read("a.pot", content.encode(), locales("en", "de"))
    assert document.write([None]) == content.encode()
    (tmp_path / "a.po").write_bytes(document.write([MarkedText("Größe")]))
    polib.pofile(str(tmp_path / "a.po")).save_as_mofile(str(tmp_path / "a.mo"))
    with open(tmp_path / "a.mo", "rb") as compiled:
        assert standard_gettext.GNUTranslations(compiled).gettext("Size") == "Größe"
