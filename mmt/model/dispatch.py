"""Moving tokens to their experts and back, in several ways that give the same numbers.

Each way takes the tokens, a router's decision, an MLP and the experts' weights, and gives every
token its sum of gate x output over the experts that kept it, 0 where none did. Which way is fast is
a question of the backend; `benchmarks/moe_layer.py` measures it. Nothing here decides where a token
goes.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int

from mmt.model.routing import Routing, rank

# mlp(rows, weights, product) -> rows: of one expert on [R D] with weights [in out], or of all on
# [E R D] with [E in out]; product(rows, weight) is the matrix product, whatever the layout.
Product = Callable[[Array, Array], Array]
Mlp = Callable[[Array, Sequence[Array], Product], Array]
_BY_GROUP = ("group", None, None, "activation_embed")  # how buffers lie on a mesh
_BY_EXPERT = ("expert", "expert_group", None, "activation_embed")


def gather(
    x: Float[Array, "G S D"], routing: Routing, mlp: Mlp, weights: Sequence[Array]
) -> Float[Array, "G S D"]:
    """Buffers [E G C D] filled and emptied by indices; all experts in one batched product."""
    return from_buffers(_all(to_buffers(x, routing), mlp, weights), routing)


def in_turn(
    x: Float[Array, "G S D"], routing: Routing, mlp: Mlp, weights: Sequence[Array]
) -> Float[Array, "G S D"]:
    """As `gather`, but one expert after another, whose activations then stay in the cache of a CPU.

    Not for experts that lie on several devices.
    """
    buffers = to_buffers(x, routing)
    experts, groups, capacity, features = buffers.shape
    rows = buffers.reshape(experts, groups * capacity, features)
    y = jax.lax.map(lambda one: mlp(one[0], one[1], jnp.matmul), (rows, tuple(weights)))
    return from_buffers(y.reshape(buffers.shape), routing)


def one_hot(
    x: Float[Array, "G S D"], routing: Routing, mlp: Mlp, weights: Sequence[Array]
) -> Float[Array, "G S D"]:
    """The same buffers by products with one-hot masks [G S E C], as GShard's Algorithm 2."""
    places = jax.nn.one_hot(routing.expert, routing.experts, dtype=x.dtype)  # [G S k E]
    slots = jax.nn.one_hot(routing.slot, routing.capacity, dtype=x.dtype)  # [G S k C]
    slots = slots * routing.kept[..., None]
    mask = jnp.einsum("gske,gskc->gsec", places, slots)
    gates = jnp.einsum("gske,gskc,gsk->gsec", places, slots, routing.gate.astype(x.dtype))
    buffers = _to_experts(jnp.einsum("gsec,gsd->gecd", mask, x))
    return jnp.einsum("gsec,gecd->gsd", gates, _to_groups(_all(buffers, mlp, weights)))


