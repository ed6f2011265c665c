"""`MoeMlp`: an MLP with experts, in place of `layers.Mlp`.

In training experts have a capacity, and dropped tokens keep the residual only. In decoding no token
is dropped, so a token's result never depends on other tokens. `mmt.model.routing` chooses experts;
`mmt.model.dispatch` moves tokens to them. A shared MLP of all tokens may stand beside the experts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from mmt import checked
from mmt.checked import within
from mmt.model import balance, dispatch, layers
from mmt.model.product import Kernel, Quantized, SeparateExperts
from mmt.model.routing import MEASURES, Router, Routing, gshard_top2, switch_top1

__all__ = [
    "MEASURES", "MoeConfig", "MoeMlp", "Router", "Routing", "gshard_top2", "measures", "summarize",
    "switch_top1",
]  # fmt: skip

GATE_MEASURES = ("moe_gate", "moe_budget_loss")  # of conditional routing


@dataclass(frozen=True)
class MoeConfig:
    """Options of a `MoeMlp`.

    The defaults are GShard's. Switch: router=switch_top1, capacity_factor=1.25, jitter=0.01.
    NLLB-200: output_masking=0.2. Conditional routing (CMR, Elbayad et al. 2023): gate_budget=0.8,
    gate_dropout=0.1, and the shared_mlp_dim of a dense layer. DeepSeek-V3: balance_rate=0.001, and
    losses.Objective.moe_aux=0.
    """

    num_experts: int = field(default=8, metadata=within(1))
    router: Router = gshard_top2
    # hidden size of an expert; 0: that of layers without experts
    mlp_dim: int = field(default=0, metadata=within(0))
    # maximum number of tokens that share the experts' buffers
    group_size: int = field(default=1024, metadata=within(1))
    # in training; in decoding all tokens fit (Switch has 2.0)
    capacity_factor: float = field(default=1.0, metadata=within(0, above=True, below=True))
    # in training, a token router's input is multiplied by 1 +- jitter
    jitter: float = field(default=0.0, metadata=within(0, 1, below=True))
    # in training, inside the experts
    expert_dropout: float = field(default=0.0, metadata=within(0, 1, below=True))
    # in training, share of expert outputs that are masked
    output_masking: float = field(default=0.0, metadata=within(0, 1, below=True))
    # in training, share of tokens whose combined output of all experts is masked
    final_output_masking: float = field(default=0.0, metadata=within(0, 1, below=True))
    # hidden size of an MLP that processes every token beside the experts; 0: none
    shared_mlp_dim: int = field(default=0, metadata=within(0))
    # 0: the shared MLP's output is added to the experts'. Else a gate g per token mixes them,
    # (1 - g) shared + g experts, and `Objective.moe_budget` keeps its mean near this number
    gate_budget: float = field(default=0.0, metadata=within(0, 1))
    # in training, share of tokens that get the shared MLP alone
    gate_dropout: float = field(default=0.0, metadata=within(0, 1, below=True))
    # step of the experts' bias in the choice (`mmt.model.balance`); 0: no bias
    balance_rate: float = field(default=0.0, metadata=within(0))
    # weights have standard deviation sqrt(init_scale / fan_in)
    init_scale: float = field(default=0.1, metadata=within(0, above=True, below=True))
    router_dtype: str = "float32"  # bfloat16 is for measuring its cost in quality
    dispatch: str = "auto"  # one of `dispatch.DISPATCHERS`; auto: the fastest on the backend

    def __post_init__(self) -> None:
        checked.check(self)
        checked.one_of(self, "router_dtype", self.router_dtype, ("float32", "bfloat16"))
        checked.one_of(self, "dispatch", self.dispatch, ("auto", *dispatch.DISPATCHERS))
        if self.gate_budget and not self.shared_mlp_dim:
            raise ValueError(
                f"MoeConfig.gate_budget = {self.gate_budget} needs a shared MLP, and "
                "MoeConfig.shared_mlp_dim = 0; allowed: a shared_mlp_dim of 1 or more"
            )
        if self.gate_dropout and not self.gate_budget:
            raise ValueError(
                f"MoeConfig.gate_dropout = {self.gate_dropout} needs a gate; allowed: a "
                "MoeConfig.gate_budget above 0"
            )


def measures(config: MoeConfig) -> tuple[str, ...]:
    """Returns the names of the measures that a model with this configuration sows."""
    return MEASURES + (GATE_MEASURES if config.gate_budget else ())


class MoeMlp(nn.Module):
    """`layers.Mlp` with experts: the same signature, the same activations.

    Sows its router's measures under 'intermediates', which `summarize` reads. If these collections
    are mutable: under 'routing' the experts and positions of every token, and its gate (CMR); under
    'router' the logits of every token [N E].

    With `languages` above 0, the router's logits of a token are the row of its language in a
    learned table (task-level routing, Kudugunta et al. 2021): the tokens of a language share
    experts, and similar languages can share them too.
    """

    hidden: int
    activations: Sequence[str]
    dtype: jnp.dtype
    config: MoeConfig
    dropout_rate: float = 0.0  # of the shared MLP
    languages: int = 0  # rows of the router's table; 0: the router sees the tokens

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "B T D"],
        padding_mask: Bool[Array, "B T"],
        enable_dropout: bool = False,
        language_ids: Int[Array, "B #T"] | None = None,
    ) -> Float[Array, "B T D"]:
        """Applies the experts.

        `padding_mask` is True for tokens; padding gives 0. `enable_dropout` is True in training,
        with capacity and noise; otherwise no token is dropped. `language_ids` are needed where the
        router has a table of languages.
        """
        c, tokens = self.config, x.reshape(-1, x.shape[-1])
        dispatcher = dispatch.fastest(c.dispatch) if enable_dropout else dispatch.blocks
        count = groups(*x.shape[:2], size=c.group_size)
        # Only in decoding, since its buffers have the size experts x tokens.
        if dispatch.experts_are_sharded() and not enable_dropout:
            dispatcher, count = dispatch.gather, x.shape[0]
        if language_ids is not None:
            language_ids = jnp.broadcast_to(language_ids, x.shape[:2]).reshape(-1)
        routing = self._route(tokens, padding_mask.reshape(-1), language_ids, count, enable_dropout)
        self.sow("intermediates", "moe", routing.measures)
        self.sow("routing", "moe", (routing.expert, routing.position_in_expert))
        weights = self._weights(x.shape[-1])
        if enable_dropout:  # one mask per expert, as T5 has one for all positions of a row
            dropout = nn.Dropout(c.expert_dropout, broadcast_dims=(-1,))
            weights[-1] = dropout(weights[-1], deterministic=False)

        def mlp(rows: Array, weights: Sequence[Kernel], product: dispatch.Product) -> Array:
            *inputs, output = weights
            hidden = jnp.ones((), rows.dtype)
            for activation, wi in zip(self.activations, inputs, strict=True):
                hidden = hidden * layers.ACTIVATIONS[activation](product(rows, wi))
            if rows.ndim == 3:  # [E R F]
                hidden = nn.with_logical_constraint(hidden, ("expert", "expert_group", "mlp"))
            return product(hidden, output)

        y = dispatcher(_grouped(tokens, count), routing, mlp, weights)
        y = y.reshape(-1, x.shape[-1])[: tokens.shape[0]].reshape(x.shape)
        if c.final_output_masking:
            y = y * self._output_mask(x.shape[:2], c.final_output_masking, enable_dropout, y.dtype)
        return self._with_shared(x, y, padding_mask, enable_dropout) if c.shared_mlp_dim else y

    def _route(
        self,
        flat: Float[Array, "N D"],
        padding_mask: Bool[Array, "N"],
        language_ids: Int[Array, "N"] | None,
        count: int,
        enable_dropout: bool,
    ) -> Routing:
        """Returns the routing, computed in `router_dtype`.

        Noise depends on a token's number in the batch, not on the groups or the mesh.
        """
        c, uniform, noise = self.config, jnp.zeros(flat.shape[0]), None
        if enable_dropout:
            uniform_key, noise = jax.random.split(self.make_rng("dropout"))
            uniform = jax.random.uniform(uniform_key, uniform.shape)
        logits = self._logits(flat, language_ids, noise)
        self.sow("router", "logits", logits)
        options = {}
        if c.balance_rate:
            zeros, shape = nn.initializers.zeros_init(), (c.num_experts,)
            options["bias"] = layers.parameter(
                self, balance.NAME, init=zeros, shape=shape, axes=("unmodeled",)
            )
        padding_mask = _grouped(padding_mask, count)
        routing = c.router(
            _grouped(logits, count),
            padding_mask,
            capacity_factor=c.capacity_factor if enable_dropout else float(c.num_experts),
            uniform=_grouped(uniform, count),
            **options,
        )
        gate = routing.gate
        if c.balance_rate and enable_dropout:
            excess = balance.excess_load(routing.expert, padding_mask, c.num_experts)
            gate = balance.with_excess(gate, options["bias"], excess)
        if c.output_masking:
            choices = (flat.shape[0], gate.shape[-1])
            unmasked = self._output_mask(choices, c.output_masking, enable_dropout, gate.dtype)
            gate = gate * (_grouped(unmasked[..., 0], count) if enable_dropout else unmasked)
        return routing._replace(gate=gate)

    def _logits(
        self, flat: Float[Array, "N D"], language_ids: Int[Array, "N"] | None, noise: Any
    ) -> Float[Array, "N E"]:
        """Returns the router's logits; `noise` is the random key of the jitter, or None."""
        c, dtype = self.config, float if self.config.router_dtype == "float32" else jnp.bfloat16
        if self.languages:
            assert language_ids is not None, "a table of languages needs language ids"
            table = layers.parameter(
                self,
                "router",
                init=nn.initializers.normal(math.sqrt(c.init_scale)),  # of logits, as below
                shape=(self.languages, c.num_experts),
                axes=(None, "unmodeled"),
            )
            # An id outside the table gives NaN instead of another language's experts.
            return jnp.take(table.astype(dtype), language_ids, axis=0, mode="fill")
        kernel = layers.parameter(
            self,
            "router",
            init=layers.fan_in(c.init_scale),
            shape=(flat.shape[-1], c.num_experts),
            axes=("embed", "unmodeled"),
        )
        flat = flat.astype(dtype)
        if noise is not None and c.jitter:
            jitter = jax.random.uniform(noise, flat.shape, minval=-c.jitter, maxval=c.jitter)
            flat = flat * (1 + jitter).astype(dtype)
        return jnp.matmul(flat, kernel.astype(dtype), precision=jax.lax.Precision.HIGHEST)

    def _output_mask(
        self, shape: Sequence[int], rate: float, enable_dropout: bool, dtype: jnp.dtype
    ) -> Float[Array, "..."]:
        """Returns the weight of outputs under expert output masking (NLLB Team 2022).

        In training it is 0 with probability p, else 1, with shape [*shape 1]; in decoding it is
        1 - p. Outputs that are not masked are not scaled up, as in fairseq's branch nllb, which
        trained the published weights.
        """
        if not enable_dropout:
            return jnp.asarray(1 - rate, dtype)
        unmasked = jax.random.uniform(self.make_rng("dropout"), shape) >= rate
        return unmasked[..., None].astype(dtype)

    def _with_shared(
        self,
        x: Float[Array, "B T D"],
        y: Float[Array, "B T D"],
        padding_mask: Bool[Array, "B T"],
        enable_dropout: bool,
    ) -> Float[Array, "B T D"]:
        """Returns the experts' output `y` with that of the shared MLP.

        Without a gate the two are added (DeepSeekMoE's shared expert). With one they are mixed:
        conditional MoE routing, CMR (Elbayad et al. 2023, section 3.2). The budget loss is
        |mean of g over tokens - gate_budget|.
        """
        c = self.config
        mlp = layers.Mlp(
            c.shared_mlp_dim, self.activations, self.dropout_rate, self.dtype, name="shared"
        )
        shared = mlp(x, padding_mask, enable_dropout)
        if not c.gate_budget:
            return y + shared
        init, shape = layers.fan_in(c.init_scale), (x.shape[-1], 1)
        kernel = layers.parameter(
            self, "gate", init=init, shape=shape, axes=("embed", "unmodeled")
        )
        logits = jnp.matmul(x.astype(float), kernel, precision=jax.lax.Precision.HIGHEST)
        gate = jax.nn.sigmoid(logits)
        weight = padding_mask[..., None].astype(float)
        mean = (gate * weight).sum() / jnp.maximum(weight.sum(), 1.0)
        gate_measures = (mean, jnp.abs(mean - c.gate_budget))
        self.sow("intermediates", "moe_gate", dict(zip(GATE_MEASURES, gate_measures, strict=True)))
        self.sow("routing", "moe_gate", gate)
        if enable_dropout and c.gate_dropout:
            gate_kept = jax.random.uniform(self.make_rng("dropout"), gate.shape) >= c.gate_dropout
            gate = gate * gate_kept
        gate = gate.astype(y.dtype)
        return (1 - gate) * shared + gate * y

    def _weights(self, features: int) -> list[Kernel | SeparateExperts]:
        """Returns W_i of every activation [E D F], then W_o [E F D].

        Kernels that are stored in fewer bits than `dtype` stay as they are, as separate ones do.
        """
        init = layers.fan_in(self.config.init_scale, inputs=1, outputs=2, experts=0)
        sizes = {"expert": self.config.num_experts, "embed": features, "mlp": self.hidden}
        axes = {f"wi_{i}": ("expert", "embed", "mlp") for i in range(len(self.activations))}
        axes["wo"] = ("expert", "mlp", "embed")
        weights = [
            layers.parameter(
                self, name, init=init, shape=[sizes[axis] for axis in kernel_axes], axes=kernel_axes
            )
            for name, kernel_axes in axes.items()
        ]
        size = jnp.dtype(self.dtype).itemsize
        return [
            weight
            if isinstance(weight, Quantized | SeparateExperts) or weight.dtype.itemsize <= size
            else weight.astype(self.dtype)
            for weight in weights
        ]


