"""Documents: edits inside the markup of other edits, and texts without letters."""

import pytest

from mmt.documents.document import MarkedText, Slot, TextDocument, has_letters, replaced
from mmt.documents.encoding import Encoding
from mmt.documents.html import read


def test_an_edit_may_lie_inside_the_markup_of_another():
    document = read("a.html", b'<p>eins <img alt="zwei"> drei')
    outer, inner = (segment.source for segment in document.segments)
    both = document.write([outer._replace(text="one  three"), inner._replace(text="two")])
    assert both == b'<p>one  <img alt="two">three' or both == b'<p>one <img alt="two"> three'
    assert document.write([None, MarkedText("two")]) == b'<p>eins <img alt="two"> drei'


def test_every_segment_needs_a_translation_or_none():
    document = TextDocument("ab", Encoding(), [replaced("a", 0, 1), replaced("b", 1, 2)])
    assert document.write([None, MarkedText("x")]) == b"ax"
    with pytest.raises(ValueError):
        document.write([MarkedText("x")])


def test_a_translation_that_is_there_is_no_edit():
    text = MarkedText("a")
    slot = Slot(0, 1, lambda translation, render: "edited", text)
    segment, _ = replaced("a", 0, 1)
    assert TextDocument("a", Encoding(), [(segment, slot)]).write([text]) == b"a"


@pytest.mark.parametrize(("text", "expected"), [("3 h", True), ("12:30 – €", False), ("語", True)])
def test_a_text_without_letters_is_not_translated(text, expected):
    assert has_letters(text) == expected
