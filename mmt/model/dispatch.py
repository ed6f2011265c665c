"""Dispatchers: move tokens to their experts and combine the outputs.

All dispatchers compute the same function: for every token, the sum of gate x output over the
experts it was dispatched to, or 0. They differ in speed by backend (`benchmarks/moe_layer.py`).
Experts are chosen in `mmt.model.routing`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int

from mmt.model.product import Kernel, SeparateExperts, product
from mmt.model.routing import Routing, rank
from mmt.system import environment

# mlp(rows, weights, product) -> rows: one expert on [R D] with weights [in out], or all experts on
# [E R D] with weights [E in out]; product(rows, weight) is the matrix product of either layout.
Product = Callable[[Array, Kernel], Array]
Mlp = Callable[[Array, Sequence[Kernel], Product], Array]
# Logical axes of the buffers on a mesh.
_GROUP_SHARDED = ("group", None, None, "activation_embed")
_EXPERT_SHARDED = ("expert", "expert_group", None, "activation_embed")


def gather(
    x: Float[Array, "G S D"], routing: Routing, mlp: Mlp, weights: Sequence[Kernel]
) -> Float[Array, "G S D"]:
    """Fills and empties buffers [E G C D] by indices; all experts are one batched product."""
    return from_buffers(_all_experts(to_buffers(x, routing), mlp, weights), routing)


def in_turn(
    x: Float[Array, "G S D"], routing: Routing, mlp: Mlp, weights: Sequence[Kernel]
) -> Float[Array, "G S D"]:
    """Works like `gather`, one expert after another, which keeps activations in a CPU's cache.

    All experts must be on one device.
    """
    buffers = to_buffers(x, routing)
    experts, groups, capacity, features = buffers.shape
    rows = buffers.reshape(experts, groups * capacity, features)
    y = jax.lax.map(lambda expert: mlp(expert[0], expert[1], product), (rows, tuple(weights)))
    return from_buffers(y.reshape(buffers.shape), routing)


def one_hot(
    x: Float[Array, "G S D"], routing: Routing, mlp: Mlp, weights: Sequence[Kernel]
) -> Float[Array, "G S D"]:
    """Fills and empties buffers by one-hot masks [G S E C], as in GShard's Algorithm 2."""
    experts = jax.nn.one_hot(routing.expert, routing.experts, dtype=x.dtype)  # [G S k E]
    slots = jax.nn.one_hot(routing.position_in_expert, routing.capacity, dtype=x.dtype)  # [G S k C]
    slots = slots * routing.dispatched[..., None]
    mask = jnp.einsum("gske,gskc->gsec", experts, slots)
    gates = jnp.einsum("gske,gskc,gsk->gsec", experts, slots, routing.gate.astype(x.dtype))
    buffers = _to_experts(jnp.einsum("gsec,gsd->gecd", mask, x))
    return jnp.einsum("gsec,gecd->gsd", gates, _to_groups(_all_experts(buffers, mlp, weights)))


