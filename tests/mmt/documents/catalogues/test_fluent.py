"""Fluent: patterns with placeables, variants, and broken files."""

import pytest

from mmt.documents import MarkedText, locales
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


def test_spaces_that_are_literals_at_the_edges_stay():
    content = b'a = {""}  Ein Wort{ " " }\nb = { $n } Wort\n'
    document = fluent.read("a.ftl", content)
    texts = [segment.source._replace(text="  A word ") for segment in document.segments]
    assert document.write(texts[:1] + [None]).decode().startswith('a = {"  "}A word{" "}\nb')
    front = texts[1]._replace(text=" word", tags=(texts[1].tags[0]._replace(position=5),))
    assert document.write([None, front]).decode().endswith("b =  word{ $n }\n")


def test_broken_fluent_is_refused():
    with pytest.raises(ValueError, match=r"a\.ftl:2: no Fluent: Expected token"):
        fluent.read("a.ftl", b"a = b\nc d\n")


SELECTORS = """dateien = Es sind { $n ->
    [one] Eine Datei
    [few] wenige
   *[other] { $n } Dateien
        in { -marke }
} da
    .titel = { $n ->
        [one] x
       *[other] { $g ->
            [male] er
           *[other] sie
        }
    }
fall = { $n ->
   *[one] x
    [other] y
}
"""


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [("ru", "en", "one other"), ("pl", "ru", "one few other"), ("de", "ru", "one few many other"),
     ("ru", "ja", "other")],
)  # fmt: skip
def test_selectors_have_the_forms_of_the_target(source, target, expected):
    content = SELECTORS.encode() if source != "de" else SELECTORS.replace(
        "    [few] wenige\n", ""
    ).encode()  # fmt: skip
    document = fluent.read("a.ftl", content, locales(source, target))
    assert document.write([None] * len(document.segments)) == content
    given = [s.source._replace(text=f"{s.source.text}!") for s in document.segments]
    first, second = syntax.parse(document.write(given).decode()).body
    assert type(first) is type(second) is syntax.ast.Message
    variants = first.value.elements[1].expression.variants
    assert " ".join(v.key.name for v in variants) == expected
    assert [v.default for v in variants] == [v.key.name == "other" for v in variants]
    others = [v.value for v in variants if v.key.name not in ("one", "few") or source == "de"][-1:]
    assert len(others[0].elements) == 4
    kept = first.attributes[0].value.elements[0].expression.variants
    assert [v.key.name for v in kept] == ["one", "other"]
    assert len(second.value.elements[0].expression.variants) == 2


@pytest.mark.parametrize("first", "[*.")
def test_a_mark_at_the_start_of_a_line_stays_text(first):
    content = f'key =\n    {{"{first}"}}Hallo Welt\n'.encode()
    document = fluent.read("a.ftl", content)
    (segment,) = document.segments
    written = document.write([segment.source])
    assert [s.source.text for s in fluent.read("a.ftl", written).segments] == [f"{first}Hallo Welt"]
