"""Tags: read and written as they are, and none lost or badly nested whatever the alignment."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt.decoding import Decoding
from mmt.documents import MarkedText, Tag
from mmt.translate import markup
from mmt.translate.translation import Hypothesis
from tests.helpers.tiny_translator import (
    WORDS,
    RandomTranslator,
    make,
    train_vocabulary,
    word_alignment,
)

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

SLOW_AT_FIRST = settings(deadline=None)  # the first sentence loads the rules of its language


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


def check_tags(before, after):
    """No tag is lost or badly nested, in the tags and as written."""
    assert nesting(after.tags) == nesting(before.tags)
    positions = [tag.position for tag in after.tags]
    assert positions == sorted(positions)
    assert all(0 <= place <= len(after.text) for place in positions)
    assert nesting(markup.parse(markup.write(after)).tags) == nesting(before.tags)


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


SENTENCE = st.sampled_from(
    ["Eins zwei. ", "Drei! ", "Vier ", "fünf", " ", "\n", "\t", "三月。", "...", "Elf &amp; 3? "]
)
SEVERAL = st.recursive(
    st.lists(SENTENCE, max_size=4).map("".join),
    lambda inner: st.lists(element(inner) | inner | EMPTY, max_size=5).map("".join),
    max_leaves=10,
)


@SLOW_AT_FIRST
@given(st.lists(SEVERAL, max_size=3), st.integers(0, 9), st.sampled_from(["long", "sentences"]))
def test_tags_survive_across_sentences(texts, seed, split):
    segments = list(map(markup.parse, texts))
    translator = RandomTranslator(seed)
    decoding = Decoding(split=split)
    results = list(markup.translate(translator, segments, source="de", decoding=decoding))
    for before, after in zip(segments, results, strict=True):
        check_tags(before, after)
        assert re.findall(r"[\n\t]", before.text) == re.findall(r"[\n\t]", after.text)
    (lines,) = translator.seen or [[]]
    assert len(set(lines)) == len(lines) and all(line == line.strip() != "" for line in lines)
    if not any(segment.tags for segment in segments):
        assert not translator.aligned


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


def test_sentences_of_scripts_without_spaces_are_parted_outside_of_elements():
    marked = markup.parse("三月。<b>五日。</b>七日。")
    units = markup.cut(marked, "zh")
    written = [unit.write(hypotheses(unit, "A.")) for unit in units]
    assert markup.write(markup.joined(written)) == "A. <b>A.</b> A."


def hypotheses(unit, text):
    """The same translation of each sentence of a unit."""
    return [
        Hypothesis(text, 0.0, alignment=word_alignment(sentence, text, [0] * len(text.split())))
        for sentence in unit.sentences.sentences
    ]


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


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    return make(train_vocabulary(tmp_path_factory.mktemp("vocabulary")))


def test_a_translator_keeps_the_tags_of_segments_of_several_sentences(translator):
    segments = [
        markup.parse(" <b>Eins</b> zwei. <i>Drei <br/>vier</i>!\n"),
        MarkedText("sechs"),
        MarkedText("", (Tag(0, "alone", "<x/>"),)),
    ]
    decoding = Decoding(beam=1, split="sentences", max_length_ratio=1.0)
    results = list(markup.translate(translator, segments, source="de", decoding=decoding))
    lines = ["Eins zwei.", "Drei vier!", "sechs"]
    one, two, three = (
        line.text.strip() for line in translator.translate(lines, source="de", decoding=decoding)
    )
    first, *others = (result.text for result in results)
    assert first.split() == f"{one} {two}".split() and others == [three, ""]
    assert first.startswith(" ") and first.endswith("\n")
    assert [nesting(r.tags) for r in results] == [nesting(s.tags) for s in segments]
    (alone,) = markup.translate(translator, segments[:1], source="de", decoding=decoding)
    assert alone == results[0]


def test_a_sentence_that_is_too_long_is_aligned_piece_by_piece(translator):
    line = "eins zwei drei vier fünf sechs sieben acht, neun zehn elf zwölf eins zwei drei vier, "
    line += line + "Montag."
    decoding = Decoding(beam=1, split="sentences", max_length_ratio=1.0)
    (plain,) = translator.translate([line], source="de", decoding=decoding)
    assert len(plain.pieces) > 1
    (found,) = markup.aligned(translator, [plain], source="de")
    spans = found.hypotheses[0].alignment.source
    assert {line[start:end].strip() for start, end in spans} >= {"eins", "zehn"}
    marked = markup.parse(line.replace("zehn", "<b>zehn</b>", 1))
    (written,) = markup.translate(translator, [marked], source="de", decoding=decoding)
    assert written.text == plain.text and nesting(written.tags) == nesting(marked.tags)
