"""YAML: keys, forms and styles; aliases cannot multiply."""

import pytest
import yaml

from mmt.documents import MarkedText, locales
from mmt.documents.catalogues import yaml_catalogues
from tests.helpers.documents import EXAMPLES

BOMB = "a: &a [eins, zwei]\n" + "".join(
    f"{new}: &{new} [{', '.join(['*' + old] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_strings_with_their_keys_and_forms():
    document = yaml_catalogues.read("a.yml", EXAMPLES["a.yml"])
    assert [(s.key, s.form, s.source.text) for s in document.segments] == [
        ("titel", "", "Die Überschrift"), ("quote", "", "Wie geht's?"),
        ("doppelt", "", "Zeile eins\nZeile zwei"), ("block", "", "Erste Zeile\nzweite Zeile\n"),
        ("datei", "one", "%{count} Datei"), ("datei", "other", "Viele Dateien"),
        ("liste.0", "", "eins"), ("liste.1", "", "zwei drei"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["a", "a: b", "- a", "a # b", "yes", "'a", "a\nb", "*a", "12", "ü", "a\xa0: 😀",
     "😀\t\x85\u2028"],  # fmt: skip
)
def test_another_reader_reads_the_translation(text):
    document = yaml_catalogues.read("a.yml", EXAMPLES["a.yml"])
    content = yaml.safe_load(document.write([MarkedText(text)] * len(document.segments)))["de"]
    assert content["titel"] == content["quote"] == content["block"] == text
    assert content["liste"] == [text, text] and content["nochmal"] == text and content["ja"] is True


def test_space_that_does_not_break_needs_no_double_quotes():
    document = yaml_catalogues.read("a.yml", b"a: 'x'")
    assert document.write([MarkedText("a\xa0: \u200f😀")]).decode() == "a: 'a\xa0: \u200f😀'"


def test_aliases_are_read_once():
    assert len(yaml_catalogues.read("a.yml", BOMB.encode()).segments) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"a: [b", r"a\.yml:\d: no YAML"), (b"a: b\n---\nc: d", r"a\.yml:\d: no YAML"),
     (b"[" * 5000, r"a\.yml(:1)?: no YAML"), (b"a: !!python/x b: c", r"a\.yml:1: no YAML")],
)  # fmt: skip
def test_broken_yaml_is_refused(content, message):
    with pytest.raises(ValueError, match=message):
        yaml_catalogues.read("a.yml", content)


RUSSIAN = """ru: # c
  files:
    one: "%{count} file"
    few: "%{count} few"  # gone
    # stays
    many: |
      many

    other: '%{count} files'
  last:
    other: y
    few: z
    many: w
  flow: {few: b, one: a, other: c, many: d}
  list:
  - few: a
    other: b
    one: c
  next: Text
"""
GERMAN = """'de':
  a:
    one: "eins"
    other: "%{count} Dateien" # c
  flow: {one: a, other: c}
  anchor:
    one: &x a
    other: *x
  reason: {other: d}
"""


def written(content: str, source: str, target: str) -> dict:
    """Everything marked as translated, read again by PyYAML."""
    document = yaml_catalogues.read("a.yml", content.encode(), locales(source, target))
    assert document.write([None] * len(document.segments)) == content.encode()
    given = [MarkedText(f"{segment.source.text.strip()}!") for segment in document.segments]
    return yaml.safe_load(document.write(given))


def test_forms_are_those_of_the_target():
    assert written(RUSSIAN, "ru", "en") == {
        "en": {
            "files": {"one": "%{count} file!", "other": "%{count} files!"},
            "last": {"other": "y!", "few": "z!", "many": "w!"},  # without "one" it is no plural
            "flow": {"one": "a!", "other": "c!"},
            "list": [{"few": "a!", "other": "b!", "one": "c!"}],
            "next": "Text!",
        }
    }
    last = RUSSIAN.replace("    other: y", "    one: x\n    other: y")
    assert written(last, "ru", "en")["en"]["last"] == {"one": "x!", "other": "y!"}
    files = "%{count} Dateien!"
    assert written(GERMAN, "de", "pl") == {
        "pl": {
            "a": {"one": "eins!", "few": files, "many": files, "other": files},
            "flow": {"one": "a!", "few": "c!", "many": "c!", "other": "c!"},
            "anchor": {"one": "a!", "other": "a!"},
            "reason": {"other": "d!"},
        }
    }


def test_only_a_root_key_of_the_source_is_renamed():
    assert set(written(GERMAN, "fr", "en")) == {"de"}
    assert set(written(GERMAN + "x: y\n", "de", "en")) == {"de", "x"}
    assert written("de: Text", "de", "en") == {"de": "Text!"}


def test_forms_may_be_at_the_root():
    assert written("other: Dateien\n", "ja", "en") == {"one": "Dateien!", "other": "Dateien!"}


@pytest.mark.parametrize("value", ["Text\xa0", "Text\u3000 # c", "|\n    Text\xa0\n\n", "'a\xa0'"])
def test_space_at_the_end_of_a_value_is_replaced_with_it(value):
    content = f"de:\n  a: {value}\n  b: {value}\n"
    document = yaml_catalogues.read("a.yml", content.encode())
    new = document.write([MarkedText("Word"), MarkedText("End")])
    assert yaml.safe_load(new) == {"de": {"a": "Word", "b": "End"}}


def test_forms_that_end_in_a_space_are_dropped():
    content = "ru:\n  one: a\n  few: b\xa0\n  many: c\xa0\n  other: d\xa0\n"
    assert written(content, "ru", "en") == {"en": {"one": "a!", "other": "d!"}}
