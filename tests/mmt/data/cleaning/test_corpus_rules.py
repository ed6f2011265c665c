"""Rules that look beyond a pair, against NumPy, Counter and plain search."""

import math
from collections import Counter

import numpy as np
import pytest

from mmt.data.cleaning.corpus_rules import (
    LengthHistogram,
    LengthRatios,
    TextCounter,
    duplicates,
    one_side,
    overlap,
    ratio,
)
from mmt.data.cleaning.rules import Dropped, RuleContext, normalised
from mmt.data.pair import Pair


def pair(source, target, line=1):
    return Pair(source, target, "deu_Latn", "made_up", line)


def about(**known):
    return RuleContext("deu_Latn", "eng_Latn", **known)


def sized(source, target):
    return pair("a" * int(source), "b" * int(target))


def test_the_typical_ratio_is_the_median_and_the_mad():
    random = np.random.default_rng(0)
    sizes = random.integers(20, 300, (801, 2))
    lengths, other = LengthHistogram(), LengthHistogram()
    for number, (source, target) in enumerate(sizes):
        (lengths if number % 2 else other).add(sized(source, target))
    lengths.update(other)
    ratio = lengths.learnt()
    logs = np.log(sizes[:, 1] / sizes[:, 0])
    assert ratio.pairs == 801
    assert abs(ratio.median - np.median(logs)) < 1 / 128
    assert abs(ratio.mad - np.median(np.abs(logs - np.median(logs)))) < 1 / 64


def test_with_a_third_of_junk_the_junk_is_dropped():
    lengths = LengthHistogram()
    random = np.random.default_rng(1)
    for number in range(900):
        typical = 2.0 * math.exp(random.normal(0, 0.15))
        lengths.add(sized(100, 100 * (typical if number % 3 else 15)))
    rule = ratio(about(learnt=lengths.learnt()))
    assert rule(sized(100, 200)) == sized(100, 200)
    assert rule(sized(100, 1500)).reason == rule(sized(100, 60)).reason == "ratio"
    assert rule(sized(3, 15)) == sized(3, 15)  # short: not judged


def test_too_few_pairs_teach_nothing():
    few = about(learnt=LengthRatios(99, 0.0, 0.1))
    assert ratio(few)(sized(20, 400)) == sized(20, 400)
    assert isinstance(ratio(few, pairs=50)(sized(20, 400)), Dropped)


def test_how_often_is_counted_as_counter_does():
    random = np.random.default_rng(0)
    texts = [f"{number}" for number in random.integers(0, 700, 2000)]
    seen, oracle = TextCounter(len(texts)), Counter()
    for text in texts:
        assert seen.count(text) == oracle[text]
        assert seen.add(text) == oracle[text]
        oracle[text] += 1
    for _ in range(300):
        seen.add("often")
    assert seen.count("often") == 255
    small = TextCounter(2)
    with pytest.raises(ValueError, match="more distinct texts"):
        for text in texts:
            small.add(text)


def test_overlap_is_found_on_either_side_by_line_and_by_eight_words():
    words = "one two three four five six seven eight nine ten".split()
    tests = {
        "first": {"deu_Latn": ["Das ist es."], "eng_Latn": [" ".join(words)]},
        "second": {"swh_Latn": ["ndiyo"], "eng_Latn": ["That is it!", " ".join(words)]},
    }
    rule = overlap(about(overlap=tests))
    assert rule(pair("das IST es", "Something")).reason == "overlap: first"
    assert rule(pair("Ja", "that is it")).reason == "overlap: second"
    assert rule(pair("ndiyo", "ndiyo")) == pair("ndiyo", "ndiyo")  # Swahili's lines are Swahili's
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            result = rule(pair("x", "Well, " + ", ".join(words[start:end]).title() + " so"))
            assert isinstance(result, Dropped) == (end - start >= 8)
    assert rule(pair("x", " ".join(words))).reason == "overlap: first + second"
    assert rule(pair("...", "!")) == pair("...", "!")


@pytest.mark.parametrize(("code", "unit"), [("zho_Hans", 2), ("tha_Thai", 4)])
def test_where_words_are_not_spaced_characters_count(code, unit):
    letters = "".join(chr(ord("一" if unit == 2 else "ก") + number) for number in range(40))
    rule = overlap(RuleContext(code, "eng_Latn", overlap={"test": {code: [letters]}}))
    for length in range(1, 40):
        result = rule(Pair(f"{letters[:length]}x", "y", code, "made_up", 1))
        assert isinstance(result, Dropped) == (length >= 8 * unit)


def test_punctuation_does_not_hide_a_line_that_is_written_without_spaces():
    tests = {"test": {"zho_Hans": ["你好，世界。", "早上好"], "eng_Latn": ["every one"]}}
    rule = overlap(RuleContext("zho_Hans", "eng_Latn", overlap=tests))
    for source in ("你好世界", "你好，世界！", "早上，好"):
        assert isinstance(rule(Pair(source, "x", "zho_Hans", "made_up", 1)), Dropped)
    for source, target in (("你好", "x"), ("。", "x"), ("世", "everyone")):
        assert not isinstance(rule(Pair(source, target, "zho_Hans", "made_up", 1)), Dropped)


def test_a_pair_is_kept_once_and_a_side_a_limited_number_of_times():
    random = np.random.default_rng(0)
    pairs = [pair(f"S {a}", f"t {b}!") for a, b in random.integers(0, 12, (400, 2))]
    known = about(seen={}, pairs=len(pairs))
    rules = [duplicates(known), one_side(known, most=3)]
    again = duplicates(known)  # of another entry of the language: the same state
    kept, sides, seen = [], (Counter(), Counter()), set()
    for each in pairs:
        texts = normalised(each.source), normalised(each.target)
        expected = texts not in seen and all(
            count[text] < 3 for count, text in zip(sides, texts, strict=True)
        )
        if texts not in seen and expected:
            for count, text in zip(sides, texts, strict=True):
                count[text] += 1
        seen.add(texts)
        result = rules[0](each)
        if not isinstance(result, Dropped):
            result = rules[1](each)
        assert (not isinstance(result, Dropped)) == expected
        kept += [each] if expected else []
    assert len(kept) > 20 and all(isinstance(again(each), Dropped) for each in pairs)


def test_minhash_finds_what_differs_little():
    pytest.importorskip("datasketch")
    rule = duplicates(about(seen={}, pairs=9), minhash=0.7)
    first = pair("Der Löwe trinkt am Abend kühles Wasser am Fluss.", "The lion drinks cold water.")
    near = pair("Der Löwe trinkt am Abend kühles Wasser am Fluß!", "The lion drinks cold waters.")
    other = pair("Ein ganz anderer Satz über etwas anderes.", "Quite another sentence.")
    assert rule(first) == first and rule(other) == other
    assert rule(near).reason == "duplicates: near"
    assert rule(first).reason == "duplicates"
