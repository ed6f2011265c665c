"""YAML: keys, forms and styles; aliases cannot multiply."""

import pytest
import yaml

from mmt.documents import MarkedText
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
    "text", ["a", "a: b", "- a", "a # b", "yes", "'a", "a\nb", "*a", "12", "ü"]
)
def test_another_reader_reads_the_translation(text):
    document = yaml_catalogues.read("a.yml", EXAMPLES["a.yml"])
    content = yaml.safe_load(document.write([MarkedText(text)] * len(document.segments)))["de"]
    assert content["titel"] == content["quote"] == content["block"] == text
    assert content["liste"] == [text, text] and content["nochmal"] == text and content["ja"] is True


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
