"""Beam search over any step function, in a jit-able `lax.while_loop`; greedy is one beam.

It knows no model: it sees tokens, logits and a cache whose rows it reorders. With a temperature the
one beam is drawn, by `sampling`. It keeps no text: `tiles` makes rows of sentences.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32

from mmt.decoding import sampling

# A pytree. Leaves of rank 2 or more hold a row per hypothesis; others (a step counter) are global.
Cache = Any
StepFn = Callable[[Int[Array, "N"], Cache], tuple[Float[Array, "N V"], Cache]]

PENALTIES = ("gnmt", "length")
RULES = ("t5x", "hf")


@dataclass(frozen=True)
class BeamSettings:
    """How to search. Hashable, so that it can be a static argument of a jitted function.

    max_length: tokens of the longest hypothesis, its end token included.
    beams: live hypotheses per row; 1 is greedy search.
    alpha: exponent of the length penalty; 0 for none.
    nbest: hypotheses returned per row, at most `beams`.
    start: the token that stands for the one before the first.
    eos: the token that ends a hypothesis.
    pad: the token that fills up; never produced.
    penalty: 'gnmt' or 'length', see `length_penalty`.
    rules: whose search. 't5x' (and Flax): any of the best 2 * beams continuations may end, and one
      that reaches its row's maximum length must end there and pays for its end token. 'hf' (Hugging
      Face's `generate` with early_stopping='never'): only one of the best `beams` may end, and at
      the maximum length hypotheses count as they are, without an end token.
    temperature: None searches; a number draws each token (`sampling.keep_likely` with top_k and
      top_p), with one beam.
    no_repeat_ngram: no n-gram of so many tokens comes twice; 0 for any. The start token counts.
    repetition_penalty: see `sampling.penalise`; 1 for none.
    token_scores: whether hypotheses keep their tokens' scores, which costs some time.
    """

    max_length: int
    beams: int = 4
    alpha: float = 0.8
    nbest: int = 1
    start: int = 0
    eos: int = 1
    pad: int = 0
    penalty: str = "gnmt"
    rules: str = "t5x"
    temperature: float | None = None
    top_k: int = 0
    top_p: float = 1.0
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    token_scores: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.beams <= 1000:
            raise ValueError(f"beam size {self.beams}; allowed: 1 (greedy) to 1000")
        if not 1 <= self.nbest <= self.beams:
            raise ValueError(
                f"{self.nbest}-best of beam size {self.beams}; allowed: 1 to {self.beams}"
            )
        if not 0 <= self.alpha < float("inf"):
            raise ValueError(f"length penalty alpha {self.alpha}; allowed: 0 or more")
        if self.max_length < 1:
            raise ValueError(f"maximum length {self.max_length}; allowed: 1 or more")
        for name, allowed in (("penalty", PENALTIES), ("rules", RULES)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} {getattr(self, name)!r}; allowed: {', '.join(allowed)}")
        if self.no_repeat_ngram < 0:
            raise ValueError(f"no_repeat_ngram {self.no_repeat_ngram}; allowed: 0 (off) or more")
        if not 0 < self.repetition_penalty < float("inf"):
            raise ValueError(f"repetition_penalty {self.repetition_penalty}; allowed: above 0")
        self._check_sampling()

    def _check_sampling(self) -> None:
        if self.top_k < 0:
            raise ValueError(f"top_k {self.top_k}; allowed: 0 (all) or more")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p {self.top_p}; allowed: 0 < top_p <= 1")
        if self.temperature is None:
            if self.top_k or self.top_p < 1:
                raise ValueError("top_k and top_p are for sampling; set a temperature, 1.0 say")
        elif not 0 < self.temperature < float("inf"):
            raise ValueError(
                f"temperature {self.temperature}; allowed: above 0 (beam 1 without one is greedy)"
            )
        elif self.beams > 1:
            raise ValueError(
                f"temperature {self.temperature} draws one translation a line; beam must be 1, "
                f"not {self.beams}, and nbest 1"
            )


class Rows(NamedTuple):
    """What is asked of each row; None where nothing is."""

    max_lengths: Int[Array, "B"]  # with the end token; a row of 0 has no hypothesis
    min_lengths: Int[Array, "B"] | None = None  # likewise
    prefix: Int[Array, "B P"] | None = None  # what hypotheses begin with, shorter than max; then -1
    noise: UInt32[Array, "B 2"] | None = None  # random keys, for sampling


class Hypotheses(NamedTuple):
    """Best first. After its end token a hypothesis is filled with the pad token, its scores with 0.

    A slot that no hypothesis is left for (the vocabulary is tiny, or the row's maximum length 0)
    has score -inf, only the pad token, and only 0.
    """

    tokens: Int[Array, "B beams T"]
    scores: Float[Array, "B beams"]  # sum of the token scores / length_penalty(length)
    # Log-probabilities, after any repetition penalty; None where the settings do not keep them.
    token_scores: Float[Array, "B beams T"] | None


class State(NamedTuple):
    """A search under way. A row is done when it has no live hypothesis, that is, all are -inf."""

    step: Int[Array, ""]
    rows: Rows
    last: Int[Array, "N"]  # the token each live hypothesis ends in
    live: Hypotheses  # best first; the scores are sums, without a length penalty
    finished: Hypotheses
    cache: Cache


def beam_search(
    step_fn: StepFn, cache: Cache, *, rows: Rows, settings: BeamSettings, batch_axis: int = 1
) -> Hypotheses:
    """The `settings.nbest` best hypotheses that `settings.beams` live ones lead to, for each row.

    `step_fn(tokens, cache) -> (logits, cache)` is given the last token of each of the B * beams
    hypotheses, those of a row adjacent. In `cache`, leaves of rank 2 or more have these rows at
    `batch_axis`; they follow their hypotheses from step to step.

    Each step takes the best 2 * beams continuations: of those that end, the best join the finished
    ones, and the best `beams` of the others live on. One beam takes just the best continuation.
    A row is done when none of its live hypotheses can get a better score than all of the `nbest`
    finished, and then stays as it is: a row's result does not depend on the others.

    The pad token is never produced, though it keeps the probability that the model gives it, as all
    do that an option rules out. A forced prefix counts as any tokens do, in score and length. Where
    n-grams and minimum length leave no token at all, a hypothesis ends.

    >>> logits = jnp.log(jnp.array([0.0, 0.4, 0.6]))  # pad, end, a word; whatever came before
    >>> found = beam_search(
    ...     lambda tokens, cache: (jnp.tile(logits, (len(tokens), 1)), cache), (),
    ...     rows=Rows(jnp.array([3])), settings=BeamSettings(3, beams=2, alpha=0.0, nbest=2))
    >>> found.tokens[0].tolist(), [f"{p:.2f}" for p in jnp.exp(found.scores[0])]
    ([[1, 0, 0], [2, 1, 0]], ['0.40', '0.24'])
    """
    state = start(cache, rows=rows, settings=settings)
    return extend(step_fn, state, settings=settings, batch_axis=batch_axis).finished


def start(cache: Cache, *, rows: Rows, settings: BeamSettings) -> State:
    """The search before its first step, for a caller who searches in parts with `extend`."""
    limits = jnp.minimum(rows.max_lengths, settings.max_length)
    batch, beams = limits.shape[0], settings.beams
    first = (jnp.arange(beams) == 0) & (limits > 0)[:, None]  # the other beams would be its copies
    return State(
        step=jnp.int32(0),
        rows=rows._replace(max_lengths=limits),
        last=jnp.full((batch * beams,), settings.start, jnp.int32),
        live=_empty(batch, beams, settings)._replace(scores=jnp.where(first, 0.0, -jnp.inf)),
        finished=_empty(batch, settings.nbest, settings),
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
    return jnp.any(state.live.scores > -jnp.inf)


def length_penalty(length: Any, settings: BeamSettings) -> Any:
    """What a score is divided by; the end token counts.

    'gnmt': ((5 + length) / 6)^alpha, Wu et al. 2016, equation 14. 'length': length^alpha.
    """
    base = (5.0 + length) / 6.0 if settings.penalty == "gnmt" else 1.0 * length
    return base**settings.alpha


def _empty(batch: int, beams: int, settings: BeamSettings) -> Hypotheses:
    shape = (batch, beams, settings.max_length)
    return Hypotheses(
        tokens=jnp.full(shape, settings.pad, jnp.int32),
        scores=jnp.full(shape[:2], -jnp.inf),
        token_scores=jnp.zeros(shape) if settings.token_scores else None,
    )


def _step(step_fn: StepFn, state: State, settings: BeamSettings, batch_axis: int) -> State:
    logits, cache = step_fn(state.last, state.cache)
    logprobs, tokens = _best_tokens(logits, state, settings)
    grown, parents, tokens = _best_continuations(state, logprobs, tokens, settings)

    limits = state.rows.max_lengths[:, None]
    ended = counted = tokens == settings.eos
    if settings.rules == "hf":
        ended = ended | (state.step + 1 >= limits)
        counted = ended & (jnp.arange(ended.shape[1]) < settings.beams)
    scores = grown.scores / length_penalty(state.step + 1, settings)
    scores = jnp.where(counted, scores, -jnp.inf)
    finished = _best_finished(state.finished, grown._replace(scores=scores), settings)
    live_scores, chosen = jax.lax.top_k(jnp.where(ended, -jnp.inf, grown.scores), settings.beams)
    # A log-probability is at most 0 and a sum of them only falls, so the best score that is left to
    # hope for is the present one kept up to the row's limit, where it is divided by the most.
    hope = live_scores[:, :1] / length_penalty(limits, settings)
    done = hope <= finished.scores[:, -1:]
    live = jax.tree.map(lambda leaf: _pick(leaf, chosen), grown)
    return State(
        step=state.step + 1,
        rows=state.rows,
        last=_pick(tokens, chosen).reshape(-1),
        live=live._replace(scores=jnp.where(done, -jnp.inf, live_scores)),
        finished=finished,
        cache=_follow(cache, _pick(parents, chosen), batch_axis) if settings.beams > 1 else cache,
    )


def _best_tokens(
    logits: Float[Array, "N V"], state: State, settings: BeamSettings
) -> tuple[Float[Array, "N W"], Int[Array, "N W"]]:
    """Of each hypothesis the best next tokens, or one that is drawn: log-probabilities, ids.

    No more than 2 * beams of one hypothesis can be among a row's best 2 * beams, so this cut is
    exact; it leaves little to sort across the beams and to normalise.
    """
    size = logits.shape[-1]
    logits = logits.astype(jnp.float32)
    total = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    if settings.repetition_penalty != 1:
        history = _history(state, settings)
        logits = sampling.penalise(logits - total, *history, settings.repetition_penalty)
        total = jnp.zeros_like(total)
    choosable = jnp.where(_allowed(state, size, settings), logits, -jnp.inf)
    if settings.temperature is None:
        width = min(2 * settings.beams, size) if settings.beams > 1 else 1
        best, tokens = jax.lax.top_k(choosable, width)
    else:
        assert state.rows.noise is not None, "sampling draws by rows.noise"
        choosable = sampling.keep_likely(
            choosable,
            temperature=settings.temperature, top_k=settings.top_k, top_p=settings.top_p,
        )  # fmt: skip
        tokens = sampling.draw(choosable, state.rows.noise, state.step)[:, None]
        best = jnp.take_along_axis(logits, tokens, axis=-1)
    return jnp.minimum(best - total, 0.0), tokens  # rounding must not lift it above 0


def _allowed(state: State, size: int, settings: BeamSettings) -> Bool[Array, "N V"]:
    """Which tokens may come next."""
    rows, ids, now = state.rows, jnp.arange(size), state.step + 1

    def each(row: Array) -> Array:  # [B] -> [N 1]
        return jnp.repeat(row, settings.beams)[:, None]

    allowed = jnp.broadcast_to(ids != settings.pad, (len(state.last), size))
    if rows.min_lengths is not None:
        allowed &= ~(each(now < rows.min_lengths) & (ids == settings.eos))
    if settings.no_repeat_ngram:
        ngram = settings.no_repeat_ngram
        history = _history(state, settings)
        allowed &= ~sampling.repeats(*history, ngram=ngram, vocabulary=size)
    if rows.min_lengths is not None or settings.no_repeat_ngram:
        allowed |= ~jnp.any(allowed, axis=-1, keepdims=True) & (ids == settings.eos)
    if settings.rules == "t5x":
        allowed = jnp.where(each(now >= rows.max_lengths), ids == settings.eos, allowed)
    if rows.prefix is not None:
        prefix = jnp.pad(rows.prefix, ((0, 0), (0, 1)), constant_values=-1)
        forced = each(prefix[:, jnp.minimum(state.step, prefix.shape[1] - 1)])
        allowed = jnp.where(forced < 0, allowed, ids == forced)
    return allowed


def _history(state: State, settings: BeamSettings) -> tuple[Int[Array, "N H"], Int[Array, ""]]:
    """The start token and those of each live hypothesis, and how many of them there are so far."""
    live = state.live.tokens.reshape(len(state.last), -1)
    return jnp.pad(live, ((0, 0), (1, 0)), constant_values=settings.start), state.step + 1


def _best_continuations(
    state: State,
    logprobs: Float[Array, "N W"],
    tokens: Int[Array, "N W"],
    settings: BeamSettings,
) -> tuple[Hypotheses, Int[Array, "B C"], Int[Array, "B C"]]:
    """Of each row the C = 2 * beams best (greedy: 1), their parent beams and their last tokens."""
    batch, beams = state.live.scores.shape
    width = logprobs.shape[-1]
    scores = state.live.scores[..., None] + logprobs.reshape(batch, beams, width)
    count = 2 * beams if beams > 1 else 1
    scores, flat = jax.lax.top_k(scores.reshape(batch, -1), count)
    parents, tokens = flat // width, _pick(tokens.reshape(batch, -1), flat)
    token_scores = state.live.token_scores
    if token_scores is not None:
        last = _pick(logprobs.reshape(batch, -1), flat)
        token_scores = _pick(token_scores, parents).at[:, :, state.step].set(last)
    so_far = _pick(state.live.tokens, parents).at[:, :, state.step].set(tokens)
    return Hypotheses(so_far, scores, token_scores), parents, tokens


def _best_finished(old: Hypotheses, new: Hypotheses, settings: BeamSettings) -> Hypotheses:
    """The best of both; of equal ones the old."""
    both = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=1), old, new)
    scores, kept = jax.lax.top_k(both.scores, settings.nbest)
    batch, nbest = scores.shape

    def best(leaf: Array, empty: Array) -> Array:
        there = (scores > -jnp.inf).reshape(batch, nbest, *[1] * (leaf.ndim - 2))
        return jnp.where(there, _pick(leaf, kept), empty)

    return jax.tree.map(best, both, _empty(batch, nbest, settings))


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
