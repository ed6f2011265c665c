"""Span corruption has the properties of the T5 paper, on any line; so have prefix language models.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt.data.denoising import Denoiser, Denoising

SENTINELS = list(range(1000, 1100))


def made(how, texts, *, lines=None, keys=None, sentinels=SENTINELS):
    lines = np.arange(len(texts)) if lines is None else np.array(lines)
    return Denoiser(how, sentinels).examples(texts, lines, keys or list(range(len(texts))))


def filled(source, target, sentinels=SENTINELS):
    """The text, by putting what follows each sentinel of the target into its place."""
    spans, span = {}, None
    for token in target:
        if token in sentinels:
            span = spans.setdefault(token, [])
        else:
            span.append(token)
    parts = (spans.get(token, [token]) for token in source)
    return list(itertools.chain.from_iterable(parts))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 999), min_size=1, max_size=300), min_size=1, max_size=5),
    st.floats(0.01, 0.99), st.floats(1, 20), st.integers(0, 2**64 - 1), st.integers(1, 100),
)  # fmt: skip
def test_noise_spans_and_their_targets_are_the_text(texts, density, span, key, number):
    how, sentinels = Denoising(density, span), SENTINELS[:number]
    keys = [key] * len(texts)
    sides = made(how, texts, keys=keys, sentinels=sentinels)
    all_lengths = Denoiser(how, sentinels).lengths(np.array([len(text) for text in texts]))
    for text, (source, target), lengths in zip(texts, sides, all_lengths.tolist(), strict=True):
        assert filled(source, target, sentinels) == text
        # each gap has the next sentinel, the same on both sides, and no two gaps touch
        marks = [token for token in source if token in sentinels]
        assert marks == sentinels[: len(marks)] == [token for token in target if token in sentinels]
        places = [place for place, token in enumerate(source) if token in sentinels]
        assert all(b - a > 1 for a, b in itertools.pairwise(places))
        assert target[0] == sentinels[0] and target[-1] not in sentinels
        assert len(source) > len(marks) or len(text) == 1
        assert marks
        assert [len(source), len(target)] == lengths
    assert made(how, texts, keys=keys, sentinels=sentinels) == sides


def test_density_and_mean_span_are_those_of_the_paper():
    texts = [list(range(length)) for length in range(20, 500)]
    noise = gaps = 0
    for _, target in made(Denoising(), texts):
        marks = sum(token >= 1000 for token in target)
        noise, gaps = noise + len(target) - marks, gaps + marks
    assert noise / sum(map(len, texts)) == pytest.approx(0.15, abs=0.005)
    assert noise / gaps == pytest.approx(3.0, abs=0.1)


def test_noise_spans_are_anywhere_and_differ_by_key():
    text = list(range(40))
    sides = made(Denoising(), [text] * 4000, keys=list(range(4000)))
    left_out = np.zeros(40)
    for _, target in sides:
        left_out[[token for token in target if token < 1000]] += 1
    assert left_out.sum() == 6 * 4000
    assert left_out[3:-3] / 4000 == pytest.approx(np.full(34, 6 / 40), abs=0.03)
    assert left_out.min() / 4000 > 0.05  # the ends too
    assert len({tuple(source) for source, _ in sides}) > 500


def test_a_prefix_language_model_predicts_the_end():
    texts = [list(range(length)) for length in (1, 2, 3, 50, 50, 50, 50)] * 50
    sides = made(Denoising(prefix_lm=1.0), texts)
    assert all(source + target == text for text, (source, target) in zip(texts, sides, strict=True))
    assert all(target and (source or len(text) == 1)
               for text, (source, target) in zip(texts, sides, strict=True))  # fmt: skip
    cuts = [len(source) for text, (source, _) in zip(texts, sides, strict=True) if len(text) == 50]
    assert min(cuts) < 8 and max(cuts) > 42 and 20 < np.mean(cuts) < 30
    assert sides == made(Denoising(prefix_lm=1.0), texts, keys=[7] * len(texts))  # by line alone


def test_both_kinds_may_be_mixed():
    texts = [list(range(30))] * 5000
    sides = made(Denoising(prefix_lm=0.25), texts)
    prefixes = sum(not any(token >= 1000 for token in source) for source, _ in sides)
    assert prefixes / 5000 == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"density": 0.0}, "density is 0.0; allowed: more than 0, less than 1"),
        ({"density": 15}, "density is 15"),
        ({"span": 0.5}, "span is 0.5; allowed: a mean length of 1 or more"),
        ({"prefix_lm": 2}, "prefix_lm is 2; allowed: 0 ... 1"),
    ],
)
def test_values_out_of_range_are_errors(wrong, words, as_users_have_it):
    with pytest.raises(ValueError, match=words):
        Denoising(**wrong)
