"""Tags are read and written as they are."""

import pytest
from hypothesis import given

from mmt.translate import markup
from tests.mmt.translate.markup import MARKUP


@given(MARKUP)
def test_what_is_read_is_written(text):
    assert markup.write(markup.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "plain", "kinds"),
    [
        ("a <b>c</b>", "a c", ["start", "end"]),
        ("<b>a<br>b<i></b>", "ab", ["start", "alone", "alone", "end"]),
        ("</b>a<b>", "a", ["alone", "alone"]),
        ("<b><i>x</b></i>", "x", ["start", "alone", "end", "alone"]),
        ("1 < 2 &amp; 3 &lt;b>", "1 < 2 & 3 <b>", []),
        ('<a title="x > y">z</a>', "z", ["start", "end"]),
    ],
)
def test_kinds_of_tags(text, plain, kinds):
    marked = markup.parse(text)
    assert marked.text == plain and [tag.kind for tag in marked.tags] == kinds
