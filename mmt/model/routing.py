"""The routers of GShard and Switch: which experts process which tokens, and with which weight.

A router is a pure function from logits to a `Routing`, which every dispatcher of
`mmt.model.dispatch` applies. Routers see neither token vectors nor expert weights.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

MEASURES = ("moe_aux_loss", "moe_z_loss", "moe_dropped", "moe_load_entropy")


class Routing(NamedTuple):
    """A router's decision for G groups of S tokens with k choices each, and its measures.

    Attributes:
        expert: the chosen experts.
        position_in_expert: position in the expert's buffer of the group; below `capacity` where
            `dispatched`.
        gate: weight of the expert's output.
        dispatched: False where the choice is dropped: no capacity, dropped at random, or padding.
        measures: the scalars MEASURES.
        experts, capacity: static sizes of the buffers [E G C D].
    """

    expert: Int[Array, "G S k"]
    position_in_expert: Int[Array, "G S k"]
    gate: Float[Array, "G S k"]
    dispatched: Bool[Array, "G S k"]
    measures: dict[str, Array]
    experts: int
    capacity: int


# router(logits [G S E], padding_mask [G S], capacity_factor=..., uniform=[G S]) -> Routing.
# `padding_mask` is True for tokens. An expert's capacity is `capacity_factor` times its fair share
# of a group; a factor of E fits all tokens. `uniform` is noise from [0, 1) for random choices; 0
# accepts all of them. `bias` is given where `MoeConfig.balance_rate` is set. It is added to the
# probabilities for the choice of experts, but not to the gates.
Router = Callable[..., Routing]


def gshard_top2(
    logits: Float[Array, "G S E"],
    padding_mask: Bool[Array, "G S"],
    *,
    capacity_factor: float,
    uniform: Float[Array, "G S"],
    bias: Float[Array, "E"] | None = None,
) -> Routing:
    """GShard (Lepikhin et al. 2020), Algorithm 1: two experts per token, C = 2S/E x factor.

    Both gates are first renormalised to sum to 1. The second expert is then used with probability
    min(1, 2 g2). All first choices get positions before any second one, and dropped choices occupy
    positions too.
    """
    gates, lse = _softmax(logits)
    scores = logits if bias is None else gates + bias
    first = _argmax(scores)
    is_first = _one_hot_mask(first, logits)
    second = _argmax(jnp.where(is_first, -jnp.inf, scores))
    is_second = _one_hot_mask(second, logits) & ~is_first  # nothing if there is one expert
    gate = jnp.stack([jnp.sum(gates, -1, where=mask) for mask in (is_first, is_second)], axis=-1)
    total = jnp.sum(gate, axis=-1, keepdims=True)
    gate = gate / jnp.maximum(total, 1e-9)  # a bias may choose gates of 0
    use_second = padding_mask & (2.0 * gate[..., 1] > uniform)
    chosen = jnp.stack([padding_mask, use_second], axis=-1)
    expert = jnp.stack([first, second], axis=-1)
    return assign_slots(gates, lse, padding_mask, Choice(expert, gate, chosen), capacity_factor)


def switch_top1(
    logits: Float[Array, "G S E"],
    padding_mask: Bool[Array, "G S"],
    *,
    capacity_factor: float,
    uniform: Float[Array, "G S"],
    bias: Float[Array, "E"] | None = None,
) -> Routing:
    """Switch (Fedus et al. 2021): one expert per token, weighted by its probability.

    C = S/E x factor, which is 1.25 in the paper's training. Exploration is jitter on the router's
    input, which `MoeMlp` applies.
    """
    del uniform
    gates, lse = _softmax(logits)
    expert = _argmax(logits if bias is None else gates + bias)
    gate = jnp.sum(gates, axis=-1, where=_one_hot_mask(expert, logits))
    choice = Choice(expert[..., None], gate[..., None], padding_mask[..., None])
    return assign_slots(gates, lse, padding_mask, choice, capacity_factor)


def rank(
    expert: Int[Array, "G M"], counted: Bool[Array, "G M"], experts: int
) -> tuple[Int[Array, "G M"], Int[Array, "G E"]]:
    """Returns the number of earlier choices of the same expert, and the choices of each expert.

    Only `counted` choices count. It sorts: with 512 experts on a CPU, a running sum over one-hot
    vectors takes thirty times as long. Example: [0 1 0 0] of 2 experts gives [0 0 1 2] and [3 1].
    """
    choices = expert.shape[1]
    if choices * (experts + 1) >= 2**31:
        raise ValueError(f"{choices} choices of {experts} experts in one group; allowed: below "
                         f"2^31 / {experts + 1}; smaller batches or groups")  # fmt: skip

    def of_group(expert: Array, counted: Array) -> tuple[Array, Array]:
        keys = jnp.where(counted, expert, experts) * choices + jnp.arange(choices)
        keys = jnp.sort(keys)  # by expert, then position; the uncounted last
        bounds = jnp.searchsorted(keys, jnp.arange(experts + 1) * choices)
        starts = bounds.at[keys // choices].get(mode="clip")
        earlier = (
            jnp.zeros_like(expert)
            .at[keys % choices]
            .set(jnp.arange(choices) - starts, unique_indices=True)
        )
        return earlier, jnp.diff(bounds)

    return jax.vmap(of_group)(expert, counted)


class Choice(NamedTuple):
    """A router's choices before capacity: the experts, their gates, and which of them are used."""

    expert: Int[Array, "G S k"]
    gate: Float[Array, "G S k"]
    chosen: Bool[Array, "G S k"]


