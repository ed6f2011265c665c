"""JSON catalogues: keys and forms, and Apple's String Catalogs."""

import json

import pytest

from mmt.documents import Locales, MarkedText
from mmt.documents.catalogues import json_catalogues
from mmt.documents.document import DEPTH
from tests.helpers.documents import EXAMPLES

LOCALES = Locales("deu_Latn", "eng_Latn")


def found(document) -> list[tuple[str, str, str]]:
    return [(s.key, s.form, s.source.text) for s in document.segments]


def test_strings_have_their_keys_and_forms():
    assert found(json_catalogues.read("a.json", EXAMPLES["a.json"])) == [
        ("titel", "", "Die „Überschrift“"), ("menü.datei", "", "Datei &ouml;ffnen"),
        ("menü.liste.0", "", "Erste"), ("menü.liste.1", "", "Zweite"),
        ("datei", "one", "{{count}} Datei"), ("datei", "other", "{{count}} Dateien"),
    ]  # fmt: skip
    assert found(json_catalogues.read("a.arb", EXAMPLES["a.arb"])) == [
        ("hallo", "", "Hallo {name}"), ("anzahl", "one", "eine Datei"),
        ("anzahl", "other", "{n} Dateien"),
    ]  # fmt: skip


def test_an_ascii_file_stays_ascii():
    document = json_catalogues.read("a.json", EXAMPLES["ascii.json"])
    written = document.write([MarkedText("ü 😀")])
    assert written == rb'{"a":"\u00fc \ud83d\ude00"}'


@pytest.mark.parametrize("name", ["a.json", "a.arb", "ascii.json"])
def test_every_string_is_found_as_json_reads_it(name):
    def strings(value):
        if isinstance(value, str):
            return [value]
        members = value.items() if isinstance(value, dict) else enumerate(value or ())
        return [
            text for key, member in members if not str(key).startswith("@")
            for text in strings(member if isinstance(member, str | dict | list) else None)
        ] if not isinstance(value, int) else []  # fmt: skip

    document = json_catalogues.read(name, EXAMPLES[name])
    expected = [text for text in strings(json.loads(EXAMPLES[name])) if "plural" not in text]
    read = [s.source.text for s in document.segments if s.key != "anzahl"]
    assert read == [text for text in expected if text]


def test_a_string_catalog_gets_a_new_localization():
    document = json_catalogues.read_xcstrings("a.xcstrings", EXAMPLES["a.xcstrings"], LOCALES)
    assert [(s.source.text, s.form, s.target and s.target.text) for s in document.segments] == [
        ("Datei öffnen", "", None), ("Schließen", "", "Close"),
        ("%lld Datei", "plural.one", None), ("%lld Dateien", "plural.other", "%lld files"),
        ("Nur hier", "", None),
    ]  # fmt: skip
    written = document.write([MarkedText(f'"{n}"') for n in range(5)])
    strings = json.loads(written)["strings"]
    unit = {"stringUnit": {"state": "needs_review", "value": '"0"'}}
    assert strings["Datei öffnen"] == {"localizations": {"en": unit}}
    assert set(strings["nur"]["localizations"]) == {"de", "en"}
    with pytest.raises(ValueError, match="name the target language"):
        json_catalogues.read_xcstrings("a.xcstrings", EXAMPLES["a.xcstrings"], Locales())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a":\n}', r"a\.json:2: no JSON: Expecting value"),
        (b'{"a": "b", "a": "c"}', r"a\.json: the key 'a' is repeated"),
        (b"[" * 9 * DEPTH + b"]" * 9 * DEPTH, r"a\.json: "),
        (b"", r"a\.json:1: no JSON"),
    ],
)
def test_broken_json_is_refused(content, message):
    with pytest.raises(ValueError, match=message):
        json_catalogues.read("a.json", content)
