"""Lines in pieces: sentences one by one, and placeholders that come through a model of nonsense."""

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt.decoding import Decoding
from mmt.translate import Glossary, Hypothesis, Translation, Translator, placeholders
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


def test_a_prefix_stands_before_placeholders_that_begin_a_line(translator, monkeypatch):
    def translate(self, texts):
        return [
            Translation(text.text, (Hypothesis(f"{text.prefix} one".strip(), 0.0),))
            for text in texts
        ]

    monkeypatch.setattr(LineSearch, "_translate_sentences", translate)
    forced = dataclasses.replace(KEPT, prefix="Hi,")
    lines = ["{a} eins", "{a}", "- %s: eins {a} zwei", "Eins {a} zwei"]
    translations = translator.translate(lines, source="de", decoding=forced)
    assert [translation.text for translation in translations] == [
        "Hi, {a} one", "Hi, {a}", "Hi, - %s one {a} one", "Hi, one {a} one"
    ]  # fmt: skip
    forced = dataclasses.replace(forced, prefix="See {b}:")
    (translation,) = translator.translate(lines[:1], source="de", decoding=forced)
    assert translation.text == "See {b}: {a} one"


def test_a_sentence_in_capitals_is_read_in_sentence_case(translator):
    recased = dataclasses.replace(GREEDY, recase_capitals=True)
    mixed = "EINS ZWEI. Drei vier."
    lines = ["EINS ZWEI DREI.", "Eins zwei drei.", "EINS", "Eins ZWEI DREI", mixed]
    of_capitals, plain, *others = translator.translate(lines, decoding=recased)
    assert of_capitals.text == plain.text.upper() and of_capitals.source == lines[0]
    assert of_capitals.recased and not any(each.recased for each in (plain, *others))
    unchanged = list(translator.translate(lines, decoding=GREEDY))  # the option is off
    assert unchanged[1:] == [plain, *others] and unchanged[0].text != of_capitals.text
    by_sentence = dataclasses.replace(recased, split="sentences")
    first, second = translator.translate([mixed, "EINS ZWEI " * 40], decoding=by_sentence)
    alone = list(translator.translate(["Eins zwei.", "Drei vier."], decoding=GREEDY))
    assert first.text == f"{alone[0].text.upper()} {alone[1].text}" and first.recased
    assert [piece.source for piece in first.pieces] == ["EINS ZWEI.", "Drei vier."]
    assert len(second.pieces) > 1 and second.text == second.text.upper() and second.recased


def test_prefixes_and_nbest_of_a_sentence_in_capitals(translator):
    line, forced = "EINS ZWEI DREI.", dataclasses.replace(GREEDY, recase_capitals=True)
    for prefix, read in (("ACHT", "Acht"), ("Acht ze", "Acht ze"), ("acht", "acht")):
        decoding = dataclasses.replace(forced, prefix=prefix)
        (translation,) = translator.translate([line], decoding=decoding)
        plain = dataclasses.replace(GREEDY, prefix=read)
        (expected,) = translator.translate(["Eins zwei drei."], decoding=plain)
        assert translation.text == prefix + expected.text.removeprefix(read).upper()
    many = dataclasses.replace(forced, beam=8, nbest=8, max_length_ratio=2.0)
    (translation,) = translator.translate([line], decoding=many)
    texts = [hypothesis.text for hypothesis in translation.hypotheses]
    plain = dataclasses.replace(many, recase_capitals=False)
    (expected,) = translator.translate(["Eins zwei drei."], decoding=plain)
    assert texts == list(dict.fromkeys(each.text.upper() for each in expected.hypotheses))


def test_placeholders_and_terms_of_a_sentence_in_capitals(translator):
    decoding = dataclasses.replace(KEPT, beam=2, recase_capitals=True)
    line = "EINS {Name} UND ZWEI %s"
    sampled = dataclasses.replace(decoding, beam=1, temperature=1.0)
    (translation,) = translator.translate([line], decoding=sampled)
    parts = ["Eins", "Und zwei"]  # each has too few words to be in capitals by itself
    plain = dataclasses.replace(sampled, recase_capitals=False)
    alone = [each.text.upper() for each in translator.translate(parts, decoding=plain)]
    assert translation.text == placeholders.rejoin(line, [*alone, ""]) and translation.recased
    for terms in ("eins\tzehn", "Eins\tzehn", "EINS\tzehn", "zwei drei\tZehn"):
        (translation,) = translator.translate(
            ["EINS ZWEI DREI"], decoding=decoding, glossary=Glossary.parse(terms)
        )
        assert re.search(r"\bZEHN\b", translation.text)


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


def test_terms_and_prefixes_that_are_placeholders_stay():
    translator = Translator.load(MODEL, batch_size=4)
    glossary = Glossary.parse("Auto\twww.example.com")
    kept = Decoding(beam=4, split="sentences", keep_placeholders=True)
    (translation,) = translator.translate(
        ["Das Auto ist neu."], source="de", decoding=kept, glossary=glossary
    )
    assert placeholders.counts(translation.text) == placeholders.counts("www.example.com")
    prefixed = dataclasses.replace(kept, prefix="See www.example.com:")
    (translation,) = translator.translate(["Das ist neu."], source="de", decoding=prefixed)
    assert translation.text.startswith("See www.example.com:")
