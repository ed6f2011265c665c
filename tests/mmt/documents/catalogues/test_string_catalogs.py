"""Apple's String Catalogs: localizations, and the plural forms of the target."""

import json

import pytest

from mmt.documents import Locales, MarkedText, locales
from mmt.documents.catalogues import string_catalogs
from tests.helpers.documents import EXAMPLES

LOCALES = Locales("deu_Latn", "eng_Latn")
CATALOG = EXAMPLES["a.xcstrings"]


def test_a_string_catalog_gets_a_new_localization():
    document = string_catalogs.read("a.xcstrings", CATALOG, LOCALES)
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
        string_catalogs.read("a.xcstrings", CATALOG, Locales())


def forms(content: bytes, source: str, target: str, key: str = "dateien") -> dict[str, str]:
    """The plural forms of an entry, everything marked as translated, read again by json."""
    document = string_catalogs.read("a.xcstrings", content, locales(source, target))
    assert document.write([None] * len(document.segments)) == content
    texts = [MarkedText(f"{segment.source.text}!") for segment in document.segments]
    entry = json.loads(document.write(texts))["strings"][key]["localizations"]
    (variants,) = entry[target]["variations"].values()
    return {form: variant["stringUnit"]["value"] for form, variant in variants.items()}


def test_a_new_localization_has_the_plural_forms_of_the_target():
    many = "%lld Dateien!"
    assert forms(CATALOG, "de", "ru") == {
        "one": "%lld Datei!", "few": many, "many": many, "other": many
    }  # fmt: skip
    assert forms(CATALOG, "de", "ja") == {"other": many}
    polish = forms(CATALOG, "de", "pl")
    assert list(polish) == ["one", "few", "many", "other"]
    # A language with more forms than the target, from a file that has its localization.
    russian = CATALOG.replace(b'"de" :', b'"ru" :').replace(
        b'"one" : { "stringUnit" : { "state" : "translated", "value" : "%lld Datei" }',
        b'"one" : { "stringUnit" : { "value" : "%lld Datei" } },\n'
        b'"few" : { "stringUnit" : { "value" : "%lld Wenige" }',
    )
    assert forms(russian, "ru", "fr")["other"] == many
    assert "few" not in forms(russian, "ru", "fr")


def test_a_localization_that_lacks_forms_gets_them():
    russian = CATALOG.replace(b'"en" : { "variations"', b'"ru" : { "variations"')
    assert forms(russian, "de", "ru") == {
        "few": "%lld Dateien!", "many": "%lld Dateien!", "one": "%lld Datei!",
        "other": "%lld Dateien!",
    }  # fmt: skip
    unfilled = russian.replace(
        b'"one" : { "stringUnit" : { "state" : "new"',
        b'"few" : { "stringUnit" : { "state" : "new", "value" : "" } },\n'
        b'"one" : { "stringUnit" : { "state" : "new"',
    )
    assert unfilled != russian and forms(unfilled, "de", "ru") == forms(russian, "de", "ru")
    empty = b"""{"sourceLanguage": "en", "strings": {"a %lld": {"localizations": {
  "en": {"variations": {"plural": {"one": {"stringUnit": {"value": "a file"}},
    "other": {"stringUnit": {"value": "files"}}}}},
  "ar": {"variations": {"plural": {}}}}}}}"""
    arabic = forms(empty, "en", "ar", "a %lld")
    assert list(arabic) == ["zero", "one", "two", "few", "many", "other"]
    assert arabic.pop("one") == "a file!" and set(arabic.values()) == {"files!"}


def test_devices_are_variants_of_a_new_localization():
    content = b"""{"sourceLanguage": "en", "strings": {"tap": {"localizations": {
  "en": {"variations": {"device": {"mac": {"stringUnit": {"value": "Click"}},
    "other": {"stringUnit": {"value": "Tap"}}}}}}}}}"""
    assert forms(content, "en", "de", "tap") == {"mac": "Click!", "other": "Tap!"}


def test_substitutions_are_translated_where_the_localization_has_them():
    """A new localization is not begun: the text would name substitutions that are not there."""

    def localization(text: str, one: str, other: str) -> dict:
        plural = {"one": {"stringUnit": {"value": one}}, "other": {"stringUnit": {"value": other}}}
        files = {"argNum": 1, "formatSpecifier": "lld", "variations": {"plural": plural}}
        return {"stringUnit": {"value": text}, "substitutions": {"files": files}}

    german = localization("%#@files@ hier", "%arg Datei", "%arg Dateien")
    strings = {"k": {"localizations": {"de": german, "en": localization("", "", "")}}}
    content = json.dumps({"sourceLanguage": "de", "strings": strings}).encode()
    document = string_catalogs.read("a.xcstrings", content, locales("de", "en"))
    assert [(s.source.text, s.form) for s in document.segments] == [
        ("%#@files@ hier", ""),
        ("%arg Datei", "substitutions.files.plural.one"),
        ("%arg Dateien", "substitutions.files.plural.other"),
    ]
    new = document.write([MarkedText(t) for t in ("%#@files@ here", "%arg file", "%arg files")])
    expected = localization("%#@files@ here", "%arg file", "%arg files")
    assert json.loads(new)["strings"]["k"]["localizations"]["en"] == expected
    assert not string_catalogs.read("a.xcstrings", content, locales("de", "fr")).segments


@pytest.mark.parametrize("entry", ['"x"', "[]", '{"localizations": "x"}', '{"localizations": []}'])
def test_an_entry_that_is_no_object_is_refused(entry):
    content = f'{{"sourceLanguage": "de", "strings": {{\n"Ein Haus": {entry}}}}}'
    with pytest.raises(ValueError, match="a.xcstrings:2: the entry 'Ein Haus' is no String"):
        string_catalogs.read("a.xcstrings", content.encode(), LOCALES)


@pytest.mark.parametrize("variations", ['"x"', '{"plural": "x"}', '{"plural": {"one": "x"}}'])
def test_variations_that_are_no_objects_have_no_text(variations):
    german = f'{{"localizations": {{"de": {{"variations": {variations}}}}}}}'
    content = f'{{"sourceLanguage": "de", "strings": {{"Ein Haus": {german}}}}}'
    document = string_catalogs.read("a.xcstrings", content.encode(), LOCALES)
    assert [segment.source.text for segment in document.segments] == ["Ein Haus"]
