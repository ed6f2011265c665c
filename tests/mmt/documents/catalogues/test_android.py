"""Android's resources: escapes, placeholders and what is not translated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from mmt.documents import MarkedText, locales
from mmt.documents.catalogues import android
from tests.helpers.documents import EXAMPLES


def test_strings_with_their_keys_and_forms():
    document = android.read("strings.xml", EXAMPLES["strings.xml"])
    assert [(s.key, s.form, s.source.text) for s in document.segments] == [
        ("titel", "", "Wie geht's,\n Welt?"), ("gruss", "", "Hallo  & willkommen"),
        ("roh", "", "Ein <b>roher</b> Text"), ("dateien", "one", "%d Datei"),
        ("dateien", "other", "%d Dateien"), ("liste.0", "", "Erste   Zeile"),
        ("liste.1", "", "Zweite"),
    ]  # fmt: skip
    (placeholder,) = document.segments[1].source.tags
    assert placeholder.kind == "alone" and "%1$s" in placeholder.markup


@given(st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" \n\t@?'\"\\")))
def test_text_comes_back(text):
    assert android.unescape(android.escape(text.strip())) == text.strip()


@pytest.mark.parametrize("raw", ['" Hallo "', "\\u0020Hallo\\u0020", '<![CDATA[" Hallo "]]>'])
@pytest.mark.parametrize("target", ["en", "ru"])  # Russian gets new quantities
def test_spaces_at_the_edges_of_a_string_stay(raw, target):
    item = f'<item quantity="other">{raw}</item>'
    content = f'<resources><string name="a">{raw}</string><plurals name="b">{item}</plurals>'
    document = android.read("a.xml", f"{content}</resources>".encode(), locales("ja", target))
    new = document.write([MarkedText(" Hello ") for _ in document.segments])
    texts = ["".join(root.itertext()) for root in etree.fromstring(new).iter("string", "item")]
    assert {android.unescape(text.strip()) for text in texts} == {" Hello "}


def test_another_root_is_refused():
    with pytest.raises(ValueError, match=r"a\.xml:1: the root is <x>; expected <resources>"):
        android.read("a.xml", b"<x/>")


PLURALS = """<resources xmlns:tools="t" tools:locale="LOCALE">
    <plurals name="a">
        <item quantity="one">%d <b>Tag</b></item>FORMS
        <item quantity="other">%d &lt; <b>Tage</b></item>
    </plurals>
</resources>
"""


@pytest.mark.parametrize(
    ("source", "forms", "target", "expected"),
    [
        ("de", "", "ru", "one few many other"), ("ru", "few many", "en", "one other"),
        ("ar", "zero two few many", "pl", "one few many other"), ("de", "", "ja", "other"),
        ("de", "", "en", "one other"), ("de", "zero", "en", "one zero other"),
    ],
)  # fmt: skip
def test_plurals_have_the_quantities_of_the_target(source, forms, target, expected):
    items = "".join(f'\n        <item quantity="{form}">%d X</item>' for form in forms.split())
    content = PLURALS.replace("FORMS", items).replace("LOCALE", source).encode()
    document = android.read("strings.xml", content, locales(source, target))
    assert document.write([None] * len(document.segments)) == content
    given = [s.source._replace(text=f"{s.source.text}!") for s in document.segments]
    new = document.write(given)
    root = etree.fromstring(new)
    assert root.get("{t}locale") == target
    found = {item.get("quantity"): "".join(item.itertext()) for item in root.iter("item")}
    assert list(found) == expected.split()
    assert all(text.endswith("!") for text in found.values())
    added = set(expected.split()) - {"one", *forms.split()}
    assert {found[form] for form in added} <= {"%d < Tage!"}
    assert len(list(root.iter("b"))) == len(added | ({"one"} & set(found)))
    assert new.count(b"\n") == len(found) + 4
