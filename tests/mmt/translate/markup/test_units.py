"""Units together are the text, and have all tags when they are translated."""

import pytest
from hypothesis import given

from mmt.translate import markup
from mmt.translate.translation import Hypothesis
from tests.helpers.tiny_translator import word_alignment
from tests.mmt.translate.markup import SEVERAL, SLOW_AT_FIRST, check_tags, nesting


@SLOW_AT_FIRST
@given(SEVERAL)
def test_units_together_are_the_text(text):
    marked = markup.parse(text)
    units = markup.cut(marked, "zh")
    assert markup.joined(unit.source for unit in units) == marked
    for unit in units:
        nesting(unit.source.tags)
        assert unit.sentences.text == unit.source.text


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("Ja. <b>Nein.</b> Eins.", ["Ja. ", "<b>Nein.</b> ", "Eins."]),
        ("<b>Ja. </b>Nein.", ["<b>Ja. </b>", "Nein."]),
        ("Ja. <b>Nein. Eins.</b> <br/>Zwei.", ["Ja. ", "<b>Nein. Eins.</b> ", "<br/>Zwei."]),
        ("Ja.<br/> Nein.", ["Ja.<br/> ", "Nein."]),
        ("<i>Ja <b>nein.</b> Eins</i>. Zwei.", ["<i>Ja <b>nein.</b> Eins</i>. ", "Zwei."]),
        (" ... <b>\n</b>", [" ... <b>\n</b>"]),
    ],
)
def test_a_unit_is_a_sentence_or_those_of_an_element(text, units):
    found = markup.cut(markup.parse(text), "de")
    assert [markup.write(unit.source) for unit in found] == units


def hypotheses(unit, text):
    """The same translation of each sentence of a unit."""
    return [
        Hypothesis(text, 0.0, alignment=word_alignment(sentence, text, [0] * len(text.split())))
        for sentence in unit.sentences.sentences
    ]


def test_sentences_of_scripts_without_spaces_are_parted_outside_of_elements():
    marked = markup.parse("三月。<b>五日。</b>七日。")
    units = markup.cut(marked, "zh")
    written = [unit.write(hypotheses(unit, "A.")) for unit in units]
    assert markup.write(markup.joined(written)) == "A. <b>A.</b> A."


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("Ja. <x/> <i>Nein.</i>", "A b. <x/> <i>A b.</i>"),
        ("Ja.  <x/><y/>\n<i>Nein.</i> ", "A b.  <x/><y/>\n<i>A b.</i> "),
        ("<b>Ja. </b> <x/> Nein. <x/> ", "<b>A b.</b>  <x/> A b. <x/> "),
        ("<x/> Ja. Nein.", "<x/> A b. A b."),
        (" <x/> <i>Ja.</i>", " <x/> <i>A b.</i>"),
        ("<x/><y/> <b> Ja.</b>", "<x/><y/>  <b>A b.</b>"),
    ],
)
def test_white_space_around_code_between_sentences_stays(text, result):
    units = markup.cut(markup.parse(text), "de")
    written = [unit.write(hypotheses(unit, "A b.")) for unit in units]
    assert markup.write(markup.joined(written)) == result


def test_an_element_may_span_sentences():
    (unit,) = markup.cut(markup.parse("Eins <b>zwei. Drei</b> vier."))
    first = Hypothesis("one two.", 0.0, alignment=word_alignment("Eins zwei.", "one two.", [0, 1]))
    last = Hypothesis("four three.", 0.0,
                      alignment=word_alignment("Drei vier.", "four three.", [1, 0]))  # fmt: skip
    assert markup.write(unit.write([first, last])) == "one <b>two. four three.</b>"
    with pytest.raises(ValueError, match="1 translations of 2 sentences"):
        unit.write([first])


@pytest.mark.parametrize("text", ["<b>" * 300 + "a b" + "</b>" * 300, f"a <b>{'b ' * 2000}</b>"])
def test_a_unit_that_is_too_large_to_align_has_its_tags_by_position(text):
    marked = markup.parse(text)
    (unit,) = markup.cut(marked)
    assert not unit.aligns
    translation = Hypothesis("x " * 1000, 0.0)
    written = unit.write([translation])
    check_tags(marked, written)
    assert unit.write([Hypothesis(marked.text, 0.0)]) == marked
