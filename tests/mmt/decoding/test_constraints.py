"""Constrained search: against brute force, and phrases in every translation of a narrow beam."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt.decoding import constraints
from mmt.decoding.beam_search import RowLimits, beam_search
from mmt.decoding.constraints import RequiredPhrase, WordEdges
from mmt.decoding.settings import BeamSettings

PAD, EOS, SIZE, LONGEST = 0, 1, 5, 5
NO_WORDS = WordEdges(np.zeros(SIZE, bool), np.zeros(SIZE, bool))
# Tokens 3 and 4 begin and end with letters: side by side they are one word.
WORDS = WordEdges(np.arange(SIZE) >= 3, np.arange(SIZE) >= 3)


@functools.partial(jax.jit, static_argnames="settings")
def run(table, limits, settings):
    """A search in which a token's logits depend on the last token only."""
    return beam_search(
        lambda tokens, cache: (table[tokens], cache), (), limits=limits, settings=settings
    )


def search(table, rows, edges, *, beams, style="t5x", nbest=1, length=LONGEST):
    of_rows = constraints.constraints(rows, (len(rows), 2, 3, 4), edges)
    limits = RowLimits(jnp.full(len(rows), length), constraints=of_rows)
    options = BeamSettings(length, beams=beams, alpha=0.0, nbest=nbest, search_style=style)
    return jax.tree.map(np.asarray, run(table, limits, options))


def occurrences(tokens, phrase, edges):
    """How often the phrase occurs in tokens, as whole words: at how many places one ends."""
    ends = set()
    for wanted in phrase.alternatives:
        for start in range(len(tokens) - len(wanted) + 1):
            end = start + len(wanted)
            joints = [place for place in (start, end) if 0 < place < len(tokens)]
            if tuple(tokens[start:end]) == wanted and not any(
                edges.ends[tokens[place - 1]] and edges.starts[tokens[place]] for place in joints
            ):
                ends.add(end)
    return len(ends)


def contains(tokens, phrases, edges):
    return all(occurrences(tokens, phrase, edges) >= phrase.times for phrase in phrases)


def without_padding(tokens):
    kept = [token for token in tokens.tolist() if token != PAD]
    return kept[: kept.index(EOS)] if EOS in kept else kept


def random_table(seed):
    return jax.nn.log_softmax(3 * jax.random.normal(jax.random.key(seed), (SIZE, SIZE)))


def best_by_brute_force(table, phrases, edges):
    """Score and tokens of the best sequence of LONGEST tokens at most that has all phrases."""
    table = np.asarray(table)
    best = -np.inf, ()
    for length in range(LONGEST):
        for tokens in itertools.product(range(2, SIZE), repeat=length):
            if contains(tokens, phrases, edges):
                chain = [PAD, *tokens, EOS]
                score = sum(table[a, b] for a, b in itertools.pairwise(chain))
                best = max(best, (score, tokens))
    return best


ONE = [RequiredPhrase(((2, 3),))]
CASES = [
    ONE,
    [RequiredPhrase(((3,),), times=2)],
    [RequiredPhrase(((2, 3), (3,)), times=2)],  # with a space before and without: one occurrence
    [RequiredPhrase(((2, 2), (3,)))],
    [RequiredPhrase(((4,),)), RequiredPhrase(((2, 3),))],
    [RequiredPhrase(((3, 4), (4, 3))), RequiredPhrase(((2,),))],
    [RequiredPhrase(((2, 2, 3),))],  # a failed start may be the start of another
]


@pytest.mark.parametrize("edges", [NO_WORDS, WORDS], ids=["tokens", "words"])
@pytest.mark.parametrize("phrases", CASES, ids=str)
def test_a_wide_beam_finds_the_best_that_has_all_phrases(phrases, edges):
    for seed in range(4):
        table = random_table(seed)
        found = search(table, [phrases], edges, beams=100)
        score, tokens = best_by_brute_force(table, phrases, edges)
        assert without_padding(found.tokens[0, 0]) == list(tokens)
        np.testing.assert_allclose(found.scores[0, 0], score, rtol=1e-5)


PHRASE = st.builds(
    RequiredPhrase,
    st.lists(st.lists(st.integers(2, SIZE - 1), min_size=1, max_size=3).map(tuple), min_size=1,
             max_size=2, unique=True).map(tuple),
    st.integers(1, 2),
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(PHRASE, min_size=1, max_size=2), min_size=3, max_size=3),
    st.integers(0, 99),
    st.sampled_from(["t5x", "hf"]),
)
def test_every_hypothesis_of_a_narrow_beam_has_all_phrases(rows, seed, style):
    """One alternative begins like a space, with token 2, so that there is a way to say all."""
    rows = [[phrase._replace(alternatives=((2, *phrase.alternatives[0]), *phrase.alternatives))
             for phrase in row] for row in rows]  # fmt: skip
    found = search(random_table(seed), rows, WORDS, beams=4, style=style, nbest=2, length=20)
    for row, tokens, scores in zip(rows, found.tokens, found.scores, strict=True):
        assert scores[0] > -np.inf
        for hypothesis, score in zip(tokens, scores, strict=True):
            if score > -np.inf:
                assert contains(without_padding(hypothesis), row, WORDS)


def test_rows_do_not_depend_on_each_other():
    table = random_table(7)
    rows = [ONE, [RequiredPhrase(((4, 3),))]]
    both = search(table, rows, WORDS, beams=4)
    for number, row in enumerate(rows):
        alone = search(table, [row], WORDS, beams=4)
        assert (alone.tokens[0] == both.tokens[number]).all()
        assert alone.scores[0, 0] == both.scores[number, 0]
