"""Words, and the characters of scripts that have no spaces."""

import pytest

from mmt.documents import words


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("  ab  cd ", ["ab", "cd"]),
        ("ab, c-d 12.", ["ab", ",", "c", "-", "d", "12", "."]),
        ("三月ab", ["三", "月", "ab"]),
        ("कला है", ["कला", "है"]),  # vowel signs
        ("ที่ดี", ["ที่", "ดี"]),
        ("e\u0301t \U0001f469\u200d\U0001f467!", ["e\u0301t", "\U0001f469\u200d\U0001f467", "!"]),
    ],
)
def test_spans(text, parts):
    assert [text[start:end] for start, end in words.spans(text)] == parts


def test_edges_of_words():
    assert words.goes_on("ab", 1) and not words.goes_on("a b", 1) and not words.goes_on("a,", 1)
    assert not words.goes_on("ab", 0) and not words.goes_on("ab", 2)
    assert words.in_word("é") and not words.in_word("月") and not words.in_word("")
