"""Catalogues as corpora: what is translated, with its forms, placeholders and markup."""

import pytest

from mmt.data import readers
from mmt.data.readers.files import Files
from tests.helpers.documents import EXAMPLES

LANGUAGES = ("deu_Latn", "eng_Latn")
ANDROID = """<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
<string name="titel">What\\'s up, <b>world</b>?</string>
<string name="gruss">Hello <xliff:g id="n">%1$s</xliff:g></string>
<string name="dateien">no plural</string>
<plurals name="dateien"><item quantity="other">%d files</item></plurals>
<string name="roh">Ein &lt;b&gt;roher&lt;/b&gt; Text</string>
</resources>"""
FLUENT = (
    "titel = The title\nhallo = Hello, { $name }!\ndateien = { $n ->\n   *[other] { $n } files\n}\n"
)


def pairs(*paths, **options):
    files = Files(*paths, languages=options.pop("languages", LANGUAGES), **options)
    read = [(sides.source, sides.target, sides.id) for sides in readers.read(files)]
    assert readers.count(files) == len(read)
    return read


@pytest.fixture
def write(tmp_path):
    def write(name: str, content: str | bytes):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_two_files_are_paired_by_key_and_form(write):
    source, target = write("de.xml", EXAMPLES["strings.xml"]), write("en.xml", ANDROID)
    assert pairs(source, target, markup="strip") == [
        ("Wie geht's, Welt?", "What's up, world?", "titel"),
        ("Hallo %1$s & willkommen", "Hello %1$s", "gruss"),
        ("%d Datei", "%d files", "dateien"), ("%d Dateien", "%d files", "dateien"),
    ]  # fmt: skip
    kept = pairs(source, target)
    assert kept[0] == ("Wie geht's, <b>Welt</b>?", "What's up, <b>world</b>?", "titel")


def test_placeables_are_kept(write):
    source, target = write("de.ftl", EXAMPLES["a.ftl"]), write("en.ftl", FLUENT)
    assert pairs(source, target, markup="strip") == [
        ("Die Überschrift", "The title", "titel"),
        ("Hallo, { $name }!", "Hello, { $name }!", "hallo"),
        ("Eine Datei", "{ $n } files", "dateien"),
        ("{ $n } Dateien in { -marke }", "{ $n } files", "dateien"),
    ]  # fmt: skip


def test_untranslated_entries_are_left_out(write):
    source = write("de.json", '{"a": "Ja", "b": "OK", "c": "Nein", "d": "", "@e": "x"}')
    target = write("en.json", '{"b": "OK", "a": "Yes", "c": " ", "d": "D", "@e": "y"}')
    assert pairs(source, target) == [("Ja", "Yes", "a")]


def test_a_string_catalog_has_every_direction(write):
    path = write("a.xcstrings", EXAMPLES["a.xcstrings"])
    expected = [("Schließen", "Close", "Schließen"), ("%lld Dateien", "%lld files", "dateien")]
    assert pairs(path) == expected
    turned = pairs(path, languages=LANGUAGES[::-1])
    assert {pair[:2] for pair in turned} == {pair[1::-1] for pair in expected}


def test_a_qt_file_says_its_direction(write):
    path = write("a.ts", EXAMPLES["a.ts"])
    assert [pair[:2] for pair in pairs(path)] == [("Schließen", "Close")]
    assert [pair[:2] for pair in pairs(path, languages=LANGUAGES[::-1])] == [("Close", "Schließen")]
    with pytest.raises(ValueError, match=r"a\.ts: from \? to en; expected fra_Latn and spa_Latn"):
        pairs(path, languages=("fra_Latn", "spa_Latn"))


@pytest.mark.parametrize(
    ("given", "message"),
    [('language="de" sourcelanguage="en"', "from en to de"), ('language="de"', r"from \? to de"),
     ('language="it" sourcelanguage="fr"', "from fr to it"), ("", r"from \? to \?")],
)  # fmt: skip
def test_a_qt_file_of_another_language_is_refused(given, message, write):
    """One of its two languages fits."""
    path = write("a.ts", EXAMPLES["a.ts"].replace(b'language="en"', given.encode()))
    with pytest.raises(ValueError, match=f"a.ts: {message}; expected ita_Latn and eng_Latn"):
        pairs(path, languages=("ita_Latn", "eng_Latn"))


@pytest.mark.parametrize("given", ['sourcelanguage="de"', 'language="en" sourcelanguage="de"'])
def test_a_qt_file_names_one_or_both_languages(given, write):
    path = write("a.ts", EXAMPLES["a.ts"].replace(b'language="en"', given.encode()))
    assert [pair[:2] for pair in pairs(path)] == [("Schließen", "Close")]


def test_a_damaged_catalogue_is_named(write):
    with pytest.raises(ValueError, match=r"de\.json:1: no JSON"):
        pairs(write("de.json", "{"), write("en.json", "{}"))