def ragged(
    x: Float[Array, "G S D"], routing: Routing, mlp: Mlp, weights: Sequence[Kernel]
) -> Float[Array, "G S D"]:
    """Sorts dispatched choices by expert for ragged products, without buffers."""
    choices = routing.expert.shape[-1]
    expert, dispatched = routing.expert.reshape(-1), routing.dispatched.reshape(-1)
    position, counts = rank(expert[None], dispatched[None], routing.experts)
    starts = jnp.cumsum(counts[0]) - counts[0]
    slots = jnp.where(dispatched, starts[expert] + position[0], expert.size)
    source = _invert(slots[None], expert.size)
    slots = slots.reshape(1, -1, choices)
    rows = take_rows(x.reshape(1, -1, x.shape[-1]), source // choices, slots)

    def ragged_product(rows: Array, weight: Kernel) -> Array:
        assert isinstance(weight, Array), "ragged products are for training, not for int8"
        return jax.lax.ragged_dot(rows, weight, counts[0])

    y = mlp(rows[0], weights, ragged_product)
    gate = routing.gate.reshape(1, -1, choices)
    return combine(y[None], gate, slots, source).reshape(x.shape)


DISPATCHERS = {"gather": gather, "in_turn": in_turn, "one_hot": one_hot, "ragged": ragged}
FASTEST = {"cpu": "gather"}  # measured, per backend


def fastest(name: str) -> Callable[..., Array]:
    """Returns the dispatcher of that name.

    "auto" is the fastest one measured on this backend, and `gather` on a backend without
    measurements.
    """
    platform = environment.target_platform()
    return DISPATCHERS[FASTEST.get(platform, "gather") if name == "auto" else name]


def experts_are_sharded() -> bool:
    """Returns whether the active mesh and rules distribute experts over several devices."""
    axes = (nn.logical_to_mesh_axes(("expert",)) or (None,))[0]
    mesh = jax.sharding.get_abstract_mesh()
    names = (axes,) if isinstance(axes, str) else axes or ()
    return any(mesh.shape.get(name, 1) > 1 for name in names)


def blocks(
    x: Float[Array, "G S D"],
    routing: Routing,
    mlp: Mlp,
    weights: Sequence[Kernel | SeparateExperts],
) -> Float[Array, "G S D"]:
    """Processes all dispatched choices in blocks of rows that share an expert, for decoding.

    There are no buffers and no capacity. The cost is that of the active experts. Only here may
    `weights` be `SeparateExperts`.
    """
    choices = routing.expert.shape[-1]
    expert, dispatched = routing.expert.reshape(-1), routing.dispatched.reshape(-1)
    rows = block_rows(expert.size, routing.experts)
    count = expert.size // rows + min(routing.experts, expert.size)  # at most
    position, counts = rank(expert[None], dispatched[None], routing.experts)
    ends = jnp.cumsum(-(-counts[0] // rows))  # blocks up to each expert's last
    starts = jnp.append(0, ends[:-1])
    slots = jnp.where(dispatched, starts[expert] * rows + position[0], count * rows)
    source = _invert(slots[None], count * rows)
    slots = slots.reshape(1, -1, choices)
    buffers = take_rows(x.reshape(1, -1, x.shape[-1]), source // choices, slots)

    @jax.checkpoint
    def run_block(number: Array, block: Array) -> tuple[Array, Array]:
        index = jnp.searchsorted(ends, number, side="right")  # of the block's expert
        y = jax.lax.cond(
            number < ends[-1],
            lambda: _one_expert(mlp, weights, index, block),
            lambda: jnp.zeros_like(block),
        )
        return number + 1, y

    _, y = jax.lax.scan(run_block, 0, buffers.reshape(count, rows, -1))
    gate = routing.gate.reshape(1, -1, choices)
    return combine(y.reshape(1, count * rows, -1), gate, slots, source).reshape(x.shape)


def _one_expert(mlp: Mlp, weights: Sequence[Any], index: Array, block: Array) -> Array:
    """Returns the output of an expert for its rows."""
    if not isinstance(weights[0], SeparateExperts):
        return mlp(block, jax.tree.map(lambda leaf: leaf[index], list(weights)), product)
    experts = zip(*(weight.kernels for weight in weights), strict=True)
    branches = [lambda rows, expert=expert: mlp(rows, expert, product) for expert in experts]
    return jax.lax.switch(index, branches, block)


def block_rows(choices: int, experts: int) -> int:
    """Returns the rows of a block of `blocks`.

    It is an expert's fair share of the choices, rounded up to a power of two from 8 to 128. A block
    reads its expert's weights once, and each expert wastes half a block on average.
    """
    share = -(-choices // experts)
    return min(128, max(8, 1 << (share - 1).bit_length()))


def to_buffers(x: Float[Array, "G S D"], routing: Routing) -> Float[Array, "E G C D"]:
    """Copies each token into the buffers of its experts; empty positions are 0."""
    slots, choices = _slots(routing)
    rows = take_rows(x, choices // routing.expert.shape[-1], slots)
    return _to_experts(rows.reshape(x.shape[0], routing.experts, routing.capacity, x.shape[-1]))


def from_buffers(y: Float[Array, "E G C D"], routing: Routing) -> Float[Array, "G S D"]:
    """Returns each token's sum of gate x output over its experts; 0 without any."""
    y = _to_groups(y)
    slots, choices = _slots(routing)
    return combine(y.reshape(y.shape[0], -1, y.shape[-1]), routing.gate, slots, choices)


@jax.custom_vjp
def take_rows(
    x: Float[Array, "G R D"], index: Int[Array, "G M"], inverse: Int[Array, "G R n"]
) -> Float[Array, "G M D"]:
    """Returns y[g, m] = x[g, index[g, m]], or 0 where the index is R or more.

    `inverse` holds the positions m of each row, at most n, filled up with M or more. With it the
    gradient is a gather too: there is no scatter in either direction.
    """
    return _gather(x, index)


def _take_rows_forward(x: Array, index: Array, inverse: Array) -> tuple[Array, Array]:
    return _gather(x, index), inverse


def _take_rows_backward(inverse: Array, dy: Array) -> tuple[Array, None, None]:
    groups, rows, copies = inverse.shape
    dx = _gather(dy, inverse.reshape(groups, -1)).reshape(groups, rows, copies, -1)
    return jnp.sum(dx, axis=2), None, None


take_rows.defvjp(_take_rows_forward, _take_rows_backward)


def _all_experts(buffers: Array, mlp: Mlp, weights: Sequence[Kernel]) -> Array:
    """Applies each expert to its rows of all groups, by batched products."""
    experts, groups, capacity, features = buffers.shape
    rows = buffers.reshape(experts, groups * capacity, features)
    return mlp(rows, weights, product).reshape(buffers.shape)


def _to_experts(buffers: Array) -> Array:
    """Transposes [G E C D] to [E G C D].

    It is constrained first by group, then by expert: on a mesh, that is an all-to-all.
    """
    buffers = nn.with_logical_constraint(buffers, _GROUP_SHARDED)
    return nn.with_logical_constraint(jnp.swapaxes(buffers, 0, 1), _EXPERT_SHARDED)


def _to_groups(y: Array) -> Array:
    """Transposes [E G C D] to [G E C D], the inverse of `_to_experts`."""
    y = nn.with_logical_constraint(y, _EXPERT_SHARDED)
    return nn.with_logical_constraint(jnp.swapaxes(y, 0, 1), _GROUP_SHARDED)


def _slots(routing: Routing) -> tuple[Array, Array]:
    """Returns each choice's slot among E*C [G S k], and each slot's choice among S*k [G E*C].

    Values are out of range where no slot or choice exists.
    """
    size = routing.experts * routing.capacity
    slots = jnp.where(
        routing.dispatched, routing.expert * routing.capacity + routing.position_in_expert, size
    )
    return slots, _invert(slots.reshape(slots.shape[0], -1), size)


def _invert(slots: Array, size: int) -> Array:
    """Inverts one-to-one indices [G M] below `size` to [G size]; M where no index points."""
    groups, choices = slots.shape
    empty = jnp.full((groups, size), choices)
    choice_ids = jnp.broadcast_to(jnp.arange(choices), slots.shape)
    return jax.vmap(lambda e, s, c: e.at[s].set(c, mode="drop"))(empty, slots, choice_ids)


def combine(y: Array, gate: Array, slots: Array, choices: Array) -> Array:
    """Sums the outputs [G M D] of each token's slots, weighted by their gates, to [G S D]."""
    rows = take_rows(y, slots.reshape(slots.shape[0], -1), choices[..., None])
    rows = rows.reshape(*slots.shape, -1)
    return jnp.einsum("gsk,gskd->gsd", gate.astype(y.dtype), rows)


def _gather(x: Array, index: Array) -> Array:
    return jax.vmap(lambda rows, i: rows.at[i].get(mode="fill", fill_value=0))(x, index)
