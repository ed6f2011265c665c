"""Sentence splitting: nothing is lost, every part fits, and cuts are between sentences if possible.
"""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt.translate import sentences

SLOW_AT_FIRST = settings(deadline=None)  # the first sentence loads the rules of its language


def at_most(length):
    return lambda piece: len(piece) <= length


@pytest.mark.parametrize(
    "text, length, pieces",
    [
        ("Fits. As it is.", 20, ["Fits. As it is."]),
        (" \t ", 5, []),
        ("Eins zwei. Drei! Vier?", 10, ["Eins zwei.", "Drei!", "Vier?"]),
        ('He said "no." She left.', 15, ['He said "no."', "She left."]),
        ("Am 2. März, um 3.14 Uhr", 15, ["Am 2. März,", "um 3.14 Uhr"]),  # no sentence ends here
        ("ab, cd ef gh", 6, ["ab,", "cd", "ef gh"]),
        ("三月二日。星期二。", 5, ["三月二日。", "星期二。"]),
        ("甲乙、丙丁戊", 4, ["甲乙、", "丙丁戊"]),
        ("एक दो। तीन चार।", 9, ["एक दो।", "तीन चार।"]),
        ("کیا؟ ہاں۔ اچھا", 5, ["کیا؟", "ہاں۔", "اچھا"]),
        ("ab {c, d} ef", 9, ["ab", "{c, d} ef"]),  # not inside a placeholder
        ("ab%(cd)s", 6, ["ab", "%(cd)s"]),
        ("ที่สองสี่", 6, ["ที่ส", "องสี่"]),  # between letters ...
        ("aaae\u0301\u0301aa", 6, ["aaae\u0301\u0301", "aa"]),  # ... not before a mark
        ("👩\u200d👩\u200d👧x", 5, ["👩\u200d👩\u200d👧", "x"]),
    ],
)
def test_texts_are_cut_between_sentences(text, length, pieces):
    assert sentences.split(text, at_most(length)) == pieces


@given(st.text("ab .,。!\u0301\u200d\n", max_size=200), st.integers(1, 20))
def test_everything_fits_and_nothing_but_space_is_lost(text, length):
    pieces = sentences.split(text, at_most(length))
    assert all(0 < len(piece) <= length and piece == piece.strip() for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_a_very_long_line_is_cut_in_reasonable_time():
    text = "Ein Satz mit einigen Wörtern. " * 10_000
    pieces = sentences.split(text, at_most(500))
    assert len(pieces) < 1200
    assert all(piece.endswith(".") for piece in pieces)


@pytest.mark.parametrize(
    "language, parts",
    [
        ("de", ["Am 2. März kam Dr. Müller. ", "Er ging."]),  # the rules of the language
        ("zho_Hans", ["三月二日。", "星期二。"]),
        ("hye", ["Երեք օր։ ", "Հինգ ժամ։"]),
        ("Khmer", ["ព្រះ។ ", "ទៅ"]),  # marks that sentencex lacks
        ("bo", ["ཀ༎ ", "ག"]),
        ("", ["One. ", "Two!"]),
        ("dag_Latn", ["A boni. ", "A yi!"]),  # without rules of its own
        ("en", ["See `a. B` now. ", "Go to http://a.b/c?d. ", "E!"]),  # code, a URL
    ],
)
def test_sentences_of_a_language(language, parts):
    assert sentences.segment("".join(parts), language) == parts


TEXT = st.text("ab AB.!?。«\u0301\u2028\u3000\n\t\ud800`{}۔1", max_size=80)


@given(TEXT, st.sampled_from(["", "my"]))
def test_sentences_together_are_the_text(text, language):
    parts = sentences.segment(text, language)
    assert "".join(parts) == text and all(parts)


SPACES = "\n\r\t\v\f\x1c\x85\u2028\u2029"


@SLOW_AT_FIRST
@given(st.text(f"ab. 。!{SPACES}\u00a0", max_size=80), st.sampled_from([None, 3]), st.booleans())
def test_a_text_keeps_its_white_space(text, most, whole_lines):
    segmented = sentences.segment_text(
        text, "zh", fits=most and at_most(most), whole_lines=whole_lines
    )
    assert segmented.text == segmented.join(segmented.sentences, separator="") == text
    for sentence, (start, end) in zip(segmented.sentences, segmented.spans, strict=True):
        assert text[start:end] == sentence == sentence.strip()
        assert any(map(str.isalnum, sentence)) and not set(sentence) & set(SPACES)
        assert not most or len(sentence) <= most
    assert not any(map(str.isalnum, "".join(segmented.gaps)))
    others = segmented.join(["x y"] * len(segmented.sentences))
    assert re.findall(f"[{SPACES}]", others) == re.findall(f"[{SPACES}]", text)


def test_lines_and_sentences_without_a_letter_or_digit_are_kept():
    segmented = sentences.segment_text("--- \n:-)\tJa! 👍\n4\n")
    assert segmented.sentences == ("Ja!", "4")
    assert segmented.join(["Yes!", "4"]) == "--- \n:-)\tYes! 👍\n4\n"
    assert sentences.segment_text("...").gaps == ("...",)
    assert sentences.segment_text("").join([]) == ""


@pytest.mark.parametrize("placeholder", ["https://neu.org/neu", "{a,plural,neu (,neu {neu (}}"])
def test_placeholders_that_do_not_fit_are_kept(placeholder):
    text = f"Alt {placeholder} neu ({placeholder}).\nAlt {{a}} neu, {{b}}, neu!"
    segmented = sentences.segment_text(text, fits=at_most(12))
    assert segmented.sentences == ("Alt", "neu (", "Alt {a} neu,", "{b}, neu!")
    assert segmented.text == text
    translated = segmented.join(["Old", "new (", "Old {a} new,", "{b}, new!"])
    assert translated == f"Old {placeholder} new ({placeholder}).\nOld {{a}} new, {{b}}, new!"


def test_each_sentence_needs_a_translation():
    with pytest.raises(ValueError, match="1 translations of 2 sentences"):
        sentences.segment_text("Ja. Nein.").join(["Yes."])


def test_sentences_without_space_between_get_a_separator():
    segmented = sentences.segment_text("\n  三月。星期二。……\n\n三日。", "zh")
    assert segmented.sentences == ("三月。", "星期二。", "三日。")
    assert segmented.join(["A.", "B.", "C."]) == "\n  A. B.……\n\nC."
    assert segmented.join(["A.", "B.", "C."], separator="") == "\n  A.B.……\n\nC."
