"""Where tags go: none is lost, and elements stay nested."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mmt.documents import places, words
from mmt.documents.document import MarkedText, Tag


@st.composite
def nested(draw) -> MarkedText:
    """A text of words with balanced tags at any places."""
    text = " ".join(draw(st.lists(st.text("abc", min_size=1), max_size=8)))
    tags, open_ = [], 0
    for position in sorted(draw(st.lists(st.integers(0, len(text)), max_size=8))):
        kind = draw(st.sampled_from(["start", "alone", "end"] if open_ else ["start", "alone"]))
        open_ += (kind == "start") - (kind == "end")
        tags.append(Tag(position, kind, f"<{len(tags)}>"))
    return MarkedText(text, (*tags, *(Tag(len(text), "end", "</>") for _ in range(open_))))


@given(nested(), st.text("xy z"))
def test_placing_keeps_every_tag_in_its_order(source, translation):
    placed = places.by_position(source, translation.strip())
    assert [tag[1:] for tag in placed.tags] == [tag[1:] for tag in source.tags]
    positions = [tag.position for tag in placed.tags]
    assert positions == sorted(positions) and all(0 <= p <= len(placed.text) for p in positions)
    assert placed.text.replace(" ", "") == translation.replace(" ", "")
    assert places.by_position(source, source.text) == source


def test_tags_go_to_borders_of_words():
    source = MarkedText("ein rotes Haus", (Tag(4, "start", "<b>"), Tag(9, "end", "</b>")))
    placed = places.by_position(source, "a red house")
    assert [tag.position for tag in placed.tags] == [2, 5]


def test_code_keeps_the_spaces_around_it():
    source = MarkedText("siehe  oben, nicht <i>", (Tag(6, "alone", "<code>x</code>"),))
    for text, position, expected in (
        ("see above", 4, ("see  above", 4)),
        ("see above", 0, (" see above", 0)),
        ("see above", 9, ("see above ", 10)),
        ("see, above", 3, ("see  , above", 4)),
    ):
        moved = MarkedText(text, (source.tags[0]._replace(position=position),))
        spaced = places.spaced(source, moved)
        assert (spaced.text, spaced.tags[0].position) == expected
    joined = MarkedText("eins zwei", (Tag(4, "alone", "<br/>"),))
    assert places.spaced(joined, joined._replace(text="onetwo")).text == "onetwo"


def test_tags_beside_code_stay_beside_it():
    tags = (Tag(3, "start", "<b>"), Tag(4, "alone", "<x/>"), Tag(4, "end", "</b>"))
    source = MarkedText("ein  Wort", tags)
    moved = MarkedText("aword", tuple(tag._replace(position=1) for tag in tags))
    spaced = places.spaced(source, moved)
    assert spaced.text == "a  word" and [tag.position for tag in spaced.tags] == [2, 2, 2]


def slow_best(gains):
    """The first of the shortest windows with the largest sum."""
    windows = [(a, b) for a in range(len(gains)) for b in range(a + 1, len(gains) + 1)]
    return max(windows, key=lambda window: (sum(gains[slice(*window)]), -window[0], -window[1]))


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=9))
def test_an_element_spans_the_window_with_most_attention(shares):
    source = MarkedText("ab", (Tag(1, "start", "<b>"), Tag(2, "end", "</b>")))
    text = " ".join("w" * len(shares))
    spans = words.spans(text)
    attention = np.array([[1 - share, share] for share in shares], np.float32)
    placed = places.by_attention(source, text, spans, attention)
    gains = [2 * share - 1 for share in shares]
    if max(gains) > 0:
        first, last = slow_best(gains)
    else:
        first = int(np.argmax(gains))
        last = first + 1
    assert [tag.position for tag in placed.tags] == [spans[first][0], spans[last - 1][1]]
