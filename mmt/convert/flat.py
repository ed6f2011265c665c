"""Parameters one layer at a time: the names that other formats and other models are matched by.

In the tree of a `Transformer` the layers of a scanned block lie stacked; here each has arrays of
its own, 'encoder/3/mlp/wi_0' for the fourth layer's, whatever the blocks. What belongs to no layer
keeps its path: 'source_embed/embedding', 'decoder/norm/scale'.

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
    """Every parameter by its flat name; those of stacked layers are slices."""
    flat: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        flat |= unstack(_name(path), leaf, config)
    return flat


def from_flat(flat: Mapping[str, Any], model: Transformer) -> Any:
    """The tree of `model` made of `flat`; ValueError that lists every name which is missing, unused
    or of another shape.
    """
    check({name: tuple(leaf.shape) for name, leaf in flat.items()}, model)
    return build(model, flat.__getitem__)


def build(model: Transformer, get: Callable[[str], Any]) -> Any:
    """The tree of `model`, leaf by leaf: `get(flat name)` is asked for each array when its leaf is
    stacked, and not kept.
    """

    def leaf(path: Any, shape: jax.ShapeDtypeStruct) -> Any:
        return stack(_name(path), shape, model.config, get)

    return jax.tree_util.tree_map_with_path(leaf, parameter_shapes(model))


def stack(
    path: str, shape: jax.ShapeDtypeStruct, config: Config, get: Callable[[str], Any]
) -> Any:
    """The parameter at `path` ('encoder/blocks/layers_0/mlp/wo') of the tree, of `get(flat name)`.
    """
    names = members(path, config)
    if isinstance(names, str):
        return get(names)
    stacked = np.empty(shape.shape, shape.dtype)
    for i, name in enumerate(names):
        stacked[i] = get(name)
    return stacked


def unstack(path: str, leaf: Any, config: Config) -> dict[str, Any]:
    """The parameter at `path` of the tree by its flat name, or by each layer's."""
    names = members(path, config)
    return {names: leaf} if isinstance(names, str) else dict(zip(names, leaf, strict=True))


def shapes(model: Transformer) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter of `model` by its flat name."""
    flat: dict[str, tuple[int, ...]] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(parameter_shapes(model)):
        names = members(_name(path), model.config)
        if isinstance(names, str):
            flat[names] = leaf.shape
        else:
            flat |= dict.fromkeys(names, leaf.shape[1:])
    return flat


def check(found: Mapping[str, tuple[int, ...]], model: Transformer) -> None:
    """ValueError that lists all of `found` (flat name -> shape) which is not as `model` has it."""
    check_names(found, shapes(model), "the weights")


def check_names(
    found: Mapping[str, tuple[int, ...]], wanted: Mapping[str, tuple[int, ...]], what: str
) -> None:
    """ValueError that lists all of `found` (name -> shape) which is not as the model's `wanted`."""
    wrong = [f"{name}: missing" for name in sorted(wanted.keys() - found.keys())]
    wrong += [f"{name}: not in the model" for name in sorted(found.keys() - wanted.keys())]
    wrong += [
        f"{name}: {found[name]}, in the model {wanted[name]}"
        for name in sorted(wanted.keys() & found.keys())
        if found[name] != wanted[name]
    ]
    if wrong:
        raise ValueError(f"{what} are not the model's:\n  " + "\n  ".join(wrong))


def members(path: str, config: Config) -> str | list[str]:
    """The flat name of the parameter at `path` ('encoder/norm/scale') of the tree; the names of all
    layers, in order, where it is stacked.
    """
    found = _LAYER.fullmatch(path)
    if not found:
        return path
    stack, part, number, rest = found.groups()
    depth = config.encoder_layers if stack == "encoder" else config.decoder_layers
    size = max(config.moe_period, 1)
    scanned = depth // size * size
    if part == "rest":
        return f"{stack}/{scanned + int(number)}/{rest}"
    return [f"{stack}/{first + int(number)}/{rest}" for first in range(0, scanned, size)]


def _name(path: Iterable[Any]) -> str:
    return jax.tree_util.keystr(tuple(path), simple=True, separator="/")
