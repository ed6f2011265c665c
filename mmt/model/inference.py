"""Converts a model for fast decoding on one device: unscanned layers, kernels in fewer bits.

Activations, norms, softmax, attention and routers are float32, even if trained in bfloat16.
`benchmarks/translate/decoding.py` measures the forms.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from mmt.model.config import Config
from mmt.model.product import Kernel, SeparateExperts, has_bfloat16_instructions, quantize
from mmt.model.stack import unscanned
from mmt.model.transformer import Transformer

WEIGHTS = ("float32", "bfloat16", "int8")
_MAX_SEPARATE = 32  # experts of a layer; each is a branch of the program, which is compiled
_KERNELS = {"query", "key", "value", "out", "wo", "kernel", "embedding"}


def fastest_weights() -> str:
    """Returns 'bfloat16' if the device multiplies it faster than float32, else 'float32'."""
    on_cpu = jax.default_backend() == "cpu"
    return "bfloat16" if has_bfloat16_instructions() or not on_cpu else "float32"


def for_inference(model: Transformer, params: Any, weights: str) -> tuple[Transformer, Any]:
    """Returns the model and its parameters for inference on one device.

    Args:
        model: a scanned model.
        params: its parameters in float32.
        weights: how kernels are stored and multiplied, one of `WEIGHTS`. 'int8' has a scale per
            output and quantizes the rows of activations at run time (as CTranslate2 does).
            Routers and relative biases stay in float32. Tied logits are stored twice unless
            'float32': as table and as kernel.

    Raises:
        ValueError: `weights` is not one of `WEIGHTS`.
    """
    if weights not in WEIGHTS:
        raise ValueError(f"weights: {weights!r}; allowed: {', '.join(WEIGHTS)}")
    config = dataclasses.replace(model.config, scan_layers=False, dtype="float32")
    params = unscanned(params)
    if config.tied_logits and weights != "float32":
        params, config = _untied(params, config)
    stored = jax.tree_util.tree_map_with_path(
        lambda path, leaf: _stored([key.key for key in path], jnp.asarray(leaf), weights), params
    )
    return Transformer(config), stored


def _untied(params: Any, config: Config) -> tuple[Any, Config]:
    """Returns a model whose logits have a kernel of their own.

    In fewer bits, a product with a transposed table takes several times as long on a CPU.
    """
    table = params["target_embed" if config.target_vocab_size else "source_embed"]["embedding"]
    kernel = jnp.asarray(table).T * config.emb_dim**-0.5
    return params | {"logits": {"kernel": kernel}}, dataclasses.replace(config, tied_logits=False)


def _stored(path: list[str], leaf: Any, weights: str) -> Kernel | SeparateExperts:
    *_, parent, name = path
    is_kernel = name in _KERNELS or name.startswith("wi_")
    if not is_kernel or parent == "relative_bias":
        return leaf
    has_experts = name.startswith("w") and leaf.ndim == 3
    if has_experts and len(leaf) <= _MAX_SEPARATE:
        return SeparateExperts(tuple(_kernel(name, kernel, weights) for kernel in leaf))
    return _kernel(name, leaf, weights, experts=has_experts)


def _kernel(name: str, leaf: Any, weights: str, *, experts: bool = False) -> Kernel:
    if weights == "float32":
        return leaf
    if weights == "bfloat16":
        stored = leaf.astype(jnp.bfloat16)
        if name != "embedding":
            return stored
        # From bfloat16, XLA on a CPU takes rows only after it has converted the whole table.
        return jax.lax.bitcast_convert_type(stored, jnp.uint16)
    # The inputs of a kernel: both axes of the heads of `out`, the vectors of a table.
    axes = {"out": (0, 1), "embedding": (1,)}.get(name, (0,))
    return quantize(leaf, (1,) if experts else axes)
