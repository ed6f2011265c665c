"""Flat parameter names: one name per layer and parameter, however a model stacks its layers.

In the parameter tree of a `Transformer` the layers of scanned blocks are stacked in one array. A
flat name addresses a single layer: 'encoder/3/mlp/wi_0' is the first input projection of the fourth
encoder layer. Parameters outside the layers keep their path: 'source_embed/embedding',
'decoder/norm/scale'. Conversions, `mmt.initial` and `mmt.plan.parameters` match models by these
names.

    flat = to_flat(params, model.config)        # {'encoder/0/self_attention/query': [D H K], ...}
    params = from_flat(flat, model)
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np

from mmt.model.config import Config
from mmt.model.transformer import Transformer, parameter_shapes

_LAYER = re.compile(r"(encoder|decoder)/(blocks|rest)/layers_(\d+)/(.+)")


def to_flat(params: Any, config: Config) -> dict[str, Any]:
    """Returns every parameter by its flat name; stacked layers become slices."""
    flat: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        flat |= unstack(_path_name(path), leaf, config)
    return flat


def from_flat(flat: Mapping[str, Any], model: Transformer) -> Any:
    """Returns the parameter tree of `model` built from `flat`.

    Raises:
        ValueError: names are missing, unused or of another shape. The message lists all of them.
    """
    check({name: tuple(leaf.shape) for name, leaf in flat.items()}, model)
    return build(model, flat.__getitem__)


def build(model: Transformer, get: Callable[[str], Any]) -> Any:
    """Returns the parameter tree of `model`, built leaf by leaf from `get(flat name)`.

    Each array is requested when its leaf is stacked, and is not kept.
    """

    def leaf(path: Any, shape: jax.ShapeDtypeStruct) -> Any:
        return stack(_path_name(path), shape, model.config, get)

    return jax.tree_util.tree_map_with_path(leaf, parameter_shapes(model))


def stack(
    path: str, shape: jax.ShapeDtypeStruct, config: Config, get: Callable[[str], Any]
) -> Any:
    """Returns one leaf of the parameter tree, stacked from `get(flat name)` of its layers.

    Args:
        path: the leaf's path in the tree, such as 'encoder/blocks/layers_0/mlp/wo'.
        shape: the leaf's shape and dtype.
        config: the model's configuration.
        get: returns the array of a flat name.
    """
    names = members(path, config)
    if isinstance(names, str):
        return get(names)
    stacked = np.empty(shape.shape, shape.dtype)
    for i, name in enumerate(names):
        stacked[i] = get(name)
    return stacked


def unstack(path: str, leaf: Any, config: Config) -> dict[str, Any]:
    """Returns the leaf at `path` of the parameter tree by flat name: one entry per layer."""
    names = members(path, config)
    return {names: leaf} if isinstance(names, str) else dict(zip(names, leaf, strict=True))


def shapes(model: Transformer) -> dict[str, tuple[int, ...]]:
    """Returns the shape of every parameter of `model` by its flat name."""
    flat: dict[str, tuple[int, ...]] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(parameter_shapes(model)):
        names = members(_path_name(path), model.config)
        if isinstance(names, str):
            flat[names] = leaf.shape
        else:
            flat |= dict.fromkeys(names, leaf.shape[1:])
    return flat


def check(actual: Mapping[str, tuple[int, ...]], model: Transformer) -> None:
    """Raises ValueError unless `actual` (flat name -> shape) is exactly the model's.

    The message lists every name that is missing, unknown or of another shape.
    """
    check_names(actual, shapes(model), "the weights")


def check_names(
    actual: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]], what: str
) -> None:
    """Raises ValueError unless `actual` (name -> shape) equals `expected`, the model's.

    The message starts with `what` and lists every name that is missing, unknown or of another
    shape.
    """
    mismatches = [f"{name}: missing" for name in sorted(expected.keys() - actual.keys())]
    mismatches += [f"{name}: not in the model" for name in sorted(actual.keys() - expected.keys())]
    mismatches += [
        f"{name}: {actual[name]}, in the model {expected[name]}"
        for name in sorted(expected.keys() & actual.keys())
        if actual[name] != expected[name]
    ]
    if mismatches:
        raise ValueError(f"{what} are not the model's:\n  " + "\n  ".join(mismatches))


def members(path: str, config: Config) -> str | list[str]:
    """Returns the flat name of the leaf at `path`; for stacked layers, all names in layer order.

    With 4 encoder layers and `moe_period` 2, 'encoder/blocks/layers_1/mlp/wo' is
    ['encoder/1/mlp/wo', 'encoder/3/mlp/wo'], and 'encoder/norm/scale' is itself.
    """
    match = _LAYER.fullmatch(path)
    if not match:
        return path
    stack, container, number, rest = match.groups()
    depth = config.encoder_layers if stack == "encoder" else config.decoder_layers
    size = max(config.moe_period, 1)
    scanned = depth // size * size
    if container == "rest":
        return f"{stack}/{scanned + int(number)}/{rest}"
    return [f"{stack}/{first + int(number)}/{rest}" for first in range(0, scanned, size)]


def _path_name(path: Iterable[Any]) -> str:
    """Returns a JAX tree path as 'encoder/norm/scale'."""
    return jax.tree_util.keystr(tuple(path), simple=True, separator="/")
