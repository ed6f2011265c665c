"""Mixture of experts: the routers of GShard and Switch, and the layer that applies their decision.

A router is a pure float32 function from logits to one `Routing`; `MoeMlp` stands in for
`layers.Mlp`. In training experts have a capacity and the rest passes by the residual; otherwise no
token is dropped, so that a token's result never depends on the tokens beside it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from mmt.model import layers

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
    gates = jax.nn.softmax(logits, axis=-1)
    first = jnp.argmax(gates, axis=-1)
    others = jnp.where(jax.nn.one_hot(first, gates.shape[-1], dtype=bool), 0.0, gates)
    expert = jnp.stack([first, jnp.argmax(others, axis=-1)], axis=-1)
    gate = jnp.stack([jnp.max(gates, axis=-1), jnp.max(others, axis=-1)], axis=-1)
    gate = gate / jnp.sum(gate, axis=-1, keepdims=True)
    wanted = jnp.stack([real, real & (2.0 * gate[..., 1] > uniform)], axis=-1)
    return _place(logits, real, expert, gate, wanted=wanted, capacity_factor=capacity_factor)


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
    gates = jax.nn.softmax(logits, axis=-1)
    expert, gate = jnp.argmax(gates, axis=-1)[..., None], jnp.max(gates, axis=-1)[..., None]
    return _place(
        logits, real, expert, gate, wanted=real[..., None], capacity_factor=capacity_factor
    )


@dataclass(frozen=True)
class MoeConfig:
    """How a `MoeMlp` routes. GShard: the defaults. Switch: router=switch_top1,
    capacity_factor=1.25, jitter=0.01.
    """

    num_experts: int = 8
    router: Router = gshard_top2
    group_size: int = 1024  # tokens that share buffers; at most this many
    capacity_factor: float = 1.0
    jitter: float = 0.0  # training: the router's input times 1 +- jitter
    expert_dropout: float = 0.0  # training: inside the experts
    init_scale: float = 0.1  # weights have standard deviation sqrt(init_scale / fan_in)

    def __post_init__(self) -> None:
        for name in ("num_experts", "group_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"MoeConfig.{name} = {getattr(self, name)}; allowed: 1 or more")
        for name in ("capacity_factor", "init_scale"):
            if not getattr(self, name) > 0:
                raise ValueError(f"MoeConfig.{name} = {getattr(self, name)}; allowed: above 0")
        for name in ("jitter", "expert_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"MoeConfig.{name} = {getattr(self, name)}; allowed: 0 <= x < 1")


def dispatch(x: Float[Array, "G S D"], routing: Routing) -> Float[Array, "E G C D"]:
    """Puts each token into the buffers of the experts that keep it; empty slots are 0.

    Constrained first by group, then by expert: on a mesh, that is an all-to-all.
    """
    slots, choices = _slots(routing)
    rows = take_rows(x, choices // routing.expert.shape[-1], slots)
    buffers = rows.reshape(x.shape[0], routing.experts, routing.capacity, x.shape[-1])
    buffers = nn.with_logical_constraint(buffers, ("group", None, None, "embed"))
    buffers = jnp.swapaxes(buffers, 0, 1)
    return nn.with_logical_constraint(buffers, ("expert", "expert_group", None, "embed"))


def combine(y: Float[Array, "E G C D"], routing: Routing) -> Float[Array, "G S D"]:
    """Each token's sum of gate x output over the experts that kept it; 0 where none did."""
    y = nn.with_logical_constraint(y, ("expert", "expert_group", None, "embed"))
    y = nn.with_logical_constraint(jnp.swapaxes(y, 0, 1), ("group", None, None, "embed"))
    slots, choices = _slots(routing)
    return _mix(y.reshape(y.shape[0], -1, y.shape[-1]), routing.gate, slots, choices)


@jax.custom_vjp
def take_rows(
    x: Float[Array, "G R D"], index: Int[Array, "G M"], inverse: Int[Array, "G R n"]
) -> Float[Array, "G M D"]:
    """y[g, m] = x[g, index[g, m]], or 0 where the index is R or more.

    `inverse` holds the (at most n) places m of each row, and M or more where there are fewer. So
    the gradient gathers, too: no scatter in either direction.
    """
    return _gather(x, index)


