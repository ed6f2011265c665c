"""Fluent: patterns with placeables, variants, and broken files."""

import pytest

from mmt.documents import MarkedText
from mmt.documents.catalogues import fluent
from tests.helpers.documents import EXAMPLES

syntax = pytest.importorskip("fluent.syntax", reason="Fluent needs the extra [files]")


def test_patterns_with_their_keys_and_forms():
    document = fluent.read("a.ftl", EXAMPLES["a.ftl"])
    assert [(s.key, s.form, s.source.text) for s in document.segments] == [
        ("titel", "", "Die Überschrift"), ("hallo", "", "Hallo, !"),
        ("hallo.tooltip", "", "Ein Gruß"),
        ("-marke", "", "Marke"), ("lang", "", "Erste Zeile\nzweite Zeile"),
        ("dateien", "one", "Eine Datei"), ("dateien", "other", " Dateien in "),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["{a}", "a\n[b]\n.c\n* d", "a = b", "# a"])
def test_another_reader_reads_the_translation(text):
    document = fluent.read("a.ftl", EXAMPLES["a.ftl"])
    written = document.write([MarkedText(text), *[None] * 6]).decode()
    (message,) = (
        e for e in syntax.parse(written).body if getattr(e, "id", None) and e.id.name == "titel"
    )
    values = (getattr(e, "value", None) or e.expression.value for e in message.value.elements)
    assert "".join(values) == text


def test_broken_fluent_is_refused():
    with pytest.raises(ValueError, match=r"a\.ftl:2: no Fluent: Expected token"):
        fluent.read("a.ftl", b"a = b\nc d\n")
