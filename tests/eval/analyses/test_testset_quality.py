"""Marks of test sets: good sets pass, and every reason occurs."""

import numpy as np
import pytest

from eval.analyses.testset_quality import rate

RNG = np.random.default_rng(0)
WORDS = "the river king went down and saw seven cattle in marsh grass by night".split()


def lines(count, *, reference=None, source="Ein Satz, und zwar der {}. von allen."):
    """Sources, and different references of 12 words."""
    made = [" ".join(RNG.choice(WORDS, 12)) + f", {place}." for place in range(count)]
    return [
        (source.format(place), reference.format(place) if reference else made[place])
        for place in range(count)
    ]


def judged(pairs, target="eng_Latn"):
    return rate("made-up", "deu_Latn", target, pairs)


def test_enough_plain_sentences_are_good():
    quality = judged(lines(300))
    assert (quality.mark, quality.reasons, quality.sentences) == ("good", (), 300)
    assert quality.key == ("trust", "made-up", "deu_Latn", "eng_Latn") and quality.system == ""


@pytest.mark.parametrize(
    ("pairs", "mark", "reason"),
    [
        (lines(99), "poor", "only 99 sentences, under 100"),
        (lines(199), "fair", "only 199 sentences"),
        (lines(200, reference="“He went to the sea {} times and came back,” said one"), "good",
         "100% of the references the tokenizer 13a leaves"),
        (lines(200, reference="他在第{}天去了海边然后又回到了他自己的家里见了所有的人。"), "poor",
         "finds no words"),
        (lines(200, reference="hallituksen neuvottelukunta {} kokoontui"), "fair",
         "use chrF++"),
        (lines(200, reference="Yes, {}"), "poor", "100% of the references are under 4 words"),
        (lines(200)[:50] * 4, "poor", "75% of the references are repetitions"),
        ([(other, other) for _, other in lines(200)], "poor", "equal their sources"),
        ([*lines(200), ("Ja.", "...")], "poor", "1 references have no word"),
    ],
)  # fmt: skip
def test_reasons(pairs, mark, reason):
    quality = judged(pairs)
    assert quality.mark == mark and any(reason in text for text in quality.reasons)


def test_the_worst_reason_makes_the_mark():
    quality = judged(lines(150, reference="Yes, {}"))
    assert quality.mark == "poor" and len(quality.reasons) == 2


def test_plain_quotation_marks_are_no_reason():
    plain = lines(200, reference='"He went to the sea {} times," said the king\'s son.')
    assert (judged(plain).mark, judged(plain).reasons) == ("good", ())
