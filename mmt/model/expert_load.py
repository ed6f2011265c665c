"""Measures the use of experts by layer: the number of tokens and the sum of their gates."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from mmt.model import balance, parameter_names
from mmt.model.config import Config
from mmt.model.moe import MoeConfig

STACKS = ("encoder", "decoder")


def expert_load(
    model: Any, params: Any, features: Mapping[str, Any], language_ids: Int[Array, "B T"],
    *, languages: int,
) -> dict[str, Float[Array, "layers languages experts"]]:  # fmt: skip
    """Returns the number of tokens per expert, by stack, layer and language, without dropout.

    A token with two experts counts twice. Padding does not count.

    Args:
        model: a model with experts.
        params: its parameters.
        features: the model's inputs, with the segments of both sides.
        language_ids: of target tokens. Source tokens have the language of their segment.
        languages: the number of languages.
    """
    segments = {stack: features[f"{stack}_segment_ids"] for stack in STACKS}
    _, sown = model.apply({"params": params}, **features, mutable=["routing"])
    experts = model.config.moe.num_experts
    loads = {}
    for stack, choices in _choices(sown["routing"]).items():
        token_languages = _languages(segments[stack], segments["decoder"], language_ids).ravel()
        is_token = (segments[stack] > 0).ravel()
        flat = choices.reshape(len(choices), -1, choices.shape[-1])[:, : is_token.size]
        count = jnp.zeros((len(choices), languages, experts))
        layer = jnp.arange(len(choices))[:, None, None]
        weights = jnp.broadcast_to(is_token[None, :, None], flat.shape).astype(float)
        loads[stack] = count.at[layer, token_languages[None, :, None], flat].add(weights)
    return loads


def _choices(routing: Any) -> dict[str, Int[Array, "layers G S k"]]:
    """Returns the chosen experts by stack: the first array that its layers sow."""
    choices: dict[str, Array] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(routing):
        stack = next(part.key for part in path if getattr(part, "key", "") in STACKS)
        choices.setdefault(stack, leaf)
    return choices


def _languages(
    segments: Int[Array, "B S"], target_segments: Int[Array, "B T"], ids: Int[Array, "B T"]
) -> Int[Array, "B S"]:
    """Returns the language of every token by its segment, which is that of its target."""
    rows = jnp.arange(len(ids))[:, None]
    language_of_segment = jnp.zeros((len(ids), ids.shape[1] + 1), ids.dtype)
    language_of_segment = language_of_segment.at[rows, target_segments].set(ids)
    return jnp.take_along_axis(language_of_segment, segments, axis=1)


class GateMass(NamedTuple):
    """How much some tokens use each expert of a layer, in translation.

    Attributes:
        mass: sum of the gates of each expert, the weights of its output. With conditional routing
            the token's own gate multiplies them.
        tokens: number of tokens that choose each expert.
        total: number of tokens; with conditional routing, the sum of their gates.
        replaced: sum of the gates that all experts of the layer had for the tokens of each expert,
            in proportion to its gates. It differs from `mass` only where experts are left out.
    """

    mass: Float[Array, "E"]
    tokens: Float[Array, "E"]
    total: Float[Array, ""]
    replaced: Float[Array, "E"]


def gate_mass(
    model: Any, params: Any, features: Mapping[str, Any],
    kept: Mapping[str, Bool[Array, "E"]],
) -> dict[str, GateMass]:  # fmt: skip
    """Returns the gates of a batch without dropout, by layer ('encoder/1/mlp').

    Where experts are left out, the layer's input is still that of the whole model.

    Args:
        model: a model with experts.
        params: its parameters.
        features: the model's inputs, with the segments of both sides. Padding does not count.
        kept: by layer, whether the router may choose an expert.
    """
    collections = ["router", "routing"]
    _, sown = model.apply({"params": params}, **features, mutable=collections)
    flat, c = parameter_names.to_flat(params, model.config), model.config
    token_gates = dict(_by_layer(sown["routing"], "moe_gate", c))
    masses = {}
    for mlp, logits in _by_layer(sown["router"], "logits", c):
        is_token = (features[f"{mlp.partition('/')[0]}_segment_ids"] > 0).ravel()
        weight = (
            is_token * token_gates[mlp].ravel() if mlp in token_gates else is_token.astype(float)
        )
        bias = flat.get(f"{mlp}/{balance.NAME}")
        all_weights = token_weights(c.moe, logits, bias)
        # Added to the logits, it removes the experts that are not kept.
        excluded = jnp.where(kept[mlp], 0.0, -jnp.inf).astype(logits.dtype)
        kept_weights = token_weights(
            c.moe, logits + excluded, None if bias is None else bias + excluded
        )
        share = kept_weights / jnp.sum(kept_weights, axis=1, keepdims=True)
        masses[mlp] = GateMass(
            mass=weight @ kept_weights,
            tokens=is_token.astype(float) @ (kept_weights > 0),
            total=weight.sum(),
            replaced=weight @ (share * all_weights.sum(axis=1, keepdims=True)),
        )  # fmt: skip
    return masses


def token_weights(
    moe: MoeConfig, logits: Float[Array, "N E"], bias: Float[Array, "E"] | None = None
) -> Float[Array, "N E"]:
    """Returns the weight of each expert's output for each token in translation, by the router.

    It is 0 for experts that the token does not use. Expert output masking is left out.

    bias: of the choice, where `MoeConfig.balance_rate` is set.
    """
    experts = logits.shape[1]
    options = {} if bias is None else {"bias": bias}
    routing = moe.router(
        logits[None], jnp.ones((1, len(logits)), bool), capacity_factor=float(experts),
        uniform=jnp.zeros((1, len(logits))), **options,
    )  # fmt: skip
    gate = (routing.gate * routing.dispatched)[0]
    token = jnp.arange(len(logits))[:, None]
    return jnp.zeros(logits.shape, gate.dtype).at[token, routing.expert[0]].add(gate)


def _by_layer(collection: Any, name: str, config: Config) -> Iterator[tuple[str, Array]]:
    """Yields (prefix of the layer's parameters, sown array) of each layer with experts."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(collection):
        keys = [str(part.key) for part in path if hasattr(part, "key")]
        if keys[-1] != name:
            continue
        names = parameter_names.members("/".join([*keys[:-1], "router"]), config)
        for member, array in zip(names, leaf, strict=True):
            yield member.removesuffix("/router"), array
