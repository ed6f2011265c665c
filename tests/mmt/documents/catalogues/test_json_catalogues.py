"""JSON catalogues: keys and forms, i18next's and ICU's plurals, and the name of the language."""

import json

import pytest

from mmt.documents import MarkedText, locales
from mmt.documents.catalogues import json_catalogues
from tests.helpers.documents import EXAMPLES


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


RUSSIAN = """{"ru": {
  "a_one": "Файл", "a_few": "Файла", "a_other": "Файлов",
  "a_many": "Файлов",
  "b_few": "Дня", "b_one": "День", "b_many": "Дней", "b_other": "Дня",
  "reason_other": "Другое"
}}"""
GERMAN = r"""{"@@locale": "de_DE",
 "dateien": "{n, plural, =0{nichts} one{eine Datei} other{{n} Dateien}}",
 "platz": "{n, selectordinal, other{{n}. Platz}}",
 "wer": "{g, select, male{{n, plural, one{er} other{sie}}} other{es}}",
 "tief": "{n, plural, one{a} other{{g, select, male{er} other{es}}}}",
 "tag_one": "ein Tag",   "tag_other": "{{count}} Tage", "grund_other": "Anderes"}"""


def written(name: str, content: str, source: str, target: str) -> dict:
    """Everything marked as translated, read again by json."""
    document = json_catalogues.read(name, content.encode(), locales(source, target))
    assert document.write([None] * len(document.segments)) == content.encode()
    texts = [MarkedText(f"{segment.source.text}!") for segment in document.segments]
    return json.loads(document.write(texts))


def test_forms_that_the_target_does_not_have_are_dropped():
    assert written("a.json", RUSSIAN, "ru", "en") == {
        "en": {
            "a_one": "Файл!", "a_other": "Файлов!", "b_one": "День!", "b_other": "Дня!",
            "reason_other": "Другое!",
        }
    }  # fmt: skip
    icu = '{"n": "{n, plural, few{b} one{a} many{c} other{d} }"}'
    assert written("a.arb", icu, "pl", "en") == {"n": "{n, plural, one{a!} other{d!} }"}
    assert written("a.arb", icu, "pl", "ja") == {"n": "{n, plural, other{d!} }"}


def test_forms_that_only_the_target_has_are_translated_from_other():
    new = written("a.arb", GERMAN, "de", "ru")
    assert new["@@locale"] == "ru_RU"
    assert new["dateien"] == (
        "{n, plural, =0{nichts!} one{eine Datei!} few{{n} Dateien!} many{{n} Dateien!} "
        "other{{n} Dateien!}}"
    )
    assert new["wer"].startswith("{g, select, male{{n, plural, one{er!} few{sie!} many{sie!} other")
    assert new["tief"] == GERMAN.split('"tief": "')[1].split('"')[0].translate(
        {}
    ).replace("{a}", "{a!}").replace("{er}", "{er!}").replace("{es}", "{es!}")
    tags = {key: text for key, text in new.items() if key.startswith("tag")}
    assert list(tags) == ["tag_one", "tag_few", "tag_many", "tag_other"]
    assert tags["tag_few"] == tags["tag_many"] == tags["tag_other"] == "{{count}} Tage!"
    assert [key for key in new if key.startswith("grund")] == ["grund_other"]
    ordinal = written("a.arb", GERMAN, "de", "en-GB")
    assert ordinal["@@locale"] == "en_GB"
    assert ordinal["platz"] == "{n, selectordinal, " + " ".join(
        f"{form}{{{{n}}. Platz!}}" for form in ("one", "two", "few", "other")
    ) + "}"


def test_another_name_of_a_language_stays():
    assert written("a.arb", GERMAN, "fr", "en")["@@locale"] == "de_DE"
    assert list(written("a.json", '{"de": {"a": "b"}}', "de", "en")) == ["en"]
    assert set(written("a.json", '{"de": {"a": "b"}, "x": "y"}', "de", "en")) == {"de", "x"}
    assert written("a.json", '{"de": "Text"}', "de", "en") == {"de": "Text!"}
