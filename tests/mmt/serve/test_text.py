"""Plain text: sentences are translated, everything between them stays."""

from hypothesis import given
from hypothesis import strategies as st

from mmt.serve.scheduler import Sentence
from mmt.serve.text import plain

SPACED = st.text(st.sampled_from(list("aé. \n\r\t\u2028\u00a0漢。")))


def split(line):
    return [Sentence("k", word, 1) for word in line.split()]


@given(SPACED)
def test_with_equal_translations_the_text_is_the_same(text):
    parts = plain(text, split)
    assert parts.fill({slot.sentence: slot.sentence.text for slot in parts.slots}) == text


@given(SPACED)
def test_slots_are_at_their_places_without_line_breaks(text):
    for slot in plain(text, split).slots:
        assert text[slot.start : slot.end] == slot.sentence.text
        assert len(slot.sentence.text.splitlines()) == 1


def test_sentences_without_a_space_between_them_get_one():
    parts = plain("甲。乙。\n", lambda line: [Sentence("k", text, 1) for text in ("甲。", "乙。")])
    assert parts.fill({slot.sentence: "A." for slot in parts.slots}) == "A. A.\n"


def test_what_has_no_letter_stays():
    assert plain(" — ?! \n * * *", split).slots == []
