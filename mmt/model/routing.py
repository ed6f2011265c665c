"""The routers of GShard and Switch: which experts take which tokens, and with what weight.

A router is a pure function from logits to one `Routing`, which all ways of `dispatch` follow alike.
Nothing here touches a token's vector or an expert's weight.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

MEASURES = ("moe_aux_loss", "moe_z_loss", "moe_dropped", "moe_load_entropy")


class Routing(NamedTuple):
    """A router's decision for G groups of S tokens with k choices each, and what it measured.

    expert: the chosen experts. slot: the place in the expert's buffer of its group, below
    `capacity` wherever `kept`. gate: the weight of the expert's output. kept: False where
    the choice is refused (no room, dropped at random, or padding).
    measures: scalars, MEASURES. experts, capacity: static sizes of the buffers [E G C D].
    """

    expert: Int[Array, "G S k"]
    slot: Int[Array, "G S k"]
    gate: Float[Array, "G S k"]
    kept: Bool[Array, "G S k"]
    measures: dict[str, Array]
    experts: int
    capacity: int


# router(logits [G S E], real [G S], capacity_factor=..., uniform=[G S]) -> Routing, as below.
# An expert has room for `capacity_factor` times its fair share of a group; with a factor of E for
# all. `uniform` is noise from [0, 1) for choices made at random; 0 makes them all.
Router = Callable[..., Routing]


def gshard_top2(
    logits: Float[Array, "G S E"],
    real: Bool[Array, "G S"],
    *,
    capacity_factor: float,
    uniform: Float[Array, "G S"],
) -> Routing:
    """GShard (Lepikhin et al. 2020), Algorithm 1: two experts per token, C = 2S/E x factor.

    The gates of both are renormalised to sum 1 first; the second is then taken with probability
    min(1, 2 g2). All first choices are placed before any second one, and counters advance on
    refused slots.
    """
    gates, lse = _softmax(logits)
    first = _argmax(logits)
    is_first = _is(first, logits)
    second = _argmax(jnp.where(is_first, -jnp.inf, logits))
    is_second = _is(second, logits) & ~is_first  # of one expert, none
    gate = jnp.stack([jnp.sum(gates, -1, where=mask) for mask in (is_first, is_second)], axis=-1)
    gate = gate / jnp.sum(gate, axis=-1, keepdims=True)
    wanted = jnp.stack([real, real & (2.0 * gate[..., 1] > uniform)], axis=-1)
    expert = jnp.stack([first, second], axis=-1)
    return _place(gates, lse, real, Choice(expert, gate, wanted), capacity_factor)


def switch_top1(
    logits: Float[Array, "G S E"],
    real: Bool[Array, "G S"],
    *,
    capacity_factor: float,
    uniform: Float[Array, "G S"],
) -> Routing:
    """Switch (Fedus et al. 2021): one expert per token, weighted by its probability; C = S/E x
    factor, 1.25 in the paper's training. Its exploration is jitter on the router's input.
    """
    del uniform
    gates, lse = _softmax(logits)
    expert = _argmax(logits)
    gate = jnp.sum(gates, axis=-1, where=_is(expert, logits))
    choice = Choice(expert[..., None], gate[..., None], real[..., None])
    return _place(gates, lse, real, choice, capacity_factor)


def rank(
    expert: Int[Array, "G M"], counted: Bool[Array, "G M"], experts: int
) -> tuple[Int[Array, "G M"], Int[Array, "G E"]]:
    """How many counted choices of the same expert come before each counted one; and in all.

    By sorting: a running sum over one-hots costs thirty times as much with 512 experts on CPU.
    """
    choices = expert.shape[1]
    if choices * (experts + 1) >= 2**31:
        raise ValueError(f"{choices} choices of {experts} experts in one group; allowed: below "
                         f"2^31 / {experts + 1}; smaller batches or groups")  # fmt: skip

    def of_group(expert: Array, counted: Array) -> tuple[Array, Array]:
        keys = jnp.where(counted, expert, experts) * choices + jnp.arange(choices)
        keys = jnp.sort(keys)  # by expert, then place; the uncounted last
        bounds = jnp.searchsorted(keys, jnp.arange(experts + 1) * choices)
        starts = bounds.at[keys // choices].get(mode="clip")
        before = (
            jnp.zeros_like(expert)
            .at[keys % choices]
            .set(jnp.arange(choices) - starts, unique_indices=True)
        )
        return before, jnp.diff(bounds)

    return jax.vmap(of_group)(expert, counted)


class Choice(NamedTuple):
    """What a router wants, before capacity."""

    expert: Int[Array, "G S k"]
    gate: Float[Array, "G S k"]
    wanted: Bool[Array, "G S k"]


def _place(
    gates: Array, lse: Array, real: Array, choice: Choice, capacity_factor: float
) -> Routing:
    """Slots in order of choice, then token; kept where wanted and below capacity."""
    groups, tokens, experts = gates.shape
    choices = choice.expert.shape[-1]
    capacity = min(tokens, max(1, math.ceil(choices * tokens * capacity_factor / experts)))
    in_order = jnp.swapaxes(choice.expert, 1, 2).reshape(groups, -1)  # [G k*S]
    before, _ = rank(in_order, jnp.tile(real, (1, choices)), experts)
    slot = jnp.swapaxes(before.reshape(groups, choices, tokens), 1, 2)
    kept = choice.wanted & (slot < capacity)
    measures = _measures(gates, lse, real, choice.expert[..., 0], kept)
    return Routing(choice.expert, slot, choice.gate, kept, measures, experts, capacity)


def _measures(gates: Array, lse: Array, real: Array, first: Array, kept: Array) -> dict[str, Array]:
    """MEASURES over the real tokens; a group weighs as many as it has."""
    experts, weight = gates.shape[-1], real.astype(float)
    total = jnp.maximum(jnp.sum(weight), 1.0)
    in_group = jnp.maximum(jnp.sum(weight, axis=1, keepdims=True), 1.0)
    load = jax.vmap(lambda e, w: jnp.zeros(experts).at[e].add(w))(first, weight)
    share = jnp.sum(gates * weight[..., None], axis=1)
    spread = jnp.sum(load, axis=0) / total
    entropy = -jnp.sum(jax.scipy.special.xlogy(spread, spread)) / math.log(max(experts, 2))
    left = jnp.sum(real & ~jnp.any(kept, axis=-1)) / total
    z = jnp.sum(jnp.square(lse) * weight) / total
    values = (jnp.sum(load * share / in_group) * experts / total, z, left, entropy)
    return dict(zip(MEASURES, values, strict=True))


def _softmax(logits: Array) -> tuple[Array, Array]:
    """Probabilities [G S E] and the logarithm of the sum of exponentials [G S], by one `exp`."""
    largest = jax.lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))
    powers = jnp.exp(logits - largest)
    total = jnp.sum(powers, axis=-1, keepdims=True)
    return powers / total, (jnp.log(total) + largest)[..., 0]


def _argmax(x: Array) -> Array:
    """`jnp.argmax` over the last axis by two plain reductions: a quarter of its time on CPU."""
    largest = x == jnp.max(x, axis=-1, keepdims=True)
    return jnp.min(jnp.where(largest, jnp.arange(x.shape[-1]), x.shape[-1]), axis=-1)


def _is(expert: Array, x: Array) -> Array:
    """The mask of the chosen expert, [G S] -> [G S E]."""
    return expert[..., None] == jnp.arange(x.shape[-1])
