"""Inline markup: what belongs to a sentence, and where its tags go."""

from hypothesis import given
from hypothesis import strategies as st

from mmt.documents import inline
from mmt.documents.document import MarkedText, Tag
from mmt.documents.html import read


def segments(page: str) -> list[tuple[str, list[tuple[int, str]]]]:
    return [
        (segment.source.text, [(tag.position, tag.kind) for tag in segment.source.tags])
        for segment in read("a.html", page.encode()).segments
    ]


def test_markup_around_a_segment_is_no_part_of_it():
    assert segments("<p> <b><i>eins</i></b> <p><b>zwei</b> drei<img>") == [
        ("eins", []), ("zwei drei", [(0, "start"), (4, "end")]),
    ]  # fmt: skip


def test_crossing_tags_stand_alone():
    assert segments("<b>eins <i>zwei</b> drei</i> vier") == [
        ("eins zwei drei vier", [(0, "start"), (5, "alone"), (9, "end"), (14, "alone")])
    ]


def test_white_space_is_one_space_also_across_tags():
    assert segments("eins <b> zwei </b>\n <!-- x --> drei") == [
        ("eins zwei drei", [(5, "start"), (10, "end"), (10, "alone")])
    ]


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
    placed = inline.by_position(source, translation.strip())
    assert [tag[1:] for tag in placed.tags] == [tag[1:] for tag in source.tags]
    positions = [tag.position for tag in placed.tags]
    assert positions == sorted(positions) and all(0 <= p <= len(placed.text) for p in positions)
    assert placed.text.replace(" ", "") == translation.replace(" ", "")
    assert inline.by_position(source, source.text) == source


def test_tags_go_to_borders_of_words():
    source = MarkedText("ein rotes Haus", (Tag(4, "start", "<b>"), Tag(9, "end", "</b>")))
    placed = inline.by_position(source, "a red house")
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
        spaced = inline.spaced(source, moved)
        assert (spaced.text, spaced.tags[0].position) == expected
    joined = MarkedText("eins zwei", (Tag(4, "alone", "<br/>"),))
    assert inline.spaced(joined, joined._replace(text="onetwo")).text == "onetwo"


def test_tags_beside_code_stay_beside_it():
    tags = (Tag(3, "start", "<b>"), Tag(4, "alone", "<x/>"), Tag(4, "end", "</b>"))
    source = MarkedText("ein  Wort", tags)
    moved = MarkedText("aword", tuple(tag._replace(position=1) for tag in tags))
    spaced = inline.spaced(source, moved)
    assert spaced.text == "a  word" and [tag.position for tag in spaced.tags] == [2, 2, 2]
