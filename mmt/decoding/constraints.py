"""Phrases that a translation must contain, for a beam search with dynamic beam allocation.

Post & Vilar 2018, with three differences. A phrase may have alternatives, of which one suffices.
Whole words count: 'art' is not met by 'cart' or 'arts'. Nothing is kept between steps: progress is
computed from the tokens of a hypothesis. `mmt.decoding.beam_search` calls these functions; shapes
use the alphabet of `mmt.model`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int


class WordEdges(NamedTuple):
    """For each token, whether it begins and ends with a character of a word.

    Where one token ends with such a character and the next begins with one, a word goes on.
    """

    starts: Bool[np.ndarray, "V"]
    ends: Bool[np.ndarray, "V"]


class RequiredPhrase(NamedTuple):
    """A phrase that a hypothesis must contain `times` times.

    `alternatives` are token ids of its spellings; any of them counts. Alternatives that end at the
    same token count once.
    """

    alternatives: tuple[tuple[int, ...], ...]
    times: int = 1

    @property
    def longest(self) -> int:
        """Returns the maximum number of tokens of all occurrences of the phrase."""
        return self.times * max(map(len, self.alternatives))


class Constraints(NamedTuple):
    """Phrases of each row that its hypotheses must contain.

    Attributes:
        phrases: token ids of the alternatives, filled up with -1.
        times: how often each phrase must occur; 0 for those that fill a row up.
        starts, ends: see `WordEdges`.
    """

    phrases: Int[Array, "B U A Z"]
    times: Int[Array, "B U"]
    starts: Bool[Array, "V"]
    ends: Bool[Array, "V"]


class Progress(NamedTuple):
    """How much of its row's phrases each live hypothesis contains.

    Attributes:
        phrases, times: the phrases of the hypothesis' row.
        lengths: tokens of each alternative.
        occurrences: how often the hypothesis contains the phrase, with a word's end behind it.
        at_end: whether the hypothesis ends with an alternative of the phrase.
        suffixes: whether the hypothesis ends with the first z tokens of the alternative.
        in_word: whether the hypothesis ends with a character of a word.
    """

    phrases: Int[Array, "N U A Z"]
    times: Int[Array, "N U"]
    lengths: Int[Array, "N U A"]
    occurrences: Int[Array, "N U"]
    at_end: Bool[Array, "N U"]
    suffixes: Bool[Array, "N U A Z"]
    in_word: Bool[Array, "N"]


class Banks(NamedTuple):
    """For each continuation, how many tokens of phrases it has, and whether it has all phrases."""

    bank: Int[Array, "N Y"]
    complete: Bool[Array, "N Y"]


def constraints(
    rows: Sequence[Sequence[RequiredPhrase]], shape: tuple[int, int, int, int], edges: WordEdges
) -> Constraints:
    """Returns the constraints of rows of phrases as arrays.

    `shape` is the number of rows, and the maximum numbers of phrases, alternatives and tokens.
    """
    filled, times = np.full(shape, -1, np.int32), np.zeros(shape[:2], np.int32)
    for row, phrases in enumerate(rows):
        for number, phrase in enumerate(phrases):
            times[row, number] = phrase.times
            for index, tokens in enumerate(phrase.alternatives):
                filled[row, number, index, : len(tokens)] = tokens
    return Constraints(*map(jnp.asarray, (filled, times, edges.starts, edges.ends)))


def progress(
    constraints: Constraints, tokens: Int[Array, "B beams T"], step: Int[Array, ""]
) -> Progress:
    """Returns how much of the phrases each hypothesis contains after `step` tokens."""
    batch, beams, longest = tokens.shape
    hypotheses = tokens.reshape(batch * beams, longest)
    phrases = jnp.repeat(constraints.phrases, beams, axis=0)
    size, lengths = phrases.shape[-1], jnp.sum(phrases >= 0, axis=-1)
    places = jnp.arange(longest)
    ends = constraints.ends[hypotheses] & (places < step)
    # Whether a word continues from the previous token to this one.
    inside = constraints.starts[hypotheses] & jnp.pad(ends, ((0, 0), (1, 0)))[:, :-1]
    inside &= places < step

    begins = ~inside[:, None, None, :] & (lengths > 0)[..., None]  # an alternative begins here
    padded = jnp.pad(hypotheses, ((0, 0), (size, size)), constant_values=-2)

    def with_token(z: Int[Array, ""], begins: Bool[Array, "N U A T"]) -> Array:
        expected = jnp.take(phrases, z, axis=-1)[..., None]
        actual = jax.lax.dynamic_slice_in_dim(padded, size + z, longest, axis=1)[:, None, None, :]
        return begins & ((expected < 0) | ((expected == actual) & (places + z < step)))

    begins = jax.lax.fori_loop(0, size, with_token, begins)  # compiled once for all z
    next_places = places + lengths[..., None]
    goes_on = jnp.take_along_axis(
        jnp.pad(inside, ((0, 0), (0, size)))[:, None, None, :], next_places, axis=-1
    )
    at_end = next_places == step
    # Alternatives that end together are one occurrence: a word, with and without a space before.
    firm = jnp.pad(begins & ~at_end & ~goes_on, ((0, 0), (0, 0), (0, 0), (size, 1)))
    ends_here = jnp.take_along_axis(firm, places + 1 + size - lengths[..., None], axis=-1)

    last_inside = jax.lax.dynamic_slice_in_dim(jnp.pad(inside, ((0, 0), (size, 0))), step, size, 1)

    def ends_with(z: Int[Array, ""]) -> Bool[Array, "N U A"]:
        latest = jax.lax.dynamic_slice_in_dim(padded, size + step - z, size, axis=1)
        latest = latest[:, None, None, :]  # z tokens, then others
        equal = jnp.all((phrases == latest) | (jnp.arange(size) >= z), axis=-1)
        return equal & ~jnp.take(last_inside, size - z, axis=1)[:, None, None]

    suffixes = jax.lax.map(ends_with, jnp.arange(1, size))
    suffixes = jnp.concatenate([jnp.ones((1, *lengths.shape), bool), suffixes])
    last_end = jnp.pad(ends, ((0, 0), (1, 0)))
    return Progress(
        phrases,
        jnp.repeat(constraints.times, beams, axis=0),
        lengths,
        jnp.sum(jnp.any(ends_here, axis=-2), axis=-1),
        jnp.any(begins & at_end, axis=(-2, -1)),
        jnp.moveaxis(suffixes, 0, -1),
        jax.lax.dynamic_index_in_dim(last_end, step, axis=1, keepdims=False),
    )


def banks(progress: Progress, tokens: Int[Array, "N Y"], starts: Bool[Array, "V"]) -> Banks:
    """Returns the banks of hypotheses continued by `tokens`; `starts` as in `WordEdges`."""
    inside = progress.in_word[:, None] & starts[tokens]
    size = progress.phrases.shape[-1]
    fits = (progress.phrases[:, None] == tokens[..., None, None, None]) & progress.suffixes[:, None]
    fits &= ~inside[..., None, None, None] | (jnp.arange(size) > 0)
    grown = jnp.max(jnp.where(fits, jnp.arange(1, size + 1), 0), axis=-1)  # [N Y U A]
    lengths = progress.lengths[:, None]
    completed = jnp.any((grown == lengths) & (lengths > 0), axis=-1)
    firm = progress.occurrences[:, None] + (progress.at_end[:, None] & ~inside[..., None])
    times, longest = progress.times[:, None], jnp.max(progress.lengths, axis=-1)[:, None]
    # Of the phrases at the end, begun or complete, one counts: the next token cannot suit them all.
    at_end = jnp.where(completed, longest, jnp.minimum(jnp.max(grown, axis=-1), longest - 1))
    at_end = jnp.max(jnp.where(firm < times, at_end, 0), axis=-1)
    bank = jnp.sum(jnp.minimum(firm, times) * longest, axis=-1) + at_end
    return Banks(bank, jnp.all(firm + completed >= times, axis=-1))


def required_tokens(progress: Progress) -> Int[Array, "N R"]:
    """Returns the tokens that begin and continue phrases that must occur again; -1 fills up.

    With both, a hypothesis can always add one more token of its phrases.
    """
    size = progress.phrases.shape[-1]
    open_ = progress.suffixes & (jnp.arange(size) < progress.lengths[..., None])
    matched = jnp.max(jnp.where(open_, jnp.arange(size), 0), axis=-1)
    following = jnp.take_along_axis(progress.phrases, matched[..., None], axis=-1)
    tokens = jnp.concatenate([progress.phrases[..., :1], following], axis=-1)
    missing = progress.occurrences + progress.at_end < progress.times
    return jnp.where(missing[..., None, None], tokens, -1).reshape(len(tokens), -1)


def with_required(
    progress: Progress,
    logits: Float[Array, "N V"],
    best: Float[Array, "N W"],
    tokens: Int[Array, "N W"],
) -> tuple[Float[Array, "N Y"], Int[Array, "N Y"]]:
    """Adds the tokens that continue phrases to the best tokens of each hypothesis.

    A token that occurs twice has the score -inf the second time.
    """
    required = required_tokens(progress)
    twice = jnp.any(required[:, :, None] == tokens[:, None, :], axis=-1)
    earlier = jnp.tril(jnp.ones((required.shape[1],) * 2, bool), -1)
    twice |= jnp.any((required[:, :, None] == required[:, None, :]) & earlier, axis=-1)
    values = jnp.take_along_axis(logits, jnp.maximum(required, 0), axis=-1)
    values = jnp.where(twice | (required < 0), -jnp.inf, values)
    return (
        jnp.concatenate([best, values], axis=-1),
        jnp.concatenate([tokens, jnp.maximum(required, 0)], axis=-1),
    )


def best_by_bank(
    scores: Float[Array, "B Y"], bank: Int[Array, "B Y"], *, count: int
) -> Int[Array, "B X"]:
    """Returns the indices of `count` continuations of each row, those to keep first.

    First comes the best continuation of the highest bank, so that a row always completes its
    phrases; then the best of each bank, the second of each bank, and so on; equal ranks by score.
    """
    rows, places = jnp.arange(len(scores))[:, None], jnp.arange(scores.shape[1])
    bank = jnp.where(scores > -jnp.inf, bank, -1)
    by_bank = jnp.lexsort((-scores, bank), axis=-1)
    sorted_bank = jnp.take_along_axis(bank, by_bank, axis=-1)
    first = sorted_bank != jnp.pad(sorted_bank, ((0, 0), (1, 0)), constant_values=-2)[:, :-1]
    in_bank = places - jax.lax.cummax(jnp.where(first, places, 0), axis=1)
    rank = jnp.zeros_like(bank).at[rows, by_bank].set(in_bank)
    leader = (rank == 0) & (bank == jnp.max(bank, axis=-1, keepdims=True))
    order = jnp.where(bank < 0, len(places), jnp.where(leader, -1, rank))
    return jnp.lexsort((-scores, order), axis=-1)[:, :count]


def only_first(scores: Float[Array, "B X"], count: int) -> Float[Array, "B X"]:
    """Returns the scores with all but the first `count` that are not -inf set to -inf."""
    number = jnp.cumsum(scores > -jnp.inf, axis=-1)
    return jnp.where(number <= count, scores, -jnp.inf)