def ragged(
    x: Float[Array, "G S D"], routing: Routing, mlp: Mlp, weights: Sequence[Array]
) -> Float[Array, "G S D"]:
    """No buffers: kept choices sorted by expert, and products of groups of unequal sizes."""
    choices = routing.expert.shape[-1]
    expert, kept = routing.expert.reshape(-1), routing.kept.reshape(-1)
    before, counts = rank(expert[None], kept[None], routing.experts)
    starts = jnp.cumsum(counts[0]) - counts[0]
    slots = jnp.where(kept, starts[expert] + before[0], expert.size)
    source = _inverse(slots[None], expert.size)
    slots = slots.reshape(1, -1, choices)
    rows = take_rows(x.reshape(1, -1, x.shape[-1]), source // choices, slots)
    y = mlp(rows[0], weights, lambda rows, weight: jax.lax.ragged_dot(rows, weight, counts[0]))
    gate = routing.gate.reshape(1, -1, choices)
    return _mix(y[None], gate, slots, source).reshape(x.shape)


WAYS = {"gather": gather, "in_turn": in_turn, "one_hot": one_hot, "ragged": ragged}
FASTEST = {"cpu": "gather"}  # by measurement, per backend


def fastest(name: str) -> Callable[..., Array]:
    """One of WAYS by its name; "auto" is the fastest measured on this backend, and `gather` where
    none was measured.
    """
    return WAYS[FASTEST.get(jax.default_backend(), "gather") if name == "auto" else name]


def spread() -> bool:
    """Whether the experts lie on several devices, by the mesh and the rules that are in force."""
    axes = (nn.logical_to_mesh_axes(("expert",)) or (None,))[0]
    mesh = jax.sharding.get_abstract_mesh()
    names = (axes,) if isinstance(axes, str) else axes or ()
    return any(mesh.shape.get(name, 1) > 1 for name in names)


def blocks(
    x: Float[Array, "G S D"], routing: Routing, mlp: Mlp, weights: Sequence[Array]
) -> Float[Array, "G S D"]:
    """Without buffers or capacity, for decoding: all kept choices, in blocks of rows that share an
    expert. It costs what the active experts cost.
    """
    choices = routing.expert.shape[-1]
    expert, kept = routing.expert.reshape(-1), routing.kept.reshape(-1)
    rows = block_rows(expert.size, routing.experts)
    count = expert.size // rows + min(routing.experts, expert.size)  # at most
    before, counts = rank(expert[None], kept[None], routing.experts)
    ends = jnp.cumsum(-(-counts[0] // rows))  # blocks up to each expert's last
    starts = jnp.append(0, ends[:-1])
    slots = jnp.where(kept, starts[expert] * rows + before[0], count * rows)
    source = _inverse(slots[None], count * rows)
    slots = slots.reshape(1, -1, choices)
    buffers = take_rows(x.reshape(1, -1, x.shape[-1]), source // choices, slots)

    @jax.checkpoint
    def run(number: Array, block: Array) -> tuple[Array, Array]:
        owner = jnp.searchsorted(ends, number, side="right")
        y = jax.lax.cond(
            number < ends[-1],
            lambda: mlp(block, [w[owner] for w in weights], jnp.matmul),
            lambda: jnp.zeros_like(block),
        )
        return number + 1, y

    _, y = jax.lax.scan(run, 0, buffers.reshape(count, rows, -1))
    gate = routing.gate.reshape(1, -1, choices)
    return _mix(y.reshape(1, count * rows, -1), gate, slots, source).reshape(x.shape)


def block_rows(choices: int, experts: int) -> int:
    """Rows of a block of `blocks`: an expert's fair share, a multiple of 8 up to 128.

    A block costs a look at its expert's weights, and each expert wastes half a block on average.
    """
    return min(128, 8 * -(-choices // (8 * experts)))


def to_buffers(x: Float[Array, "G S D"], routing: Routing) -> Float[Array, "E G C D"]:
    """Puts each token into the buffers of the experts that keep it; empty slots are 0."""
    slots, choices = _slots(routing)
    rows = take_rows(x, choices // routing.expert.shape[-1], slots)
    return _to_experts(rows.reshape(x.shape[0], routing.experts, routing.capacity, x.shape[-1]))


def from_buffers(y: Float[Array, "E G C D"], routing: Routing) -> Float[Array, "G S D"]:
    """Each token's sum of gate x output over the experts that kept it; 0 where none did."""
    y = _to_groups(y)
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


def _all(buffers: Array, mlp: Mlp, weights: Sequence[Array]) -> Array:
    """Each expert on its own rows of all groups, by batched products."""
    experts, groups, capacity, features = buffers.shape
    rows = buffers.reshape(experts, groups * capacity, features)
    return mlp(rows, weights, jnp.matmul).reshape(buffers.shape)


def _to_experts(buffers: Array) -> Array:
    """[G E C D] -> [E G C D]. Constrained first by group, then by expert: on a mesh, that is an
    all-to-all.
    """
    buffers = nn.with_logical_constraint(buffers, _BY_GROUP)
    return nn.with_logical_constraint(jnp.swapaxes(buffers, 0, 1), _BY_EXPERT)


def _to_groups(y: Array) -> Array:
    """[E G C D] -> [G E C D], the way back."""
    y = nn.with_logical_constraint(y, _BY_EXPERT)
    return nn.with_logical_constraint(jnp.swapaxes(y, 0, 1), _BY_GROUP)


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
