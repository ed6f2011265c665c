"""Converts a Hugging Face config.json to a `Config`, and back.

It knows the architectures of T5 (1.0, 1.1, mT5, MADLAD-400), UMT5 and Switch Transformers as
`transformers` 5 computes them. A setting that has no exact equivalent is an error. Weights are
converted in `mmt.convert.names` and `mmt.convert.hf`.
"""

import inspect
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mmt import suggest
from mmt.model.config import Config
from mmt.model.moe import MoeConfig, switch_top1

MODEL_TYPES = {
    "t5": "T5ForConditionalGeneration",
    "mt5": "MT5ForConditionalGeneration",
    "umt5": "UMT5ForConditionalGeneration",
    "switch_transformers": "SwitchTransformersForConditionalGeneration",
}
# dense_act_fn -> our name. 'gelu' is the exact function, which T5 does not use, and is not here.
_ACTIVATIONS = {
    "relu": "relu",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "silu": "silu",
    "swish": "silu",
    "linear": "linear",
}
_SIZES = {  # field of config.json -> field of Config
    "vocab_size": "vocab_size",
    "d_model": "emb_dim",
    "num_heads": "num_heads",
    "d_kv": "head_dim",
    "d_ff": "mlp_dim",
    "num_layers": "encoder_layers",
    "num_decoder_layers": "decoder_layers",
    "relative_attention_num_buckets": "relative_buckets",
    "relative_attention_max_distance": "relative_max_distance",
}
SPECIAL_IDS = {
    "pad_token_id": "pad_id",
    "eos_token_id": "eos_id",
    "decoder_start_token_id": "start_id",
}
_GENERATION = "generation_config.json"
_NO_DROPS = 1 << 20  # expert capacity per sequence: no token is dropped, as in our decoding
_CAPACITY = 1.25  # of Switch's training (Fedus et al. 2021, section 2.2); config.json has no field


class _Kind(NamedTuple):
    """A kind of value in config.json: its description, and a predicate."""

    allowed: str
    fits: Callable[[Any], bool]


def _integers(low: int, high: int = (1 << 31) - 1) -> _Kind:
    return _Kind(
        f"an integer, {low} to {high}", lambda value: type(value) is int and low <= value <= high
    )


def _one_of(*values: str | bool) -> _Kind:
    listed = ", ".join(json.dumps(v) if isinstance(v, bool) else v for v in values)
    return _Kind(
        listed, lambda value: any(type(value) is type(v) and value == v for v in values)
    )


_SIZE = _integers(1)
_COUNT = _integers(0)
_RATE = _Kind(
    "a number, 0 <= x < 1", lambda value: type(value) in (int, float) and 0 <= value < 1
)
_EPSILON = _Kind("1e-06", lambda value: _RATE.fits(value) and math.isclose(value, 1e-6))
_FLAG = _one_of(True, False)
_ROUTER_DTYPE = _one_of("float32", "bfloat16")
_NAME = _Kind("a string", lambda value: isinstance(value, str))
_UNGATED = _Kind(
    "a string without 'gated-'",
    lambda value: isinstance(value, str) and not value.startswith("gated-"),
)
_NAMES = _Kind(
    "a list of strings",
    lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
)


def to_config(
    settings: Mapping[str, Any], generation: Mapping[str, Any], *, where: Any
) -> Config:
    """Returns the Config of a Hugging Face model.

    Args:
        settings: the content of config.json.
        generation: the content of generation_config.json, which may be {}.
        where: path of config.json, for errors.

    Raises:
        ValueError: the architecture is unknown, a value has another type or range, our model does
            not have a setting, or the files leave a special id open.
    """
    kind = settings.get("model_type")
    if not isinstance(kind, str) or kind not in MODEL_TYPES:
        hint = suggest.hint(str(kind), MODEL_TYPES, cutoff=0.0)
        raise ValueError(
            f"{where}: model_type is {kind!r}; allowed: {', '.join(MODEL_TYPES)}{hint}"
        )
    architectures = settings.get("architectures")
    for name in [] if architectures is None else _read(settings, "architectures", where, _NAMES):
        if not name.endswith("ForConditionalGeneration"):
            raise ValueError(f"{where}: architecture {name}; allowed: {MODEL_TYPES[kind]}")
    _refuse(settings, where)
    defaults = {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}
    sizes = {**defaults, **settings}
    if sizes.get("num_decoder_layers") is None:
        sizes["num_decoder_layers"] = _read(sizes, "num_layers", where, _SIZE)
    options: dict[str, Any] = {
        ours: _read(sizes, name, where, _SIZE) for name, ours in _SIZES.items()
    }
    ids = _integers(0, options["vocab_size"] - 1)
    options |= {
        ours: _special_id(name, settings, generation, where, ids)
        for name, ours in SPECIAL_IDS.items()
    }
    if kind == "switch_transformers":
        depths = {stack: options[f"{stack}_layers"] for stack in ("encoder", "decoder")}
        options |= _experts(settings, where, depths)
    options["mlp_activations"] = _activations(settings, where)
    options["dropout_rate"] = float(_read(settings, "dropout_rate", where, _RATE, 0.1))
    try:
        return Config(
            **options, tied_logits=scales_logits(settings), relative_bias_per_layer=kind == "umt5"
        )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def scales_logits(settings: Mapping[str, Any]) -> bool:
    """Returns whether the model multiplies the decoder's output by d_model^-0.5 before the logits.

    T5 1.0 does, whose logits are products with the embedding; mT5 never does.
    """
    if settings["model_type"] == "mt5":
        return False
    tied = settings.get("tie_word_embeddings", True) is not False
    t5 = settings["model_type"] in ("t5", "umt5")
    scaled = settings.get("scale_decoder_outputs") if t5 else None
    return tied if scaled is None else bool(scaled)


