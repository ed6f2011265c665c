"""Sentence splitting: nothing is lost, every part fits, and cuts are between sentences if possible.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmt.translate import sentences


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
