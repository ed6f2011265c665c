"""Android's resources: escapes, placeholders and what is not translated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_another_root_is_refused():
    with pytest.raises(ValueError, match=r"a\.xml:1: the root is <x>; expected <resources>"):
        android.read("a.xml", b"<x/>")