def from_config(config: Config) -> dict[str, Any]:
    """Returns the config.json of a model. Raises ValueError without such an architecture."""
    kind = _model_type(config)
    settings: dict[str, Any] = {
        "architectures": [MODEL_TYPES[kind]],
        "model_type": kind,
        "is_encoder_decoder": True,
        "dtype": "float32",
        "layer_norm_epsilon": 1e-6,
        "dropout_rate": config.dropout_rate,
        "tie_word_embeddings": config.tied_logits,
        "use_cache": True,
    }
    settings |= {name: getattr(config, ours) for name, ours in (_SIZES | SPECIAL_IDS).items()}
    hf_names = {ours: name for name, ours in reversed(_ACTIVATIONS.items())}
    first, *gate = config.mlp_activations
    if kind != "switch_transformers":
        if gate not in ([], ["linear"]):
            raise ValueError(
                f"mlp_activations = {config.mlp_activations}; Hugging Face's T5 has one, or one "
                "and 'linear'"
            )
        short = "gelu" if gate and first == "gelu" else hf_names[first]
        settings["feed_forward_proj"] = f"gated-{short}" if gate else short
        return settings | {"dense_act_fn": hf_names[first], "is_gated_act": bool(gate)}
    return settings | {
        "dense_act_fn": hf_names[first],
        "num_experts": config.moe.num_experts,
        "expert_capacity": _NO_DROPS,
        "router_bias": False,
        "router_jitter_noise": config.moe.jitter,
        "router_dtype": config.moe.router_dtype,
        **_sparse_settings("encoder", config.encoder_layers, config.moe_period),
        **_sparse_settings("decoder", config.decoder_layers, config.moe_period),
    }


def _model_type(config: Config) -> str:
    if not config.moe_period:
        return "umt5" if config.relative_bias_per_layer else "t5"
    remedy = "distil it into a dense model (`mmt distill`) and export that"
    if config.moe.mlp_dim not in (0, config.mlp_dim):
        raise ValueError(
            f"MoeConfig.mlp_dim = {config.moe.mlp_dim}: an expert of Switch Transformers is as "
            f"wide as the other layers, {config.mlp_dim}"
        )
    for name in ("encoder_routing", "decoder_routing"):
        if getattr(config, name) != "token":
            raise ValueError(
                f"Config.{name} = {getattr(config, name)}: Hugging Face's Switch Transformers "
                f"route by token only; {remedy}"
            )
    for name in ("shared_mlp_dim", "balance_rate", "output_masking", "final_output_masking"):
        if getattr(config.moe, name):
            raise ValueError(
                f"MoeConfig.{name} = {getattr(config.moe, name)}: Hugging Face's Switch "
                f"Transformers have no such thing; {remedy}"
            )
    if inspect.unwrap(config.moe.router) is not inspect.unwrap(switch_top1):  # gin wraps it
        name = getattr(config.moe.router, "__name__", str(config.moe.router))
        raise ValueError(
            f"Hugging Face has no architecture for experts with the router {name}: only Switch "
            f"Transformers' switch_top1 can be exported; {remedy}"
        )
    if len(config.mlp_activations) > 1 or config.relative_bias_per_layer:
        raise ValueError(
            "Hugging Face's Switch Transformers have one activation and one relative bias for a "
            f"stack, not mlp_activations = {config.mlp_activations}, relative_bias_per_layer = "
            f"{config.relative_bias_per_layer}; {remedy}"
        )
    return "switch_transformers"


def _refuse(settings: Mapping[str, Any], where: Any) -> None:
    """Raises ValueError for settings that change numbers and that our model does not have."""
    _read(settings, "layer_norm_epsilon", where, _EPSILON, 1e-6)
    _read(settings, "is_encoder_decoder", where, _one_of(True), True)
    _read(settings, "tie_word_embeddings", where, _FLAG, True)
    if settings.get("scale_decoder_outputs") is not None:
        _read(settings, "scale_decoder_outputs", where, _FLAG)
    for name in ("router_bias", "is_decoder", "quantization_config"):
        if settings.get(name):
            raise ValueError(f"{where}: {name} is {settings[name]!r}, which mmt does not have")


