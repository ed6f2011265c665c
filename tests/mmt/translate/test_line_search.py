"""Lines in pieces: sentences one by one, and placeholders that come through a model of nonsense."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt.decoding import Decoding
from mmt.translate import Hypothesis, Translation, Translator, placeholders
from mmt.translate.line_search import LineSearch
from tests.helpers.tiny_translator import WORDS, make, train_vocabulary

MODEL = Path(__file__).resolve().parents[3] / "benchmarks/mix150/model"
GREEDY = Decoding(beam=1, max_length_ratio=1.0)
KEPT = dataclasses.replace(GREEDY, keep_placeholders=True)


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    vocabulary = train_vocabulary(tmp_path_factory.mktemp("vocabulary"))
    return make(vocabulary, max_source_length=64)


def test_a_line_is_translated_sentence_by_sentence(translator):
    line = "Eins zwei.  Drei vier! Fünf"
    by_sentence = dataclasses.replace(GREEDY, split="sentences")
    (translation,) = translator.translate([line], source="de", decoding=by_sentence)
    parts = ["Eins zwei.", "Drei vier!", "Fünf"]
    assert [piece.source for piece in translation.pieces] == parts
    alone = list(translator.translate(parts, decoding=GREEDY))
    assert translation.text == " ".join(part.text for part in alone)
    (whole,) = translator.translate([line], decoding=GREEDY)
    assert not whole.pieces


def test_lines_and_sentences_without_letters_and_digits_stay(translator):
    by_sentence = dataclasses.replace(GREEDY, beam=2, nbest=2, split="sentences")
    lines = ["* * *", " – 👍 ", "Eins zwei. ... Drei!", "…", "1."]
    kept = list(translator.translate(lines, decoding=by_sentence))
    alone = list(translator.translate(["Eins zwei.", "Drei!", "1."], decoding=by_sentence))
    assert [t.text for t in kept[:2]] == ["* * *", "– 👍"] and kept[3].text == "…"
    assert [len(t.hypotheses) for t in kept] == [1, 1, 2, 1, 2]
    for rank, hypothesis in enumerate(kept[2].hypotheses):
        first, second = (t.hypotheses[rank].text for t in alone[:2])
        assert hypothesis.text == f"{first} ... {second}"
    assert kept[4].hypotheses == alone[2].hypotheses
    forced = dataclasses.replace(GREEDY, prefix="acht")
    (translation,) = translator.translate(["* * *"], decoding=forced)
    assert translation.text.startswith("acht")


def test_lines_without_placeholders_are_translated_as_ever(translator):
    lines = ["eins zwei", "", "drei"]
    assert list(translator.translate(lines, decoding=KEPT)) == list(
        translator.translate(lines, decoding=GREEDY)
    )


def test_hypotheses_with_all_placeholders_still_join_those_of_their_pieces(translator, monkeypatch):
    found = {"Eins {a}.": ("one", "one {a}", "{a}"), "Zwei drei.": ("two", "two three", "3")}
    monkeypatch.setattr(
        LineSearch, "_translate_sentences",
        lambda self, texts: [
            Translation(text.text, tuple(Hypothesis(each, 0.0) for each in found[text.text]))
            for text in texts
        ],
    )  # fmt: skip
    three = Decoding(beam=3, nbest=3, split="sentences", keep_placeholders=True)
    (line,) = translator.translate([" ".join(found)], source="de", decoding=three)
    assert [each.text for each in line.hypotheses] == ["one {a} two three", "{a} 3"]
    pieces = zip(*([each.text for each in piece.hypotheses] for piece in line.pieces), strict=True)
    assert [" ".join(texts) for texts in pieces] == [each.text for each in line.hypotheses]


def test_what_is_around_placeholders_is_translated(translator):
    line = "eins {a} zwei, %s"
    sampled = dataclasses.replace(KEPT, temperature=1.0)  # placeholders are not required of samples
    (translation,) = translator.translate([line], decoding=sampled)
    plain = dataclasses.replace(sampled, keep_placeholders=False)
    alone = [t.text for t in translator.translate(["eins", "zwei,"], decoding=plain)]
    assert translation.text == placeholders.rejoin(line, [*alone, ""])
    assert [piece.source for piece in translation.pieces] == ["eins", "zwei,"]
    forced = dataclasses.replace(sampled, prefix="acht")
    (translation,) = translator.translate([line], decoding=forced)
    assert translation.text.startswith("acht")
    many = dataclasses.replace(KEPT, beam=3, nbest=3)
    (translation,) = translator.translate([line], decoding=many)
    assert translation.hypotheses
    for hypothesis in translation.hypotheses:
        assert placeholders.counts(hypothesis.text) == placeholders.counts(line)


WORD = st.sampled_from([*WORDS, ",", "zwei.", "(", "三", "{", "%", "`"])
KEPT_PART = st.one_of(
    st.from_regex(r"\{[a-z_0-9]{0,8}\}", fullmatch=True),
    st.from_regex(r"%([1-9]\$)?[sdf]", fullmatch=True),
    st.from_regex(r"https://[a-z]{1,5}\.org/[a-z0-9?=&]{0,5}", fullmatch=True),
    st.from_regex(r"`[a-z(). ]{1,6}`", fullmatch=True),
    st.from_regex(r"[a-z.]{1,4}@[a-z]{1,4}\.org", fullmatch=True),
)
LINE = st.lists(st.tuples(WORD | KEPT_PART, st.sampled_from(["", " "])), max_size=5)


@settings(max_examples=6, deadline=None)
@given(st.lists(LINE.map(lambda parts: "".join(map("".join, parts))), min_size=4, max_size=8))
def test_every_placeholder_comes_through_exactly_once(translator, lines):
    for decoding in (KEPT, dataclasses.replace(KEPT, split="sentences")):
        translations = translator.translate(lines, decoding=decoding)
        for line, translation in zip(lines, translations, strict=True):
            assert placeholders.counts(translation.text) == placeholders.counts(line)


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(st.lists(LINE.map(lambda parts: "".join(map("".join, parts))), min_size=32, max_size=32))
def test_every_placeholder_comes_through_the_published_model(lines):
    translator = Translator.load(MODEL)
    for line, translation in zip(lines, translator.translate(lines, decoding=KEPT), strict=True):
        assert placeholders.counts(translation.text) == placeholders.counts(line)
