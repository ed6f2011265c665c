"""Load balancing without an auxiliary loss: a bias per expert in the router's choice.

After each step, an expert with more than its share of the choices gets a lower bias, one with less
a higher bias (Wang et al. 2024, arXiv 2408.15664; DeepSeek-V3, section 2.1.2). The bias is a
parameter named `router_bias`, so that checkpoints, averages and meshes need no rule for it. Its
gradient is the expert's excess load, and its update is -rate * sign(excess) with any optimizer.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

NAME = "router_bias"


def excess_load(
    expert: Int[Array, "G S k"], padding_mask: Bool[Array, "G S"], experts: int
) -> Float[Array, "E"]:
    """Returns each expert's share of the choices of all tokens, minus the even share 1/E.

    Capacity does not matter: a dropped choice is load too. Padding is not load.
    """
    weight = jnp.broadcast_to(padding_mask[..., None], expert.shape).astype(float)
    load = jax.vmap(lambda e, w: jnp.zeros(experts).at[e].add(w))(expert, weight).sum(axis=0)
    return load / jnp.maximum(weight.sum(), 1.0) - 1.0 / experts


@jax.custom_vjp
def with_excess(y: Array, bias: Float[Array, "E"], excess: Float[Array, "E"]) -> Array:
    """Returns `y`; `bias` gets the gradient `excess`, whatever the loss is."""
    del bias, excess
    return y


def _forward(y: Array, bias: Array, excess: Array) -> tuple[Array, Array]:
    del bias
    return y, excess


def _backward(excess: Array, dy: Array) -> tuple[Array, Array, Array]:
    return dy, excess, jnp.zeros_like(excess)


with_excess.defvjp(_forward, _backward)


def split(gradients: Any) -> tuple[Any, Any]:
    """Returns (gradients with 0 for every router bias, the excess loads in the same tree).

    In the second tree, all leaves but router biases are None.
    """
    without_biases = _map_leaves(
        lambda bias, leaf: jnp.zeros_like(leaf) if bias else leaf, gradients
    )
    return without_biases, _map_leaves(lambda bias, leaf: leaf if bias else None, gradients)


def update(updates: Any, excess: Any, rate: float) -> Any:
    """Returns the optimizer's updates with those of router biases replaced by -rate * sign(excess).
    """

    def leaf(update: Array, load: Array | None) -> Array:
        return update if load is None else (-rate * jnp.sign(load)).astype(update.dtype)

    return jax.tree.map(leaf, updates, excess, is_leaf=lambda x: x is None)


def _map_leaves(function: Any, tree: Any) -> Any:
    """Maps function(is_router_bias, leaf) over a tree of parameters."""

    def apply(path: Any, value: Any) -> Any:
        return function(getattr(path[-1], "key", None) == NAME, value)

    return jax.tree_util.tree_map_with_path(apply, tree)