def summarize(intermediates: Mapping[str, Any]) -> dict[str, Array]:
    """Returns the mean of each measure over all layers with experts; {} without such layers.

    moe_aux_loss is 1 where experts are used equally. moe_dropped is the share of tokens that no
    expert processed. moe_load_entropy is the normalised entropy of first choices over the experts,
    1 where they are even. moe_gate is the mean gate of conditional routing.

    `intermediates` is the collection that `model.apply(..., mutable=["intermediates"])` returns.
    """
    values: dict[str, list[Array]] = {name: [] for name in MEASURES + GATE_MEASURES}
    for path, leaf in jax.tree_util.tree_leaves_with_path(intermediates):
        name = getattr(path[-1], "key", None)
        if name in values:
            values[name].append(jnp.ravel(leaf))
    return {name: jnp.mean(jnp.concatenate(parts)) for name, parts in values.items() if parts}


def groups(rows: int, length: int, *, size: int) -> int:
    """Returns the number of groups, each of at most `size` tokens, for a batch [rows length].

    Groups consist of whole rows where that takes less than twice the fewest groups. Then no group
    is padded, and none is divided by a mesh that divides rows. Otherwise there are as few groups as
    possible, padded. The number does not depend on the mesh, so routing is the same on any mesh.
    """
    fewest = -(-rows * length // size)
    whole_row_counts = (
        count for count in range(fewest, min(2 * fewest, rows + 1)) if rows % count == 0
    )
    return next(whole_row_counts, fewest)


def _grouped(x: Array, count: int) -> Array:
    """Reshapes [N ...] to [G S ...], padded with zeros where G does not divide N."""
    tokens = -(-x.shape[0] // count)
    padding = [(0, count * tokens - x.shape[0])] + [(0, 0)] * (x.ndim - 1)
    x = jnp.pad(x, padding).reshape(count, tokens, *x.shape[1:])
    return nn.with_logical_constraint(x, ("group", *[None] * (x.ndim - 1)))
