"""N-grams of a line: they lie within words, and depend on this line only."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt.identify import ngrams

LATIN = np.array([ord(letter) for letter in "abcdefghijklmnopqrstuvwxyzäé"], np.int32)
EMOJI = (  # a face, a heart with a variation selector, a key, a thumb with a tone, a flag, a family
    "\U0001f600 \u2764\ufe0f 1\ufe0f\u20e3 \U0001f44d\U0001f3fd \U0001f1f8\U0001f1ea "
    "\U0001f469\u200d\U0001f467"
)
LINES = st.lists(st.text(max_size=30), min_size=1, max_size=6)


def rows(lines, buckets=2**12):
    """The buckets of the n-grams of each line, and the scale."""
    found = ngrams.extract(lines, alphabet=LATIN, buckets=buckets)
    counts = found.counts.toarray().reshape(ngrams.ORDER, len(lines), -1).sum(0)
    return counts, found.scale


@settings(max_examples=40, deadline=None)
@given(LINES)
def test_a_line_has_the_same_ngrams_alone_and_among_others(lines):
    together, scale = rows(lines)
    for place, line in enumerate(lines):
        alone, alone_scale = rows([line])
        np.testing.assert_array_equal(together[place], alone[0])
        assert scale[place] == alone_scale[0]


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=100), st.text(max_size=100))  # a line is cut at 400
def test_case_and_everything_but_letters_only_separates(left, right):
    plain, _ = rows([f"{left} {right}"])
    other, _ = rows([f"{left} , 12!\n{EMOJI} {right}"])
    np.testing.assert_array_equal(plain, other)


def test_the_ngrams_of_a_word_are_counted():
    counts, scale = rows(["ab"], buckets=2**20)
    # a b | _a ab b_ | _ab ab_ | _ab_
    assert counts.sum() == 2 + 3 + 2 + 1 and (counts <= 1).all()
    assert np.isclose(scale[0], 1 / np.sqrt(8))
    assert np.array_equal(rows(["AB-"], buckets=2**20)[0], counts)
    assert rows(["", "12 %"])[0].sum() == 0 and (rows(["", "12 %"])[1] == 0).all()


def test_letters_outside_the_alphabet_are_one_symbol():
    np.testing.assert_array_equal(rows(["жзи жз"])[0], rows(["ကခဂ ကခ"])[0])
    assert (rows(["жзи жз"])[0] != rows(["abc ab"])[0]).any()


def test_the_gradient_is_that_of_the_projection():
    random = np.random.default_rng(0)
    found = ngrams.extract(["one two", "", "three"], alphabet=LATIN, buckets=256)
    embedding = random.normal(size=(256, 4)).astype(np.float32)
    change = random.normal(size=(256, 4)).astype(np.float32)
    outer = random.normal(size=(3, 4)).astype(np.float32)
    used, gradient = found.gradient(outer)
    moved = found.project(embedding + change) - found.project(embedding)
    assert np.isclose((moved * outer).sum(), (gradient * change[used]).sum(), rtol=1e-3)
