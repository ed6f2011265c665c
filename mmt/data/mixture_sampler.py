"""Random orders with random access: of a mixture's components, and of a component's examples.

`MixtureSampler` turns rates into an order of components, and `permute` shuffles each of them.
`pipeline.py` turns their draws into examples.
"""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt64

GOLDEN = (math.sqrt(5) - 1) / 2
_SORTED = 64  # appearances per component that are sorted to find the first ones


class MixtureSampler:
    """Assigns a component to each draw of an endless mixture, with random access.

    Appearance j of component k is due at time (j + phase_k) / p_k, and the draws are the
    appearances in order of time. The phases are spread evenly (golden ratio), so rare components
    have their share from the start. Component k always appears in the first ceil(1/p_k) draws.

    >>> MixtureSampler([0.5, 0.25, 0.25]).at(np.arange(8))[0]
    array([1, 0, 0, 2, 1, 0, 0, 2], dtype=int32)
    """

    def __init__(self, probabilities: Sequence[float]):
        rates = np.asarray(probabilities, np.float64)
        if not rates.size or not (rates > 0).all():
            raise ValueError(f"a mixture needs positive rates, got {list(probabilities)[:10]}")
        self._order = np.argsort(-rates, kind="stable").astype(np.int32)
        self._rates = rates[self._order] / rates.sum()  # largest first: wins at equal times
        self._phases = _phases(self._rates)
        # About t draws precede time t, within one per component: less than a block away.
        self._span = max(4096, 4 * rates.size)
        self._block = functools.lru_cache(maxsize=256)(self._make_block)

    def at(self, draws: Int[np.ndarray, "n"]) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"]]:
        """Returns each draw's component (0, 1, ...), and how often it was drawn before."""
        components = np.empty(len(draws), np.int32)
        appearances = np.empty(len(draws), np.int64)
        candidates = np.unique(draws // self._span)[:, None] + np.arange(-1, 2)
        for number in np.unique(candidates[candidates >= 0]).tolist():
            block = self._block(number)
            offsets = draws - block.start
            inside = (offsets >= 0) & (offsets < len(block.components))
            components[inside] = block.components[offsets[inside]]
            appearances[inside] = block.appearances[offsets[inside]]
        return components, appearances

    def before(self, draw: int) -> Int[np.ndarray, "n"]:
        """Returns how often each component appears in the draws before `draw`."""
        nearest = draw // self._span
        for number in range(max(nearest - 1, 0), nearest + 2):
            block = self._block(number)
            if 0 <= (offset := draw - block.start) < len(block.components):
                counts = np.bincount(block.components[:offset], minlength=len(self._order))
                counts[self._order] += self._counts_before(number)
                return counts
        raise AssertionError(f"draw {draw} is in no block")

    def when(self, component: int, appearance: int) -> int:
        """Returns the draw of a component's appearance (0, 1, ...).

        >>> MixtureSampler([0.5, 0.25, 0.25]).when(2, 1)
        7
        """
        rank = np.flatnonzero(self._order == component)
        time = _due_times(np.array([appearance]), self._rates[rank], self._phases[rank])[0]
        nearest = int(time) // self._span  # rounding may shift it by one block
        for number in range(max(nearest - 1, 0), nearest + 2):
            block = self._block(number)
            is_draw = (block.components == component) & (block.appearances == appearance)
            if is_draw.any():
                return block.start + int(is_draw.argmax())
        raise AssertionError(f"appearance {appearance} of {component} is in no block")

    def _make_block(self, number: int) -> "_Block":
        counts_before = self._counts_before(number)
        counts = self._counts_before(number + 1) - counts_before
        ranks = np.repeat(np.arange(len(counts)), counts)
        appearances = _ranges(counts) + np.repeat(counts_before, counts)
        due = _due_times(appearances, self._rates[ranks], self._phases[ranks])
        order = np.argsort(due, kind="stable")
        return _Block(int(counts_before.sum()), self._order[ranks[order]], appearances[order])

    def _counts_before(self, number: int) -> Int[np.ndarray, "n"]:
        """Returns how often each component, by decreasing rate, is due before a block."""
        return _count_due(float(number * self._span), self._rates, self._phases)


class _Block(NamedTuple):  # the draws that are due in a block of time
    start: int
    components: Int[np.ndarray, "n"]
    appearances: Int[np.ndarray, "n"]


def permute(
    index: Int[np.ndarray, "n"], size: Int[np.ndarray, "n"], key: UInt64[np.ndarray, "n"]
) -> Int[np.ndarray, "n"]:
    """Returns the image of each `index` in a random permutation of 0 ... size - 1, chosen by `key`.

    A Feistel network over the digits of the index in a base near sqrt(size), applied again while
    the result is too large (cycle walking; Black and Rogaway 2002): no memory at any size.
    """
    rows = np.ceil(np.sqrt(size)).astype(np.uint64)
    columns = -(-size // rows.astype(np.int64)).astype(np.uint64)
    images = index.astype(np.uint64)
    pending = np.arange(len(index))
    while pending.size:
        a, b, k = rows[pending], columns[pending], key[pending]
        left, right = np.divmod(images[pending], b)
        for feistel_round in range(4):
            left = (left + _hash(right ^ k, 2 * feistel_round)) % a
            right = (right + _hash(left ^ k, 2 * feistel_round + 1)) % b
        images[pending] = left * b + right
        pending = pending[images[pending] >= size[pending].astype(np.uint64)]
    return images.astype(np.int64)


def uniform(value: UInt64[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Returns a pseudo-random number in [0, 1) for each value."""
    return _hash(value, 9) / 2.0**32


def _hash(value: UInt64[np.ndarray, "*shape"], salt: int) -> UInt64[np.ndarray, "*shape"]:
    """Returns the finaliser of splitmix64 (Steele et al. 2014), cut to 32 bits so that sums fit."""
    value = (value ^ np.uint64(salt << 56)) * np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ value >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ value >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return value >> np.uint64(32)


def _due_times(
    appearance: Int[np.ndarray, "n"], rate: Float[np.ndarray, "n"], phase: Float[np.ndarray, "n"]
) -> Float[np.ndarray, "n"]:
    return (appearance + phase) / rate


def _count_due(
    time: float, rate: Float[np.ndarray, "n"], phase: Float[np.ndarray, "n"]
) -> Int[np.ndarray, "n"]:
    """Counts the appearances of each component that are due before `time`, rounded as `_due_times`.
    """
    count = np.maximum(np.ceil(time * rate - phase), 0).astype(np.int64)
    count -= (count > 0) & (_due_times(count - 1, rate, phase) >= time)
    return count + (_due_times(count, rate, phase) < time)


def _phases(rates: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Returns a phase in [0, 1) for each component (largest first).

    With these phases each component appears in the first ceil(1/p) draws. A phase that breaks this
    bound becomes 0. Then only larger components with phase 0 precede the component, fewer than 1/p.
    So the bound holds and the loop ends.
    """
    phase = np.modf(np.arange(1, len(rates) + 1) * GOLDEN)[0]
    draws = np.ceil(1 / rates - 1e-9)
    while True:
        late = (_first_draws(rates, phase) >= draws) & (phase > 0)
        if not late.any():
            return phase
        phase[late] = 0.0


def _first_draws(
    rates: Float[np.ndarray, "n"], phase: Float[np.ndarray, "n"]
) -> Int[np.ndarray, "n"]:
    """Returns the draw of each component's first appearance; at equal times the larger is first."""
    first_times = _due_times(np.zeros(len(rates), np.int64), rates, phase)
    # Appearances up to `end` are sorted: counting them per component takes quadratic time.
    end = min(float(first_times.max()), float(_SORTED * len(rates)))
    counts = _count_due(end, rates, phase)
    components = np.repeat(np.arange(len(counts)), counts)
    due = np.sort(_due_times(_ranges(counts), rates[components], phase[components]))
    draws = due.searchsorted(first_times)
    for component in np.flatnonzero(first_times > end).tolist():
        draws[component] = _count_due(float(first_times[component]), rates, phase).sum()
    order = np.argsort(first_times, kind="stable")
    ordered = first_times[order]
    draws[order] += np.arange(len(ordered)) - ordered.searchsorted(ordered)
    return draws


def _ranges(lengths: Int[np.ndarray, "n"]) -> Int[np.ndarray, "total"]:
    """Returns the concatenation of 0 ... lengths[0] - 1, 0 ... lengths[1] - 1 and so on."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
