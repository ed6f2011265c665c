"""No tag is lost or badly nested, whatever the alignment."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmt.translate import markup
from tests.helpers.tiny_translator import word_alignment
from tests.mmt.translate.markup import MARKUP, TEXT, check_tags


@given(MARKUP, TEXT, st.data())
def test_no_tag_is_lost_or_badly_nested_whatever_the_alignment(text, translation, data):
    marked = markup.parse(text)
    size = len(re.findall(r"\S+", marked.text))
    places = st.integers(0, max(size - 1, 0))
    links = [data.draw(places) for _ in translation.split()] if size else []
    alignment = word_alignment(marked.text, translation, links)
    moved = markup.place_tags(marked, translation, alignment)
    assert moved.text.replace(" ", "") == translation.replace(" ", "")
    check_tags(marked, moved)


@pytest.mark.parametrize(
    ("source", "target", "links", "result"),
    [
        ("der <b>rote</b> Ball", "the red ball", [0, 1, 2], "the <b>red</b> ball"),
        ("<b>rote</b> Ball", "ball red", [1, 0], "ball <b>red</b>"),
        ("<i>der <b>rote</b></i> Ball", "a ball the red", [2, 2, 0, 1],
         "a ball <i>the <b>red</b></i>"),
        ("<b>er kommt</b>, sagt sie", "she says he comes", [3, 2, 0, 1],
         "she says <b>he comes</b>"),
        ("eins<br/> zwei", "one two", [0, 1], "one<br/> two"),
        ("eins <x/>zwei", "one two", [0, 1], "one <x/>two"),
        ("  <b>eins</b> ", "  one ", [0], "  <b>one</b> "),
        ("nimm <x/> dann", "take then", [0, 1], "take <x/> then"),
        ("<b></b>eins", "one", [0], "<b></b>one"),
        ("<b>eins</b>", "", [], "<b></b>"),
        ("Tag, <b>{{name}}</b>, <i>%d Dateien</i>", "hello {{name}}, files: %d", [0, 0, 2, 2],
         "hello <b>{{name}}</b>, <i>files: %d</i>"),
        ("<b>{n}</b> von {n}", "{n}/{n}", [2], "<b>{n}</b>/{n}"),
    ],
)  # fmt: skip
def test_elements_span_the_aligned_words(source, target, links, result):
    marked = markup.parse(source)
    alignment = word_alignment(marked.text, target, links)
    assert markup.write(markup.place_tags(marked, target, alignment)) == result
