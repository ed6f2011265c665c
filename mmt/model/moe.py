"""Mixture of experts: `MoeMlp` stands in for `layers.Mlp`.

In training experts have a capacity and the rest passes by the residual; otherwise no token is
dropped, so that a token's result never depends on the tokens beside it. Who goes where is
`routing`'s, how they get there `dispatch`'s.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float

from mmt import checked
from mmt.checked import within
from mmt.model import dispatch, layers
from mmt.model.routing import MEASURES, Router, Routing, gshard_top2, switch_top1

__all__ = [
    "MEASURES", "MoeConfig", "MoeMlp", "Router", "Routing", "gshard_top2", "summarize",
    "switch_top1",
]  # fmt: skip


@dataclass(frozen=True)
class MoeConfig:
    """How a `MoeMlp` routes. GShard: the defaults. Switch: router=switch_top1,
    capacity_factor=1.25, jitter=0.01. NLLB-200: output_masking=0.2.
    """

    num_experts: int = field(default=8, metadata=within(1))
    router: Router = gshard_top2
    # an expert's width; 0: as wide as the layers without experts
    mlp_dim: int = field(default=0, metadata=within(0))
    # tokens that share buffers; at most this many
    group_size: int = field(default=1024, metadata=within(1))
    # training; otherwise there is room for all (Switch has 2.0)
    capacity_factor: float = field(default=1.0, metadata=within(0, above=True, below=True))
    # training: the router's input times 1 +- jitter
    jitter: float = field(default=0.0, metadata=within(0, 1, below=True))
    # training: inside the experts
    expert_dropout: float = field(default=0.0, metadata=within(0, 1, below=True))
    # training: share of experts' outputs that is left out
    output_masking: float = field(default=0.0, metadata=within(0, 1, below=True))
    # weights have standard deviation sqrt(init_scale / fan_in)
    init_scale: float = field(default=0.1, metadata=within(0, above=True, below=True))
    router_dtype: str = "float32"  # bfloat16 is there to show what it costs
    dispatch: str = "auto"  # a way of `dispatch.WAYS`; auto: the fastest measured on the backend

    def __post_init__(self) -> None:
        checked.check(self)
        checked.one_of(self, "router_dtype", self.router_dtype, ("float32", "bfloat16"))
        checked.one_of(self, "dispatch", self.dispatch, ("auto", *dispatch.WAYS))


class MoeMlp(nn.Module):
    """`layers.Mlp` with experts: the same call, the same activations.

    Sows its router's measures under 'intermediates', which `summarize` reads; and under 'routing',
    where that is asked for, what it decided for every token.
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
        c, flat = self.config, x.reshape(-1, x.shape[-1])
        way = dispatch.fastest(c.dispatch) if enable_dropout else dispatch.blocks
        count = groups(*x.shape[:2], size=c.group_size)
        if dispatch.spread() and not enable_dropout:  # experts x tokens in memory: for decoding
            way, count = dispatch.gather, x.shape[0]
        routing = self._route(flat, real.reshape(-1), count, enable_dropout)
        self.sow("intermediates", "moe", routing.measures)
        self.sow("routing", "moe", (routing.expert, routing.slot))
        weights = self._weights(x.shape[-1])
        if enable_dropout:  # one mask per expert, as T5 draws one for all positions of a row
            dropout = nn.Dropout(c.expert_dropout, broadcast_dims=(-1,))
            weights[-1] = dropout(weights[-1], deterministic=False)

        def mlp(rows: Array, weights: Sequence[Array], product: dispatch.Product) -> Array:
            *inputs, output = weights
            hidden = jnp.ones((), rows.dtype)
            for activation, wi in zip(self.activations, inputs, strict=True):
                hidden = hidden * layers.ACTIVATIONS[activation](product(rows, wi))
            if rows.ndim == 3:  # [E R F]
                hidden = nn.with_logical_constraint(hidden, ("expert", "expert_group", "mlp"))
            return product(hidden, output)

        y = way(_grouped(flat, count), routing, mlp, weights)
        return y.reshape(-1, x.shape[-1])[: flat.shape[0]].reshape(x.shape)

    def _route(
        self, flat: Float[Array, "N D"], real: Bool[Array, "N"], count: int, enable_dropout: bool
    ) -> Routing:
        """Router logits in `router_dtype`. Noise is drawn for the batch's tokens by their number,
        whatever the groups and the mesh.
        """
        c, dtype = self.config, float if self.config.router_dtype == "float32" else jnp.bfloat16
        kernel = layers.parameter(
            self,
            "router",
            init=layers.fan_in(c.init_scale),
            shape=(flat.shape[-1], c.num_experts),
            axes=("embed", "unmodeled"),
        )
        flat = flat.astype(dtype)
        uniform = jnp.zeros(flat.shape[0])
        if enable_dropout:
            keys = jax.random.split(self.make_rng("dropout"))
            uniform = jax.random.uniform(keys[0], uniform.shape)
            if c.jitter:
                noise = jax.random.uniform(keys[1], flat.shape, minval=-c.jitter, maxval=c.jitter)
                flat = flat * (1 + noise).astype(dtype)
        logits = jnp.matmul(flat, kernel.astype(dtype), precision=jax.lax.Precision.HIGHEST)
        routing = c.router(
            _grouped(logits, count),
            _grouped(real, count),
            capacity_factor=c.capacity_factor if enable_dropout else float(c.num_experts),
            uniform=_grouped(uniform, count),
        )
        if not c.output_masking:
            return routing
        return routing._replace(gate=self._masked(routing.gate, flat.shape[0], enable_dropout))

    def _masked(
        self, gate: Float[Array, "G S k"], tokens: int, enable_dropout: bool
    ) -> Float[Array, "G S k"]:
        """Expert output masking (NLLB Team 2022): in training each choice's output is left out
        with probability p, otherwise it is weighted by 1 - p. So does fairseq's branch nllb, which
        trained the published weights; the outputs kept in training are not scaled up.
        """
        p = self.config.output_masking
        if not enable_dropout:
            return gate * (1 - p)
        kept = jax.random.uniform(self.make_rng("dropout"), (tokens, gate.shape[-1])) >= p
        return gate * _grouped(kept, gate.shape[0])

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


def groups(rows: int, length: int, *, size: int) -> int:
    """How many groups the tokens [rows length] of a batch make, each of at most `size`.

    Whole rows where that takes less than twice as many groups, so that no group is padded or cut
    by a mesh that cuts rows; otherwise as few as can be, padded. The mesh has no say: routing is
    the same on any.
    """
    fewest = -(-rows * length // size)
    whole = (count for count in range(fewest, min(2 * fewest, rows + 1)) if rows % count == 0)
    return next(whole, fewest)


def _grouped(x: Array, count: int) -> Array:
    """[N ...] -> [G S ...]; padded with zeros where N does not divide."""
    tokens = -(-x.shape[0] // count)
    padding = [(0, count * tokens - x.shape[0])] + [(0, 0)] * (x.ndim - 1)
    x = jnp.pad(x, padding).reshape(count, tokens, *x.shape[1:])
    return nn.with_logical_constraint(x, ("group", *[None] * (x.ndim - 1)))
