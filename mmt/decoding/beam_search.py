"""Beam search over any step function, as a jit-able `lax.while_loop`.

One beam is greedy search; with a temperature, one beam is sampled (`mmt.decoding.sampling`). The
search knows no model and no text: it sees tokens, logits and a cache whose rows it reorders.
`mmt.decoding.bucketing` makes batches of sentences. Shapes use the alphabet of `mmt.model`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32

from mmt.decoding import constraints, sampling
from mmt.decoding.constraints import Banks, Constraints
from mmt.decoding.settings import BeamSettings
from mmt.decoding.top_k import top_k

# A pytree that reorders itself (`beam_search`), or one whose leaves of rank 2 or more have one row
# per hypothesis; other leaves (a counter) are global.
Cache = Any
StepFn = Callable[[Int[Array, "N"], Cache], tuple[Float[Array, "N V"], Cache]]


class RowLimits(NamedTuple):
    """Constraints on the hypotheses of each row; None means no constraint.

    Attributes:
        max_lengths: maximum length, end token included; a row of 0 has no hypothesis.
        min_lengths: minimum length, end token included.
        prefix: forced first tokens, filled up with -1; shorter than the maximum length.
        noise: a random key per row, for sampling.
        constraints: phrases that each hypothesis must contain; they need two beams or more. The
            maximum length must leave room for them.
    """

    max_lengths: Int[Array, "B"]
    min_lengths: Int[Array, "B"] | None = None
    prefix: Int[Array, "B P"] | None = None
    noise: UInt32[Array, "B 2"] | None = None
    constraints: Constraints | None = None


class Hypotheses(NamedTuple):
    """Hypotheses of each row, best first.

    After its end token a hypothesis is filled up with the pad token, and its token scores with 0. A
    row may have fewer hypotheses than places (a tiny vocabulary, or a maximum length of 0): an
    empty place has score -inf, pad tokens and token scores of 0.

    Attributes:
        tokens: token ids, end token included.
        scores: sums of the token scores, divided by `length_penalty`.
        token_scores: log-probabilities after any repetition penalty; None unless the settings keep
            them.
    """

    tokens: Int[Array, "B beams T"]
    scores: Float[Array, "B beams"]
    token_scores: Float[Array, "B beams T"] | None


class State(NamedTuple):
    """State of a running search. A row is done when all its live scores are -inf.

    Attributes:
        step: tokens decoded so far.
        limits: constraints of each row.
        last: last token of each live hypothesis.
        live: live hypotheses; their scores are sums without a length penalty.
        finished: ended hypotheses, `BeamSettings.max_finished` per row, best first.
        cache: the step function's cache.
    """

    step: Int[Array, ""]
    limits: RowLimits
    last: Int[Array, "N"]
    live: Hypotheses
    finished: Hypotheses
    cache: Cache


def beam_search(
    step_fn: StepFn,
    cache: Cache,
    *,
    limits: RowLimits,
    settings: BeamSettings,
    batch_axis: int = 1,
) -> Hypotheses:
    """Returns the best `settings.nbest` hypotheses of each row.

    Each step takes the best 2 * beams continuations. Those that end compete with the finished
    hypotheses; the best `beams` of the others stay live. One beam takes the best continuation only.
    A row is done when no live hypothesis can score better than its finished ones, or when that is
    unlikely (`settings.early_stopping`). A done row does not change, so its result does not depend
    on other rows.

    The pad token and tokens excluded by an option are never produced, but keep their share of the
    probability. A forced prefix counts in score and length as other tokens do. A hypothesis ends
    where the n-gram and minimum-length options leave no token.

    Args:
        step_fn: `step_fn(tokens, cache) -> (logits, cache)`, given the last token of each of the
            B * beams hypotheses; those of one row are adjacent.
        cache: a pytree with a method `reorder(parents)` [B beams], or leaves of rank 2 or more with
            these rows at `batch_axis`; rows then follow their hypotheses from step to step.
        limits: constraints of each row.
        settings: settings of the search.
        batch_axis: axis of the hypotheses in the cache.

    >>> logits = jnp.log(jnp.array([0.0, 0.4, 0.6]))  # pad, end, a word; whatever came before
    >>> best = beam_search(
    ...     lambda tokens, cache: (jnp.tile(logits, (len(tokens), 1)), cache), (),
    ...     limits=RowLimits(jnp.array([3])), settings=BeamSettings(3, beams=2, alpha=0.0, nbest=2))
    >>> best.tokens[0].tolist(), [f"{p:.2f}" for p in jnp.exp(best.scores[0])]
    ([[1, 0, 0], [2, 1, 0]], ['0.40', '0.24'])
    """
    state = start(cache, limits=limits, settings=settings)
    return best(extend(step_fn, state, settings=settings, batch_axis=batch_axis), settings)


def start(cache: Cache, *, limits: RowLimits, settings: BeamSettings) -> State:
    """Returns a search before its first step, to be continued by `extend`."""
    max_lengths = jnp.minimum(limits.max_lengths, settings.max_length)
    batch, beams = max_lengths.shape[0], settings.beams
    # Only the first beam starts: the others would be copies.
    first = (jnp.arange(beams) == 0) & (max_lengths > 0)[:, None]
    return State(
        step=jnp.int32(0),
        limits=limits._replace(max_lengths=max_lengths),
        last=jnp.full((batch * beams,), settings.start, jnp.int32),
        live=_empty(batch, beams, settings)._replace(scores=jnp.where(first, 0.0, -jnp.inf)),
        finished=_empty(batch, settings.max_finished, settings),
        cache=cache,
    )


def extend(
    step_fn: StepFn,
    state: State,
    *,
    settings: BeamSettings,
    max_step: Int[Array, ""] | int | None = None,
    fewest: Int[Array, ""] | int = 0,
    batch_axis: int = 1,
) -> State:
    """Continues a search until `max_step` steps are done in total, or until at most `fewest` rows
    are not done.

    Between two calls the caller may change the layout of the cache, for instance lengthen it, or
    `take` some of the rows.
    """
    steps = settings.max_length if max_step is None else max_step
    return jax.lax.while_loop(
        lambda state: (jnp.sum(live_rows(state)) > fewest) & (state.step < steps),
        lambda state: _step(step_fn, state, settings, batch_axis),
        state,
    )


def best(state: State, settings: BeamSettings) -> Hypotheses:
    """Returns the best `nbest` finished hypotheses of each row."""
    return jax.tree.map(lambda leaf: leaf[:, : settings.nbest], state.finished)


def live_rows(state: State) -> Bool[Array, "B"]:
    """Returns which rows are not done."""
    return jnp.any(state.live.scores > -jnp.inf, axis=1)


def take(states: Sequence[State], rows: Int[Array, "R"], *, settings: BeamSettings) -> State:
    """Returns a search of rows of several searches that have done the same number of steps.

    Rows are counted through the searches; -1 is an empty row. Caches have `take(rows, *others)`.
    """
    first = states[0]
    exists, rows = rows >= 0, jnp.maximum(rows, 0)

    def of_rows(*leaves: Array) -> Array:
        return jnp.concatenate(leaves)[rows]

    constraints = first.limits.constraints
    if parts := [part for state in states if (part := state.limits.constraints) is not None]:
        phrases, times = (of_rows(*leaves) for leaves in zip(*(p[:2] for p in parts), strict=True))
        constraints = parts[0]._replace(phrases=phrases, times=times)
    limits, live, finished = jax.tree.map(
        of_rows,
        *[(each.limits._replace(constraints=None), each.live, each.finished) for each in states],
    )
    return State(
        step=first.step,
        limits=limits._replace(constraints=constraints),
        last=of_rows(*(each.last.reshape(-1, settings.beams) for each in states)).reshape(-1),
        live=live._replace(scores=jnp.where(exists[:, None], live.scores, -jnp.inf)),
        finished=finished,
        cache=first.cache.take(rows, *(each.cache for each in states[1:])),
    )


def length_penalty(length: Any, settings: BeamSettings) -> Any:
    """Returns the divisor of a score; `length` includes the end token.

    'gnmt': ((5 + length) / 6)^alpha (Wu et al. 2016, equation 14). 'length': length^alpha.
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
    logprobs, tokens, banks = _best_tokens(logits, state, settings)
    grown, parents, tokens = _best_continuations(state, logprobs, tokens, banks, settings)

    max_lengths = state.limits.max_lengths[:, None]
    ended = counted = tokens == settings.eos
    if settings.search_style == "hf":
        ended = ended | (state.step + 1 >= max_lengths)
        counted = ended & (jnp.arange(ended.shape[1]) < settings.beams)
    scores = grown.scores / length_penalty(state.step + 1, settings)
    scores = jnp.where(counted, scores, -jnp.inf)
    finished = _best_finished(state.finished, grown._replace(scores=scores), settings)
    open_scores = jnp.where(ended, -jnp.inf, grown.scores)
    if banks is not None:  # `grown` is ordered by bank: the first open ones stay live
        open_scores = constraints.only_first(open_scores, settings.beams)
    live_scores, chosen = jax.lax.top_k(open_scores, settings.beams)
    # Log-probabilities are at most 0, so sums only fall. A live hypothesis' final score is at
    # most its present sum divided by the largest penalty, that of the row's maximum length.
    final_length = max_lengths if settings.early_stopping == "never" else state.step + 1
    bound = live_scores[:, :1] / length_penalty(final_length, settings)
    done = bound <= finished.scores[:, -1:]
    live = jax.tree.map(lambda leaf: _pick(leaf, chosen), grown)
    return State(
        step=state.step + 1,
        limits=state.limits,
        last=_pick(tokens, chosen).reshape(-1),
        live=live._replace(scores=jnp.where(done, -jnp.inf, live_scores)),
        finished=finished,
        cache=_reorder(cache, _pick(parents, chosen), batch_axis) if settings.beams > 1 else cache,
    )


