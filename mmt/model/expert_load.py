"""How many tokens of each language each expert gets, in every layer with experts."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

STACKS = ("encoder", "decoder")


def expert_load(
    model: Any, params: Any, features: Mapping[str, Any], language_ids: Int[Array, "B T"],
    *, languages: int,
) -> dict[str, Float[Array, "layers languages experts"]]:  # fmt: skip
    """Returns the choices of experts by stack, layer and language, of a batch without dropout.

    A token with two experts counts twice. Padding does not count. The tokens of the encoder have
    the language of the target of their example; `language_ids` are those of target tokens.

    features: the model's inputs, with the segments of both sides.
    """
    segments = {stack: features[f"{stack}_segment_ids"] for stack in STACKS}
    _, sown = model.apply({"params": params}, **features, mutable=["routing"])
    experts = model.config.moe.num_experts
    loads = {}
    for stack, choices in _choices(sown["routing"]).items():
        of_tokens = _languages(segments[stack], segments["decoder"], language_ids).ravel()
        real = (segments[stack] > 0).ravel()
        flat = choices.reshape(len(choices), -1, choices.shape[-1])[:, : real.size]
        count = jnp.zeros((len(choices), languages, experts))
        layer = jnp.arange(len(choices))[:, None, None]
        weights = jnp.broadcast_to(real[None, :, None], flat.shape).astype(float)
        loads[stack] = count.at[layer, of_tokens[None, :, None], flat].add(weights)
    return loads


def _choices(routing: Any) -> dict[str, Int[Array, "layers G S k"]]:
    """Returns the chosen experts by stack: the first of the arrays that its layers sow."""
    chosen: dict[str, Array] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(routing):
        stack = next(part.key for part in path if getattr(part, "key", "") in STACKS)
        chosen.setdefault(stack, leaf)
    return chosen


def _languages(
    segments: Int[Array, "B S"], target_segments: Int[Array, "B T"], ids: Int[Array, "B T"]
) -> Int[Array, "B S"]:
    """Returns the language of every token by its segment, which is that of its target."""
    rows = jnp.arange(len(ids))[:, None]
    of_segment = jnp.zeros((len(ids), ids.shape[1] + 1), ids.dtype)
    of_segment = of_segment.at[rows, target_segments].set(ids)
    return jnp.take_along_axis(of_segment, segments, axis=1)