def assign_slots(
    gates: Float[Array, "G S E"],
    lse: Float[Array, "G S"],
    padding_mask: Bool[Array, "G S"],
    choice: Choice,
    capacity_factor: float,
) -> Routing:
    """Gives choices positions in their experts' buffers, all first choices first, then by token.

    A choice is dispatched if it is chosen and its position is below the capacity.

    Args:
        gates: router probabilities.
        lse: logarithms of the sums of exponentials of the logits.
        padding_mask: True for tokens.
        choice: the router's choices.
        capacity_factor: capacity as a multiple of the fair share.
    """
    groups, tokens, experts = gates.shape
    choices = choice.expert.shape[-1]
    slots = capacity(tokens, experts, choices, capacity_factor)
    by_priority = jnp.swapaxes(choice.expert, 1, 2).reshape(groups, -1)  # [G k*S]
    flat_position, _ = rank(by_priority, jnp.tile(padding_mask, (1, choices)), experts)
    position = jnp.swapaxes(flat_position.reshape(groups, choices, tokens), 1, 2)
    dispatched = choice.chosen & (position < slots)
    measures = _measures(gates, lse, padding_mask, choice.expert[..., 0], dispatched)
    return Routing(choice.expert, position, choice.gate, dispatched, measures, experts, slots)


def capacity(tokens: int, experts: int, choices: int, factor: float) -> int:
    """Returns the capacity of an expert for a group: `factor` times its fair share of choices."""
    return min(tokens, max(1, math.ceil(choices * tokens * factor / experts)))


def _measures(
    gates: Array, lse: Array, padding_mask: Array, first: Array, dispatched: Array
) -> dict[str, Array]:
    """Returns MEASURES over all tokens but padding; groups are weighted by their tokens."""
    experts, weight = gates.shape[-1], padding_mask.astype(float)
    total = jnp.maximum(jnp.sum(weight), 1.0)
    in_group = jnp.maximum(jnp.sum(weight, axis=1, keepdims=True), 1.0)
    load = jax.vmap(lambda e, w: jnp.zeros(experts).at[e].add(w))(first, weight)
    gate_sum = jnp.sum(gates * weight[..., None], axis=1)
    load_share = jnp.sum(load, axis=0) / total
    entropy = -jnp.sum(jax.scipy.special.xlogy(load_share, load_share)) / math.log(max(experts, 2))
    dropped = jnp.sum(padding_mask & ~jnp.any(dispatched, axis=-1)) / total
    z = jnp.sum(jnp.square(lse) * weight) / total
    values = (jnp.sum(load * gate_sum / in_group) * experts / total, z, dropped, entropy)
    return dict(zip(MEASURES, values, strict=True))


def _softmax(logits: Array) -> tuple[Array, Array]:
    """Returns probabilities [G S E] and log-sums of exponentials [G S], by one `exp`."""
    max_logit = jax.lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))
    exponentials = jnp.exp(logits - max_logit)
    total = jnp.sum(exponentials, axis=-1, keepdims=True)
    return exponentials / total, (jnp.log(total) + max_logit)[..., 0]


def _argmax(x: Array) -> Array:
    """Returns `jnp.argmax` over the last axis by two reductions: a quarter of its time on a CPU."""
    is_max = x == jnp.max(x, axis=-1, keepdims=True)
    return jnp.min(jnp.where(is_max, jnp.arange(x.shape[-1]), x.shape[-1]), axis=-1)


def _one_hot_mask(expert: Array, x: Array) -> Array:
    """Returns the one-hot mask [G S E] of experts [G S]."""
    return expert[..., None] == jnp.arange(x.shape[-1])