def _best_tokens(
    logits: Float[Array, "N V"], state: State, settings: BeamSettings
) -> tuple[Float[Array, "N W"], Int[Array, "N W"], Banks | None]:
    """Returns log-probabilities and ids of the best next tokens, or a sampled one, per hypothesis.

    At most 2 * beams tokens of one hypothesis can be among its row's best 2 * beams, so this
    selection is exact. It leaves few candidates to normalise and to sort across the beams. With
    constraints, the tokens that they require are added, and the banks of all are returned.
    """
    size = logits.shape[-1]
    logits = logits.astype(jnp.float32)
    total = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    if settings.repetition_penalty != 1:
        history = _history(state, settings)
        logits = sampling.apply_repetition_penalty(
            logits - total, *history, settings.repetition_penalty
        )
        total = jnp.zeros_like(total)
    candidates = jnp.where(_allowed(state, size, settings), logits, -jnp.inf)
    banks = None
    if settings.temperature is None:
        width = min(2 * settings.beams, size) if settings.beams > 1 else 1
        best, tokens = top_k(candidates, width)
        if state.limits.constraints is not None:
            best, tokens, banks = _with_required(candidates, best, tokens, state, settings)
    else:
        assert state.limits.noise is not None, "sampling needs limits.noise"
        candidates = sampling.top_k_top_p_filter(
            candidates,
            temperature=settings.temperature, top_k=settings.top_k, top_p=settings.top_p,
        )  # fmt: skip
        tokens = sampling.sample(candidates, state.limits.noise, state.step)[:, None]
        best = jnp.take_along_axis(logits, tokens, axis=-1)
    return jnp.minimum(best - total, 0.0), tokens, banks  # rounding must not raise it above 0


