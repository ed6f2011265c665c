"""Beam search over any step function, in a jit-able `lax.while_loop`; greedy is one beam.

It knows no model: it sees tokens, logits and a cache whose rows it reorders. It is not a sampler,
and it keeps no text: `translate` makes rows of sentences and text of token ids.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

PAD = 0

# A pytree. Leaves of rank 2 or more hold a row per hypothesis; others (a step counter) are global.
Cache = Any
StepFn = Callable[[Int[Array, "N"], Cache], tuple[Float[Array, "N V"], Cache]]


@dataclass(frozen=True)
class BeamSettings:
    """How to search. Hashable, so that it can be a static argument of a jitted function.

    max_length: tokens of the longest hypothesis, its end token included.
    beams: live hypotheses per row; 1 is greedy search.
    alpha: exponent of the length penalty; 0 for none.
    nbest: hypotheses returned per row, at most `beams`.
    start: the token that stands for the one before the first.
    eos: the token that ends a hypothesis.
    """

    max_length: int
    beams: int = 4
    alpha: float = 0.8
    nbest: int = 1
    start: int = 0
    eos: int = 1

    def __post_init__(self) -> None:
        if self.beams < 1:
            raise ValueError(f"beam size {self.beams}; allowed: 1 (greedy) or more")
        if not 1 <= self.nbest <= self.beams:
            raise ValueError(
                f"{self.nbest}-best of beam size {self.beams}; allowed: 1 to {self.beams}"
            )
        if not self.alpha >= 0:
            raise ValueError(f"length penalty alpha {self.alpha}; allowed: 0 or more")
        if self.max_length < 1:
            raise ValueError(f"maximum length {self.max_length}; allowed: 1 or more")


class Hypotheses(NamedTuple):
    """Best first. After its end token a hypothesis is filled with PAD.

    A slot that no hypothesis is left for (the vocabulary is tiny, or the row's maximum length 0)
    has score -inf and only PAD.
    """

    tokens: Int[Array, "B beams T"]
    scores: Float[Array, "B beams"]  # log-probability / length_penalty(length with end token)


class State(NamedTuple):
    """A search under way. A row is done when it has no live hypothesis, that is, all are -inf."""

    step: Int[Array, ""]
    limits: Int[Array, "B"]
    last: Int[Array, "N"]  # the token each live hypothesis ends in
    live: Int[Array, "B K T"]
    live_scores: Float[Array, "B K"]  # log-probabilities, best first
    finished: Hypotheses
    cache: Cache


def beam_search(
    step_fn: StepFn,
    cache: Cache,
    *,
    max_lengths: Int[Array, "B"],
    settings: BeamSettings,
    batch_axis: int = 1,
) -> Hypotheses:
    """The `settings.nbest` best hypotheses that `settings.beams` live ones lead to, for each row.

    `step_fn(tokens, cache) -> (logits, cache)` is given the last token of each of the B * beams
    hypotheses, those of a row adjacent. In `cache`, leaves of rank 2 or more have these rows at
    `batch_axis`; they follow their hypotheses from step to step.

    Each step takes the best 2 * beams continuations (the rule of T5X and Flax): of those that end,
    the best join the finished ones, and the best `beams` of the others live on. One beam takes just
    the best continuation. A hypothesis that has reached its row's `max_lengths` must end there and
    pays for its end token, so every score is that of a complete sequence. A row is done when none
    of its live hypotheses can get a better score than all of the `nbest` finished, and then stays
    as it is: a row's result does not depend on the others. PAD is never produced, though it keeps
    the probability that the model gives it.

    >>> logits = jnp.log(jnp.array([0.0, 0.4, 0.6]))  # PAD, end, a word; whatever came before
    >>> found = beam_search(
    ...     lambda tokens, cache: (jnp.tile(logits, (len(tokens), 1)), cache), (),
    ...     max_lengths=jnp.array([3]), settings=BeamSettings(3, beams=2, alpha=0.0, nbest=2))
    >>> found.tokens[0].tolist(), [f"{p:.2f}" for p in jnp.exp(found.scores[0])]
    ([[1, 0, 0], [2, 1, 0]], ['0.40', '0.24'])
    """
    state = start(cache, max_lengths=max_lengths, settings=settings)
    return extend(step_fn, state, settings=settings, batch_axis=batch_axis).finished


def start(cache: Cache, *, max_lengths: Int[Array, "B"], settings: BeamSettings) -> State:
    """The search before its first step, for a caller who searches in parts with `extend`."""
    limits = jnp.minimum(max_lengths, settings.max_length)
    batch, beams, length = limits.shape[0], settings.beams, settings.max_length
    first = (jnp.arange(beams) == 0) & (limits > 0)[:, None]  # the other beams would be its copies
    return State(
        step=jnp.int32(0),
        limits=limits,
        last=jnp.full((batch * beams,), settings.start, jnp.int32),
        live=jnp.full((batch, beams, length), PAD, jnp.int32),
        live_scores=jnp.where(first, 0.0, -jnp.inf),
        finished=Hypotheses(
            tokens=jnp.full((batch, settings.nbest, length), PAD, jnp.int32),
            scores=jnp.full((batch, settings.nbest), -jnp.inf),
        ),
        cache=cache,
    )


def extend(
    step_fn: StepFn,
    state: State,
    *,
    settings: BeamSettings,
    until: int | None = None,
    batch_axis: int = 1,
) -> State:
    """The search after `until` steps in all, or at its end (None, or all rows are done before).

    Between parts the caller may change what the cache looks like, for instance make it longer.
    """
    steps = settings.max_length if until is None else until
    return jax.lax.while_loop(
        lambda state: any_live(state) & (state.step < steps),
        lambda state: _step(step_fn, state, settings, batch_axis),
        state,
    )


def any_live(state: State) -> Bool[Array, ""]:
    """Whether some row is not done."""
    return jnp.any(state.live_scores > -jnp.inf)


def length_penalty(length: Int[Array, "*shape"], alpha: float) -> Float[Array, "*shape"]:
    """((5 + length) / 6)^alpha: Wu et al. 2016 (GNMT), equation 14. The end token counts."""
    return ((5.0 + length) / 6.0) ** alpha


def _step(step_fn: StepFn, state: State, settings: BeamSettings, batch_axis: int) -> State:
    logits, cache = step_fn(state.last, state.cache)
    must_end = jnp.repeat(state.step + 1 >= state.limits, settings.beams)
    logprobs, tokens = _best_tokens(logits, must_end, settings)
    scores, parents, tokens = _best_continuations(state.live_scores, logprobs, tokens)
    grown = _pick(state.live, parents).at[:, :, state.step].set(tokens)
    ended = tokens == settings.eos

    penalty = length_penalty(state.step + 1, settings.alpha)
    finished = _best_finished(
        state.finished, Hypotheses(grown, jnp.where(ended, scores / penalty, -jnp.inf))
    )
    live_scores, chosen = jax.lax.top_k(jnp.where(ended, -jnp.inf, scores), settings.beams)
    # A log-probability is at most 0 and only falls, so the best score that is left to hope for is
    # the present one kept up to the row's limit, where the penalty divides it by the most.
    hope = live_scores[:, :1] / length_penalty(state.limits, settings.alpha)[:, None]
    done = hope <= finished.scores[:, -1:]
    parents = _pick(parents, chosen)
    return State(
        step=state.step + 1,
        limits=state.limits,
        last=_pick(tokens, chosen).reshape(-1),
        live=_pick(grown, chosen),
        live_scores=jnp.where(done, -jnp.inf, live_scores),
        finished=finished,
        cache=_follow(cache, parents, batch_axis) if settings.beams > 1 else cache,
    )


def _best_tokens(
    logits: Float[Array, "N V"], must_end: Bool[Array, "N"], settings: BeamSettings
) -> tuple[Float[Array, "N W"], Int[Array, "N W"]]:
    """Of each hypothesis the best next tokens: log-probabilities, ids.

    No more than 2 * beams of one hypothesis can be among a row's best 2 * beams, so this cut is
    exact; it leaves little to sort across the beams and to normalise.
    """
    size = logits.shape[-1]
    width = min(2 * settings.beams, size) if settings.beams > 1 else 1
    logits = logits.astype(jnp.float32)
    total = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    ids = jnp.arange(size)
    allowed = jnp.where(must_end[:, None], ids == settings.eos, ids != PAD)
    best, tokens = jax.lax.top_k(jnp.where(allowed, logits, -jnp.inf), width)
    return jnp.minimum(best - total, 0.0), tokens  # rounding must not lift it above 0


def _best_continuations(
    live_scores: Float[Array, "B K"], logprobs: Float[Array, "N W"], tokens: Int[Array, "N W"]
) -> tuple[Float[Array, "B C"], Int[Array, "B C"], Int[Array, "B C"]]:
    """Of each row the C = 2 * beams best (greedy: 1): log-probabilities, parent beams, tokens."""
    batch, beams = live_scores.shape
    width = logprobs.shape[-1]
    scores = live_scores[..., None] + logprobs.reshape(batch, beams, width)
    count = 2 * beams if beams > 1 else 1
    scores, flat = jax.lax.top_k(scores.reshape(batch, -1), count)
    return scores, flat // width, _pick(tokens.reshape(batch, -1), flat)


def _best_finished(old: Hypotheses, new: Hypotheses) -> Hypotheses:
    """The best of both; of equal ones the old."""
    scores = jnp.concatenate([old.scores, new.scores], axis=1)
    scores, kept = jax.lax.top_k(scores, old.scores.shape[1])
    tokens = _pick(jnp.concatenate([old.tokens, new.tokens], axis=1), kept)
    return Hypotheses(jnp.where(scores[..., None] > -jnp.inf, tokens, PAD), scores)


def _pick(rows: Array, chosen: Int[Array, "B C"]) -> Array:
    """rows[b, chosen[b, c]] for all b and c."""
    return jnp.take_along_axis(rows, chosen.reshape(*chosen.shape, *[1] * (rows.ndim - 2)), axis=1)


def _follow(cache: Cache, parents: Int[Array, "B K"], batch_axis: int) -> Cache:
    """The cache with each hypothesis' rows those of its parent: one gather per leaf."""
    batch, beams = parents.shape
    rows = (jnp.arange(batch)[:, None] * beams + parents).reshape(-1)
    at = (slice(None),) * batch_axis + (rows,)

    def follow(leaf: Array) -> Array:
        return leaf if leaf.ndim < 2 else leaf.at[at].get(mode="promise_in_bounds")

    return jax.tree.map(follow, cache)
