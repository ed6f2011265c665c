"""What a Hugging Face config.json says of a model, and the same of ours: `Config` both ways.

Knows the architectures of T5 (1.0, 1.1, mT5, MADLAD-400), UMT5 and Switch Transformers as
`transformers` 5 computes them. What it cannot represent exactly is an error that says so; weights
are `names`' and `hf`'s part.
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
# dense_act_fn -> ours; 'gelu' without 'new' is the exact one, which T5 does not use.
_ACTIVATIONS = {
    "relu": "relu",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "silu": "silu",
    "swish": "silu",
    "linear": "linear",
}
_SIZES = {  # of config.json -> of Config
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
_NO_DROPS = 1 << 20  # tokens of a sequence that an expert takes: as our decoding, all
_CAPACITY = 1.25  # Switch's in training (Fedus et al. 2021, section 2.2); config.json has none


class _Kind(NamedTuple):
    """What a value of config.json may be."""

    allowed: str
    fits: Callable[[Any], bool]


def _integers(low: int, high: int = (1 << 31) - 1) -> _Kind:
    return _Kind(f"an integer, {low} to {high}", lambda it: type(it) is int and low <= it <= high)


def _one_of(*values: str | bool) -> _Kind:
    listed = ", ".join(json.dumps(it) if isinstance(it, bool) else it for it in values)
    return _Kind(listed, lambda it: any(type(it) is type(one) and it == one for one in values))


_SIZE = _integers(1)
_COUNT = _integers(0)
_RATE = _Kind("a number, 0 <= x < 1", lambda it: type(it) in (int, float) and 0 <= it < 1)
_EPSILON = _Kind("1e-06", lambda it: _RATE.fits(it) and math.isclose(it, 1e-6))
_FLAG = _one_of(True, False)
_ROUTER_DTYPE = _one_of("float32", "bfloat16")
_NAME = _Kind("a string", lambda it: isinstance(it, str))
_UNGATED = _Kind(
    "a string without 'gated-'",
    lambda it: isinstance(it, str) and not it.startswith("gated-"),
)
_NAMES = _Kind(
    "a list of strings",
    lambda it: isinstance(it, list) and all(isinstance(one, str) for one in it),
)


def to_config(found: Mapping[str, Any], generation: Mapping[str, Any], *, where: Any) -> Config:
    """Our Config of config.json and generation_config.json (which may be {}).

    `where` is config.json's path, for errors. Raises ValueError for another architecture, a
    value of another type or range, a setting that our model does not have, and special ids that
    the files leave open.
    """
    kind = found.get("model_type")
    if not isinstance(kind, str) or kind not in MODEL_TYPES:
        near = suggest.hint(str(kind), MODEL_TYPES, cutoff=0.0)
        raise ValueError(
            f"{where}: model_type is {kind!r}; allowed: {', '.join(MODEL_TYPES)}{near}"
        )
    architectures = found.get("architectures")
    for name in [] if architectures is None else _read(found, "architectures", where, _NAMES):
        if not name.endswith("ForConditionalGeneration"):
            raise ValueError(f"{where}: architecture {name}; allowed: {MODEL_TYPES[kind]}")
    _refuse(found, where)
    sizes = {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, **found}
    if sizes.get("num_decoder_layers") is None:
        sizes["num_decoder_layers"] = _read(sizes, "num_layers", where, _SIZE)
    options: dict[str, Any] = {
        ours: _read(sizes, name, where, _SIZE) for name, ours in _SIZES.items()
    }
    options |= {
        ours: _special_id(name, found, generation, where, _integers(0, options["vocab_size"] - 1))
        for name, ours in SPECIAL_IDS.items()
    }
    if kind == "switch_transformers":
        depths = {stack: options[f"{stack}_layers"] for stack in ("encoder", "decoder")}
        options |= _experts(found, where, depths)
    options["mlp_activations"] = _activations(found, where)
    options["dropout_rate"] = float(_read(found, "dropout_rate", where, _RATE, 0.1))
    try:
        return Config(
            **options, tied_logits=scales_logits(found), relative_bias_per_layer=kind == "umt5"
        )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def scales_logits(found: Mapping[str, Any]) -> bool:
    """Whether config.json's model multiplies the decoder's output by d_model^-0.5 before the
    logits, as T5 1.0 does, whose logits are by the embedding. mT5 never does.
    """
    if found["model_type"] == "mt5":
        return False
    tied = found.get("tie_word_embeddings", True) is not False
    t5 = found["model_type"] in ("t5", "umt5")
    scaled = found.get("scale_decoder_outputs") if t5 else None
    return tied if scaled is None else bool(scaled)


def from_config(config: Config) -> dict[str, Any]:
    """The config.json of a model. ValueError for one that has no architecture there."""
    kind = _model_type(config)
    made: dict[str, Any] = {
        "architectures": [MODEL_TYPES[kind]],
        "model_type": kind,
        "is_encoder_decoder": True,
        "dtype": "float32",
        "layer_norm_epsilon": 1e-6,
        "dropout_rate": config.dropout_rate,
        "tie_word_embeddings": config.tied_logits,
        "use_cache": True,
    }
    made |= {name: getattr(config, ours) for name, ours in (_SIZES | SPECIAL_IDS).items()}
    theirs = {ours: name for name, ours in reversed(_ACTIVATIONS.items())}
    first, *gate = config.mlp_activations
    if kind != "switch_transformers":
        if gate not in ([], ["linear"]):
            raise ValueError(
                f"mlp_activations = {config.mlp_activations}; Hugging Face's T5 has one, or one "
                "and 'linear'"
            )
        short = "gelu" if gate and first == "gelu" else theirs[first]
        made["feed_forward_proj"] = f"gated-{short}" if gate else short
        return made | {"dense_act_fn": theirs[first], "is_gated_act": bool(gate)}
    return made | {
        "dense_act_fn": theirs[first],
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


def _refuse(found: Mapping[str, Any], where: Any) -> None:
    """ValueError for settings that change numbers and that our model does not have."""
    _read(found, "layer_norm_epsilon", where, _EPSILON, 1e-6)
    _read(found, "is_encoder_decoder", where, _one_of(True), True)
    _read(found, "tie_word_embeddings", where, _FLAG, True)
    if found.get("scale_decoder_outputs") is not None:
        _read(found, "scale_decoder_outputs", where, _FLAG)
    for name in ("router_bias", "is_decoder", "quantization_config"):
        if found.get(name):
            raise ValueError(f"{where}: {name} is {found[name]!r}, which mmt does not have")


def _activations(found: Mapping[str, Any], where: Any) -> tuple[str, ...]:
    """('gelu', 'linear') of 'gated-gelu'; what dense_act_fn and is_gated_act say wins."""
    switch = found["model_type"] == "switch_transformers"
    default = "relu" if found["model_type"] == "t5" or switch else "gated-gelu"
    proj = _read(found, "feed_forward_proj", where, _UNGATED if switch else _NAME, default)
    gated, name = proj.startswith("gated-"), proj.removeprefix("gated-")
    if switch:  # has no other name than dense_act_fn
        _read(found, "is_gated_act", where, _one_of(False), False)
        name = "relu"
    if proj == "gated-gelu":
        name = "gelu_new"
    gated = _read(found, "is_gated_act", where, _FLAG, gated)
    name = _read(found, "dense_act_fn", where, _NAME, name)
    if name not in _ACTIVATIONS:
        exact = " ('gelu' is the exact one, T5's 'gelu_new')" if name == "gelu" else ""
        raise ValueError(
            f"{where}: the activation is {name!r}; allowed: {', '.join(_ACTIVATIONS)}{exact}"
        )
    return (_ACTIVATIONS[name], "linear") if gated else (_ACTIVATIONS[name],)


def _special_id(
    name: str, found: Mapping[str, Any], generation: Mapping[str, Any], where: Any, ids: _Kind
) -> int:
    """The one id that the two files give."""
    given = []
    for file, content in (where, found), (Path(where).with_name(_GENERATION), generation):
        one = content.get(name)
        one = one[0] if isinstance(one, list) and len(one) == 1 else one
        if one is not None:
            given.append(_read({name: one}, name, file, ids))
    if not given:
        raise ValueError(f"{where}: no {name}, and none in {_GENERATION}: add it")
    if given[0] != given[-1]:
        raise ValueError(
            f"{where}: {name} is {given[0]}, in {_GENERATION} {given[-1]}: mmt takes one id"
        )
    return given[0]


def _read(found: Mapping[str, Any], name: str, where: Any, kind: _Kind, default: Any = None) -> Any:
    """The value of a field, `default` where there is none; ValueError where it is not of `kind`."""
    value = found.get(name, default)
    if not kind.fits(value):
        raise ValueError(f"{where}: {name} is {value!r}; allowed: {kind.allowed}")
    return value


def _experts(found: Mapping[str, Any], where: Any, depths: Mapping[str, int]) -> dict[str, Any]:
    """moe_period and moe of a Switch Transformer; `depths` are the layers of its stacks."""
    stacks = {}
    for stack, layers in depths.items():
        step = _step(layers, _read(found, f"num_sparse_{stack}_layers", where, _COUNT, 3))
        if found.get(f"{stack}_sparse_step") is not None:
            step = _read(found, f"{stack}_sparse_step", where, _COUNT)
        stacks[stack] = layers, _sparse(layers, step)
    for period in (1, 2):
        if all(_ours(layers, period) == sparse for layers, sparse in stacks.values()):
            moe = MoeConfig(
                num_experts=_read(found, "num_experts", where, _SIZE, 8),
                router=switch_top1,
                capacity_factor=_CAPACITY,
                jitter=float(_read(found, "router_jitter_noise", where, _RATE, 0.01)),
                expert_dropout=float(_read(found, "dropout_rate", where, _RATE, 0.1)),
                router_dtype=_read(found, "router_dtype", where, _ROUTER_DTYPE, "float32"),
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
    """The layers that Hugging Face gives experts."""
    return {i for i in range(layers) if step > 0 and (step == 1 or i % step == 1)}


def _ours(layers: int, period: int) -> set[int]:
    """Those that we do: the last of every whole block."""
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