def _with_required(
    logits: Float[Array, "N V"],
    best: Float[Array, "N W"],
    tokens: Int[Array, "N W"],
    state: State,
    settings: BeamSettings,
) -> tuple[Float[Array, "N Y"], Int[Array, "N Y"], Banks]:
    """Adds the tokens that constraints require to the best ones, and returns the banks of all.

    No hypothesis ends without its phrases.
    """
    phrases = state.limits.constraints
    assert phrases is not None and settings.beams > 1
    progress = constraints.progress(phrases, state.live.tokens, state.step)
    best, tokens = constraints.with_required(progress, logits, best, tokens)
    banks = constraints.banks(progress, tokens, phrases.starts)
    ends = tokens == settings.eos
    if settings.search_style == "hf":
        longest = jnp.repeat(state.limits.max_lengths, settings.beams)[:, None]
        ends |= state.step + 1 >= longest
    return jnp.where(ends & ~banks.complete, -jnp.inf, best), tokens, banks


def _allowed(state: State, size: int, settings: BeamSettings) -> Bool[Array, "N V"]:
    """Returns a mask of the tokens that may come next."""
    limits, ids, length = state.limits, jnp.arange(size), state.step + 1

    def per_hypothesis(row: Array) -> Array:  # [B] -> [N 1]
        return jnp.repeat(row, settings.beams)[:, None]

    allowed = jnp.broadcast_to(ids != settings.pad, (len(state.last), size))
    if limits.min_lengths is not None:
        allowed &= ~(per_hypothesis(length < limits.min_lengths) & (ids == settings.eos))
    if settings.no_repeat_ngram:
        ngram = settings.no_repeat_ngram
        history = _history(state, settings)
        allowed &= ~sampling.repeated_ngrams(*history, ngram=ngram, vocabulary=size)
    if limits.min_lengths is not None or settings.no_repeat_ngram:
        allowed |= ~jnp.any(allowed, axis=-1, keepdims=True) & (ids == settings.eos)
    if settings.search_style == "t5x":
        at_maximum = per_hypothesis(length >= limits.max_lengths)
        allowed = jnp.where(at_maximum, ids == settings.eos, allowed)
    if limits.prefix is not None:
        prefix = jnp.pad(limits.prefix, ((0, 0), (0, 1)), constant_values=-1)
        forced = per_hypothesis(prefix[:, jnp.minimum(state.step, prefix.shape[1] - 1)])
        allowed = jnp.where(forced < 0, allowed, ids == forced)
    return allowed


