"""Counts a model's parameters by part, from their shapes.

Nothing is allocated: a laptop counts a model of 600 billion parameters in a second.
`mmt.plan.estimate` computes memory and time.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from mmt.model import parameter_names
from mmt.model.transformer import Transformer

PARTS = (
    "embeddings", "encoder attention", "decoder attention", "dense MLPs", "experts", "routers",
    "norms", "logits",
)  # fmt: skip
_UNITS = ((10**9, "B"), (10**6, "M"), (10**3, "K"))


@dataclass(frozen=True)
class Count:
    """Number of parameters, and of those active in one token's arithmetic.

    `active` is the sum over a source token in the encoder and a target token in the decoder. It
    includes the experts that the router chooses and the whole router, but no embedding or routing
    table that is only looked up.
    """

    total: int
    active: int


@dataclass(frozen=True)
class Parameters:
    """The counts of the PARTS that a model has.

    `experts` is the number of experts per layer, 0 for a dense model; `choices` is the number of
    them that process a token.
    """

    parts: Mapping[str, Count]
    experts: int
    choices: int

    @property
    def whole(self) -> Count:
        """Returns the sum of all parts."""
        counts = self.parts.values()
        return Count(sum(c.total for c in counts), sum(c.active for c in counts))

    def to_json(self) -> dict:
        """Returns {"total": 1, "active": 1, "parts": {"embeddings": {"total": 1, ...}, ...}}."""
        return {**vars(self.whole), "parts": {n: vars(c) for n, c in self.parts.items()}}

    def table(self) -> str:
        """Returns a text table: a row per part, their sum, and a definition of 'active'."""
        rows = [("parameters", "total", "active")]
        for name, count in {**self.parts, "total": self.whole}.items():
            rows.append((name, readable(count.total), readable(count.active)))
        lines = [f"{name:<18}{total:>12}{active:>12}" for name, total, active in rows]
        chosen = f"{self.choices} of {self.experts} experts per layer, " if self.experts else ""
        lines.append(f"active: in a token's arithmetic; {chosen}no table that is only looked up")
        return "\n".join(lines)


def count(model: Transformer) -> Parameters:
    """Counts the parameters of `model`. Raises ValueError if it is not a Transformer."""
    if not isinstance(model, Transformer):
        raise ValueError(f"MODEL is {model!r}; allowed: a transformer.Transformer")
    config, shapes = model.config, parameter_names.shapes(model)
    expert_layers = {name.removesuffix("router") for name in shapes if name.endswith("/mlp/router")}
    experts = config.moe.num_experts if expert_layers else 0
    choices = _choices(model) if expert_layers else 0
    target = "target_embed" if config.target_vocab_size else "source_embed"
    total = dict.fromkeys(PARTS, 0)
    active = dict.fromkeys(PARTS, 0)
    for name, shape in shapes.items():
        part, size = _part(name, expert_layers), math.prod(shape)
        total[part] += size
        if part == "experts":
            active[part] += size // experts * choices
        elif name.endswith("/router") and config.routing_table(name.split("/")[0]):
            continue  # only looked up
        elif part != "embeddings" or (config.tied_logits and name.startswith(target)):
            active[part] += size
    parts = {part: Count(total[part], active[part]) for part in PARTS if total[part]}
    return Parameters(parts, experts, choices)


def readable(count: int) -> str:
    """Formats 206_554_000_000 as '206.55 B'; the largest unit is B (10^9)."""
    for size, unit in _UNITS:
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return str(count)


def _part(name: str, expert_layers: set[str]) -> str:
    """Returns the part of a flat name; `expert_layers` has the prefixes '…/mlp/'."""
    *prefix, owner, leaf = name.split("/")
    if owner in ("source_embed", "target_embed"):
        return "embeddings"
    if owner == "logits":
        return "logits"
    if leaf == "scale":
        return "norms"
    if leaf in ("router", "router_bias", "gate"):
        return "routers"
    if owner == "shared":  # the MLP beside the experts
        return "dense MLPs"
    if owner == "mlp":
        return "experts" if name.removesuffix(leaf) in expert_layers else "dense MLPs"
    assert owner.endswith("attention") or owner == "relative_bias", name
    return f"{prefix[0]} attention"


def _choices(model: Transformer) -> int:
    """Returns the number of experts that the model's router chooses for a token."""
    moe = model.config.moe

    def route(logits: jax.Array, padding_mask: jax.Array, uniform: jax.Array) -> jax.Array:
        return moe.router(logits, padding_mask, capacity_factor=1.0, uniform=uniform).expert

    logits = jax.ShapeDtypeStruct((1, 1, moe.num_experts), jnp.float32)
    chosen = jax.eval_shape(route, logits, jnp.ones((1, 1), bool), jnp.zeros((1, 1)))
    return min(chosen.shape[-1], moe.num_experts)