def _take_rows_forward(x: Array, index: Array, inverse: Array) -> tuple[Array, Array]:
    return _gather(x, index), inverse


def _take_rows_backward(inverse: Array, dy: Array) -> tuple[Array, None, None]:
    groups, rows, places = inverse.shape
    dx = _gather(dy, inverse.reshape(groups, -1)).reshape(groups, rows, places, -1)
    return jnp.sum(dx, axis=2), None, None


take_rows.defvjp(_take_rows_forward, _take_rows_backward)


class MoeMlp(nn.Module):
    """`layers.Mlp` with experts: the same call, the same activations.

    Sows its router's measures under 'intermediates'; `summarize` reads them.
    """

    hidden: int
    activations: Sequence[str]
    dtype: jnp.dtype
    config: MoeConfig

    @nn.compact
    def __call__(
        self, x: Float[Array, "B T D"], real: Bool[Array, "B T"], enable_dropout: bool = False
    ) -> Float[Array, "B T D"]:
        """`enable_dropout` is training, with capacity and noise; without it no token is dropped.
        `real` marks the tokens that are no padding; padding gives 0.
        """
        flat = x.reshape(-1, x.shape[-1])
        grouped = _grouped(flat, self.config.group_size)
        routing = self._route(flat, real.reshape(-1), enable_dropout)
        self.sow("intermediates", "moe", routing.measures)
        weights = self._weights(x.shape[-1])
        if enable_dropout:
            buffers = dispatch(grouped, routing)
            experts, groups, capacity, features = buffers.shape
            rows = buffers.reshape(experts, groups * capacity, features)
            y = _mlp(rows, weights, self.activations, dropout=self._dropout)
            y = combine(y.reshape(buffers.shape), routing)
        else:
            y = self._dropless(grouped, routing, weights)
        return y.reshape(-1, x.shape[-1])[: flat.shape[0]].reshape(x.shape)

    def _route(
        self, flat: Float[Array, "N D"], real: Bool[Array, "N"], enable_dropout: bool
    ) -> Routing:
        """Router logits in float32. Noise is drawn per token of the batch, whatever the groups."""
        c, size = self.config, self.config.group_size
        kernel = layers.parameter(
            self,
            "router",
            init=layers.fan_in(c.init_scale),
            shape=(flat.shape[-1], c.num_experts),
            axes=("embed", "unmodeled"),
        )
        flat = flat.astype(jnp.float32)
        uniform = jnp.zeros(flat.shape[0])
        if enable_dropout:
            keys = jax.random.split(self.make_rng("dropout"))
            uniform = jax.random.uniform(keys[0], uniform.shape)
            if c.jitter:
                noise = jax.random.uniform(keys[1], flat.shape, minval=-c.jitter, maxval=c.jitter)
                flat = flat * (1 + noise)
        return c.router(
            _grouped(jnp.matmul(flat, kernel, precision=jax.lax.Precision.HIGHEST), size),
            _grouped(real, size),
            capacity_factor=c.capacity_factor if enable_dropout else float(c.num_experts),
            uniform=_grouped(uniform, size),
        )

    def _weights(self, features: int) -> list[Array]:
        """W_i of every activation [E D F], then W_o [E F D]."""
        init = layers.fan_in(self.config.init_scale, inputs=1, outputs=2, experts=0)
        sizes = {"expert": self.config.num_experts, "embed": features, "mlp": self.hidden}
        axes = {f"wi_{i}": ("expert", "embed", "mlp") for i in range(len(self.activations))}
        axes["wo"] = ("expert", "mlp", "embed")
        weights = [
            layers.parameter(self, name, init=init, shape=[sizes[axis] for axis in of], axes=of)
            for name, of in axes.items()
        ]
        return [w.astype(self.dtype) for w in weights]

    def _dropout(self, hidden: Float[Array, "E R F"]) -> Float[Array, "E R F"]:
        """One mask per expert, as T5 draws one for all positions of a row."""
        hidden = nn.with_logical_constraint(hidden, ("expert", None, "mlp"))
        dropout = nn.Dropout(self.config.expert_dropout, broadcast_dims=(-2,))
        return dropout(hidden, deterministic=False)

    def _dropless(
        self, x: Float[Array, "G S D"], routing: Routing, weights: Sequence[Array]
    ) -> Float[Array, "G S D"]:
        """All kept choices, in blocks of rows that share an expert: the cost of the active ones."""
        choices = routing.expert.shape[-1]
        expert, kept = routing.expert.reshape(-1), routing.kept.reshape(-1)
        rows = block_rows(expert.size, routing.experts)
        blocks = expert.size // rows + min(routing.experts, expert.size)  # at most
        rank, counts = _rank(expert[None], kept[None], routing.experts)
        ends = jnp.cumsum(-(-counts[0] // rows))  # blocks up to each expert's last
        starts = jnp.append(0, ends[:-1])
        slots = jnp.where(kept, starts[expert] * rows + rank[0], blocks * rows)
        source = _inverse(slots[None], blocks * rows)
        slots = slots.reshape(1, -1, choices)
        buffers = take_rows(x.reshape(1, -1, x.shape[-1]), source // choices, slots)

        @jax.checkpoint
        def run(number: Array, block: Array) -> tuple[Array, Array]:
            owner = jnp.searchsorted(ends, number, side="right")
            y = jax.lax.cond(
                number < ends[-1],
                lambda: _mlp(block, [w[owner] for w in weights], self.activations),
                lambda: jnp.zeros_like(block),
            )
            return number + 1, y

        _, y = jax.lax.scan(run, 0, buffers.reshape(blocks, rows, -1))
        gate = routing.gate.reshape(1, -1, choices)
        return _mix(y.reshape(1, blocks * rows, -1), gate, slots, source).reshape(x.shape)


def block_rows(choices: int, experts: int) -> int:
    """Rows of a block of the dropless path: an expert's fair share, a multiple of 8 up to 128.

    A block costs a look at its expert's weights, and each expert wastes half a block on average.
    """
    return min(128, 8 * -(-choices // (8 * experts)))


def summarize(intermediates: Mapping[str, Any]) -> dict[str, Array]:
    """MEASURES, each the mean over all layers with experts; {} where there are none.

    `intermediates` is the collection that `model.apply(..., mutable=["intermediates"])` returns.
    moe_aux_loss is 1 where experts are used alike; moe_dropped is the share of tokens that no
    expert took; moe_load_entropy that of the first choices' spread over the experts, 1 if even.
    """
    found: dict[str, list[Array]] = {name: [] for name in MEASURES}
    for path, leaf in jax.tree_util.tree_leaves_with_path(intermediates):
        name = getattr(path[-1], "key", None)
        if name in found:
            found[name].append(jnp.ravel(leaf))
    return {name: jnp.mean(jnp.concatenate(parts)) for name, parts in found.items() if parts}


def _mlp(
    x: Array,
    weights: Sequence[Array],
    activations: Sequence[str],
    *,
    dropout: Callable[[Array], Array] = lambda hidden: hidden,
) -> Array:
    """The MLP of one expert on [R D], or of all on [E R D]."""
    *inputs, output = weights
    hidden = jnp.ones((), x.dtype)
    for activation, wi in zip(activations, inputs, strict=True):
        hidden = hidden * layers.ACTIVATIONS[activation](x @ wi)
    return dropout(hidden) @ output


def _place(
    logits: Array,
    real: Array,
    expert: Array,
    gate: Array,
    *,
    wanted: Array,
    capacity_factor: float,
) -> Routing:
    """Slots in order of choice, then token; kept where wanted and below capacity."""
    groups, tokens, experts = logits.shape
    choices = expert.shape[-1]
    capacity = min(tokens, max(1, math.ceil(choices * tokens * capacity_factor / experts)))
    in_order = jnp.swapaxes(expert, 1, 2).reshape(groups, -1)  # [G k*S]
    rank, _ = _rank(in_order, jnp.tile(real, (1, choices)), experts)
    slot = jnp.swapaxes(rank.reshape(groups, choices, tokens), 1, 2)
    kept = wanted & (slot < capacity)
    measures = _measures(logits, real, expert[..., 0], kept)
    return Routing(expert, slot, gate, kept, measures, experts, capacity)


def _measures(logits: Array, real: Array, first: Array, kept: Array) -> dict[str, Array]:
    """MEASURES over the real tokens; a group weighs as many as it has."""
    experts, weight = logits.shape[-1], real.astype(jnp.float32)[..., None]
    total = jnp.maximum(jnp.sum(weight), 1.0)
    in_group = jnp.maximum(jnp.sum(weight, axis=1), 1.0)  # [G 1]
    load = jnp.sum(jax.nn.one_hot(first, experts) * weight, axis=1)
    share = jnp.sum(jax.nn.softmax(logits, axis=-1) * weight, axis=1)
    spread = jnp.sum(load, axis=0) / total
    entropy = -jnp.sum(jax.scipy.special.xlogy(spread, spread)) / math.log(max(experts, 2))
    left = jnp.sum(real & ~jnp.any(kept, axis=-1)) / total
    z = jnp.square(jax.nn.logsumexp(logits, axis=-1)) * weight[..., 0]
    values = (jnp.sum(load * share / in_group) * experts / total, jnp.sum(z) / total, left, entropy)
    return dict(zip(MEASURES, values, strict=True))


def _rank(expert: Array, counted: Array, experts: int) -> tuple[Array, Array]:
    """How many counted choices of the same expert come before each [G M]; and in all [G E]."""
    chosen = jax.nn.one_hot(expert, experts, dtype=jnp.int32) * counted[..., None]
    sums = jnp.cumsum(chosen, axis=1)
    rank = jnp.take_along_axis(sums - chosen, expert[..., None], axis=-1)[..., 0]
    return rank, sums[:, -1]


def _slots(routing: Routing) -> tuple[Array, Array]:
    """Each choice's slot among the group's E*C [G S k], and each slot's choice among S*k [G E*C];
    out of range where there is none.
    """
    size = routing.experts * routing.capacity
    slots = jnp.where(routing.kept, routing.expert * routing.capacity + routing.slot, size)
    return slots, _inverse(slots.reshape(slots.shape[0], -1), size)


def _inverse(slots: Array, size: int) -> Array:
    """[G M] one-to-one indices below `size` -> [G size], M where nothing points."""
    groups, choices = slots.shape
    empty = jnp.full((groups, size), choices)
    each = jnp.broadcast_to(jnp.arange(choices), slots.shape)
    return jax.vmap(lambda e, s, c: e.at[s].set(c, mode="drop"))(empty, slots, each)


def _mix(y: Array, gate: Array, slots: Array, choices: Array) -> Array:
    """Sums the outputs [G M D] of each token's slots, weighted by their gates -> [G S D]."""
    rows = take_rows(y, slots.reshape(slots.shape[0], -1), choices[..., None])
    rows = rows.reshape(*slots.shape, -1)
    return jnp.einsum("gsk,gskd->gsd", gate.astype(y.dtype), rows)


def _gather(x: Array, index: Array) -> Array:
    return jax.vmap(lambda rows, i: rows.at[i].get(mode="fill", fill_value=0))(x, index)


def _grouped(x: Array, size: int) -> Array:
    """[N ...] -> [G S ...], S at most `size`; padded with zeros where N does not divide."""
    groups = -(-x.shape[0] // size)
    tokens = -(-x.shape[0] // groups)
    padding = [(0, groups * tokens - x.shape[0])] + [(0, 0)] * (x.ndim - 1)
    x = jnp.pad(x, padding).reshape(groups, tokens, *x.shape[1:])
    return nn.with_logical_constraint(x, ("group", *[None] * (x.ndim - 1)))