def _history(state: State, settings: BeamSettings) -> tuple[Int[Array, "N J"], Int[Array, ""]]:
    """Returns start token and tokens of each live hypothesis, and how many of them are set."""
    live = state.live.tokens.reshape(len(state.last), -1)
    return jnp.pad(live, ((0, 0), (1, 0)), constant_values=settings.start), state.step + 1


def _best_continuations(
    state: State,
    logprobs: Float[Array, "N W"],
    tokens: Int[Array, "N W"],
    banks: Banks | None,
    settings: BeamSettings,
) -> tuple[Hypotheses, Int[Array, "B X"], Int[Array, "B X"]]:
    """Returns each row's best X = 2 * beams (greedy: 1), their parent beams and last tokens."""
    batch, beams = state.live.scores.shape
    width = logprobs.shape[-1]
    scores = state.live.scores[..., None] + logprobs.reshape(batch, beams, width)
    count = 2 * beams if beams > 1 else 1
    scores = scores.reshape(batch, -1)
    if banks is None:
        scores, flat = jax.lax.top_k(scores, count)
    else:
        flat = constraints.best_by_bank(scores, banks.bank.reshape(batch, -1), count=count)
        scores = _pick(scores, flat)
    parents, tokens = flat // width, _pick(tokens.reshape(batch, -1), flat)
    token_scores = state.live.token_scores
    if token_scores is not None:
        last = _pick(logprobs.reshape(batch, -1), flat)
        token_scores = _pick(token_scores, parents).at[:, :, state.step].set(last)
    sequences = _pick(state.live.tokens, parents).at[:, :, state.step].set(tokens)
    return Hypotheses(sequences, scores, token_scores), parents, tokens


def _best_finished(old: Hypotheses, new: Hypotheses, settings: BeamSettings) -> Hypotheses:
    """Returns the best of both, as many as are kept; on equal scores the old ones."""
    merged = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=1), old, new)
    scores, chosen = jax.lax.top_k(merged.scores, settings.max_finished)
    batch, size = scores.shape

    def chosen_or_empty(leaf: Array, empty: Array) -> Array:
        exists = (scores > -jnp.inf).reshape(batch, size, *[1] * (leaf.ndim - 2))
        return jnp.where(exists, _pick(leaf, chosen), empty)

    return jax.tree.map(chosen_or_empty, merged, _empty(batch, size, settings))


def _pick(rows: Array, chosen: Int[Array, "B X"]) -> Array:
    """Returns rows[b, chosen[b, x]] for all b and x."""
    return jnp.take_along_axis(rows, chosen.reshape(*chosen.shape, *[1] * (rows.ndim - 2)), axis=1)


def _reorder(cache: Cache, parents: Int[Array, "B beams"], batch_axis: int) -> Cache:
    """Returns the cache with every hypothesis' row taken from its parent."""
    if hasattr(cache, "reorder"):
        return cache.reorder(parents)
    batch, beams = parents.shape
    rows = (jnp.arange(batch)[:, None] * beams + parents).reshape(-1)
    index = (slice(None),) * batch_axis + (rows,)

    def follow(leaf: Array) -> Array:
        return leaf if leaf.ndim < 2 else leaf.at[index].get(mode="promise_in_bounds")

    return jax.tree.map(follow, cache)