def _activations(settings: Mapping[str, Any], where: Any) -> tuple[str, ...]:
    """Returns ('gelu', 'linear') of 'gated-gelu'; dense_act_fn and is_gated_act take precedence."""
    switch = settings["model_type"] == "switch_transformers"
    default = "relu" if settings["model_type"] == "t5" or switch else "gated-gelu"
    proj = _read(settings, "feed_forward_proj", where, _UNGATED if switch else _NAME, default)
    gated, name = proj.startswith("gated-"), proj.removeprefix("gated-")
    if switch:  # the activation is only named by dense_act_fn
        _read(settings, "is_gated_act", where, _one_of(False), False)
        name = "relu"
    if proj == "gated-gelu":
        name = "gelu_new"
    gated = _read(settings, "is_gated_act", where, _FLAG, gated)
    name = _read(settings, "dense_act_fn", where, _NAME, name)
    if name not in _ACTIVATIONS:
        exact = " ('gelu' is the exact one, T5's 'gelu_new')" if name == "gelu" else ""
        raise ValueError(
            f"{where}: the activation is {name!r}; allowed: {', '.join(_ACTIVATIONS)}{exact}"
        )
    return (_ACTIVATIONS[name], "linear") if gated else (_ACTIVATIONS[name],)


def _special_id(
    name: str, settings: Mapping[str, Any], generation: Mapping[str, Any], where: Any, ids: _Kind
) -> int:
    """Returns the special id that the two files agree on."""
    ids_given = []
    for file, content in (where, settings), (Path(where).with_name(_GENERATION), generation):
        value = content.get(name)
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        if value is not None:
            ids_given.append(_read({name: value}, name, file, ids))
    if not ids_given:
        raise ValueError(f"{where}: no {name}, and none in {_GENERATION}: add it")
    if ids_given[0] != ids_given[-1]:
        raise ValueError(
            f"{where}: {name} is {ids_given[0]}, in {_GENERATION} {ids_given[-1]}: mmt takes one id"
        )
    return ids_given[0]


def _read(
    settings: Mapping[str, Any], name: str, where: Any, kind: _Kind, default: Any = None
) -> Any:
    """Returns a field's value or `default`. Raises ValueError if it is not of `kind`."""
    value = settings.get(name, default)
    if not kind.fits(value):
        raise ValueError(f"{where}: {name} is {value!r}; allowed: {kind.allowed}")
    return value


def _experts(settings: Mapping[str, Any], where: Any, depths: Mapping[str, int]) -> dict[str, Any]:
    """Returns moe_period and moe of a Switch Transformer with `depths` layers in its stacks."""
    stacks = {}
    for stack, layers in depths.items():
        step = _step(layers, _read(settings, f"num_sparse_{stack}_layers", where, _COUNT, 3))
        if settings.get(f"{stack}_sparse_step") is not None:
            step = _read(settings, f"{stack}_sparse_step", where, _COUNT)
        stacks[stack] = layers, _sparse(layers, step)
    for period in (1, 2):
        if all(_ours(layers, period) == sparse for layers, sparse in stacks.values()):
            moe = MoeConfig(
                num_experts=_read(settings, "num_experts", where, _SIZE, 8),
                router=switch_top1,
                capacity_factor=_CAPACITY,
                jitter=float(_read(settings, "router_jitter_noise", where, _RATE, 0.01)),
                expert_dropout=float(_read(settings, "dropout_rate", where, _RATE, 0.1)),
                router_dtype=_read(settings, "router_dtype", where, _ROUTER_DTYPE, "float32"),
            )
            return {"moe_period": period, "moe": moe}
    listed = "; ".join(f"{stack} {sorted(sparse)}" for stack, (_, sparse) in stacks.items())
    raise ValueError(
        f"{where}: the layers with experts are {listed} (counted from 0); mmt has them in every "
        "layer or in every other one, 1, 3, 5, ..., of both stacks"
    )


def _step(layers: int, sparse: int) -> int:
    return layers // sparse if sparse > 0 else layers


def _sparse(layers: int, step: int) -> set[int]:
    """Returns the layers with experts in Hugging Face's model."""
    return {i for i in range(layers) if step > 0 and (step == 1 or i % step == 1)}


def _ours(layers: int, period: int) -> set[int]:
    """Returns the layers with experts in our model: the last of every whole block."""
    return {i for i in range(layers) if i % period == period - 1}


def _sparse_settings(stack: str, layers: int, period: int) -> dict[str, int]:
    for count in range(layers, 0, -1):
        step = _step(layers, count)
        if _sparse(layers, step) == _ours(layers, period):
            return {f"num_sparse_{stack}_layers": count, f"{stack}_sparse_step": step}
    raise ValueError(
        f"Hugging Face's Switch Transformers cannot have experts in layers "
        f"{sorted(_ours(layers, period))} of {layers} (moe_period = {period}): only in every "
        "layer or every other one"
    )
