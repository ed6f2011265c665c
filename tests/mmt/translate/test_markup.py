"""Tags: read and written as they are, and none lost or badly nested whatever the alignment."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmt.decoding import Decoding
from mmt.documents import MarkedText, Tag
from mmt.translate import markup
from mmt.translate.alignment import Alignment
from tests.helpers.tiny_translator import WORDS, make, train_vocabulary

WORD = st.sampled_from([*WORDS, "三月", ",", "&", "<", "3"])
TEXT = st.lists(WORD, max_size=4).map(" ".join)
EMPTY = st.sampled_from(["<br/>", "<x id='1'/>", '<img src="a>b">', "</u>", "<br>"])


def element(inner):
    names = st.sampled_from(["b", "g id='2'", 'a href="x?y=1&amp;z"'])
    return st.tuples(names, inner).map(lambda e: f"<{e[0]}>{e[1]}</{e[0].split()[0]}>")


ESCAPED = TEXT.map(lambda text: text.replace("&", "&amp;").replace("<", "&lt;"))
MARKUP = st.recursive(
    ESCAPED,
    lambda inner: st.lists(element(inner) | inner | EMPTY, max_size=4).map(
        lambda parts: "".join(map("".join, parts))
    ),
    max_leaves=8,
)


def word_alignment(source, target, links):
    """Each target word attends to one source word."""
    spans = [[m.span() for m in re.finditer(r"\S+", text)] for text in (source, target)]
    weights = np.zeros((len(spans[1]), len(spans[0])), np.float32)
    for place, linked in enumerate(links):
        weights[place, linked] = 1
    return Alignment(tuple(spans[0]), tuple(spans[1]), weights)


def nesting(tags):
    """The elements, each with its markup and the elements in it, in an order of their own."""
    stack = [[]]
    for tag in tags:
        if tag.kind == "start":
            stack.append([])
        elif tag.kind == "end":
            inner = stack.pop()
            stack[-1].append((tag.markup, sorted(inner, key=repr)))
        else:
            stack[-1].append((tag.markup, []))
    assert len(stack) == 1
    return sorted(stack[0], key=repr)


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


@given(MARKUP, TEXT, st.data())
def test_no_tag_is_lost_or_badly_nested_whatever_the_alignment(text, translation, data):
    marked = markup.parse(text)
    size = len(re.findall(r"\S+", marked.text))
    places = st.integers(0, max(size - 1, 0))
    links = [data.draw(places) for _ in translation.split()] if size else []
    alignment = word_alignment(marked.text, translation, links)
    moved = markup.transfer(marked, translation, alignment)
    assert moved.text.strip() == (translation.strip() if marked.text.strip() else "")
    assert nesting(moved.tags) == nesting(marked.tags)
    positions = [tag.position for tag in moved.tags]
    assert positions == sorted(positions)
    assert all(0 <= place <= len(moved.text) for place in positions)
    assert nesting(markup.parse(markup.write(moved)).tags) == nesting(marked.tags)


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
        ("  <b>eins</b> ", "one", [0], "  <b>one</b> "),
        ("<b></b>eins", "one", [0], "<b></b>one"),
        ("<b>eins</b>", "", [], "<b></b>"),
    ],
)  # fmt: skip
def test_elements_span_the_aligned_words(source, target, links, result):
    marked = markup.parse(source)
    alignment = word_alignment(marked.text, target, links)
    assert markup.write(markup.transfer(marked, target, alignment)) == result


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    return make(train_vocabulary(tmp_path_factory.mktemp("vocabulary")))


def test_a_translator_keeps_the_tags_of_segments_of_several_sentences(translator):
    segments = [
        markup.parse(" <b>eins</b> zwei. <i>drei <br/>vier</i>! "),
        MarkedText("sechs"),
        MarkedText("", (Tag(0, "alone", "<x/>"),)),
    ]
    decoding = Decoding(beam=1, split="sentences", max_length_ratio=1.0)
    results = list(markup.translate(translator, segments, source="de", decoding=decoding))
    texts = [segment.text for segment in segments]
    plain = [t.text for t in translator.translate(texts, source="de", decoding=decoding)]
    assert [result.text.strip() for result in results] == plain
    assert [nesting(r.tags) for r in results] == [nesting(s.tags) for s in segments]
    assert results[0].text.startswith(" ") and results[0].text.endswith(" ")
    (alone,) = markup.translate(translator, segments[:1], source="de", decoding=decoding)
    assert alone == results[0]
