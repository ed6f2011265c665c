"""Segments are translated sentence by sentence, with their tags."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmt.decoding import Decoding
from mmt.documents import MarkedText, Tag
from mmt.translate import markup
from tests.helpers.tiny_translator import RandomTranslator, make, train_vocabulary
from tests.mmt.translate.markup import SEVERAL, SLOW_AT_FIRST, check_tags, nesting


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


def test_a_prefix_begins_the_translation_of_a_segment_and_not_of_each_sentence(translator):
    texts = ["Eins zwei. Drei vier! Eins zwei.", "sechs"]
    decoding = Decoding(beam=1, split="sentences", max_length_ratio=1.0, prefix="acht")
    expected = [
        line.text.split() for line in translator.translate(texts, source="de", decoding=decoding)
    ]
    segments = [MarkedText(text, ()) for text in texts]
    plain = markup.translate(translator, segments, source="de", decoding=decoding)
    assert [result.text.split() for result in plain] == expected
    tagged = [markup.parse(f"<b>{text}</b>") for text in texts]
    of_tagged = markup.translate(translator, tagged, source="de", decoding=decoding)
    assert [result.text.split() for result in of_tagged] == expected


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
