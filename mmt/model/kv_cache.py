"""Keys and values of decoding: `CrossKV` of the source, `KVCache` of the tokens so far."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from mmt.model import layers
from mmt.model.config import Config

# One array for all layers if they are scanned, else an array per layer.
PerLayer = Float[Array, "L B H S K"] | tuple[Float[Array, "B H S K"], ...]


class CrossKV(NamedTuple):
    """Cross-attention keys and values of all decoder layers: the source, as decoding needs it.

    Attributes:
        keys, values: of every layer.
        mask: True for tokens, False for padding.
        language_ids: set if the decoder routes by language, else None.
    """

    keys: PerLayer
    values: PerLayer
    mask: Bool[Array, "B S"]
    language_ids: Int[Array, "B"] | None = None

    def take(self, rows: Int[Array, "R"], *others: "CrossKV") -> "CrossKV":
        """Returns rows of this and `others`, concatenated."""
        return _take((self, *others), rows)

    def padded(self, length: int) -> "CrossKV":
        """Returns this source, filled up with padding to `length` tokens."""
        missing = length - self.mask.shape[1]

        def pad(leaf: Array) -> Array:
            return jnp.pad(leaf, [(0, 0)] * (leaf.ndim - 2) + [(0, missing), (0, 0)])

        keys, values = jax.tree.map(pad, (self.keys, self.values))
        mask = jnp.pad(self.mask, ((0, 0), (0, missing)))
        return self._replace(keys=keys, values=values, mask=mask)


class KVCache(NamedTuple):
    """Self-attention keys and values of the `length` tokens decoded so far.

    The beams of a sentence share a row with S = T * beams places: place t * beams + i holds the key
    of token t that was computed in beam i. A beam search does not move keys when it reorders its
    hypotheses. It reorders `ancestors`, the beam in which each token of a hypothesis was
    computed, and attention masks the other places.

    Attributes:
        keys, values: of every layer.
        length: number of tokens.
        ancestors: beam of each hypothesis' tokens; None with one beam.
    """

    keys: PerLayer
    values: PerLayer
    length: Int[Array, ""]
    ancestors: Int[Array, "B beams T"] | None = None

    def reorder(self, parents: Int[Array, "B beams"]) -> "KVCache":
        """Returns the cache in which hypothesis (b, i) continues the old hypothesis parents[b, i].
        """
        assert self.ancestors is not None, "a cache of one beam has nothing to reorder"
        ancestors = jnp.take_along_axis(self.ancestors, parents[:, :, None], axis=1)
        is_decoded = jnp.arange(ancestors.shape[2]) < self.length
        return self._replace(
            ancestors=jnp.where(is_decoded, ancestors, _initial_ancestors(*ancestors.shape))
        )

    def take(self, rows: Int[Array, "R"], *others: "KVCache") -> "KVCache":
        """Returns rows of this cache and `others` of the same length, concatenated."""
        return _take((self, *others), rows)

    def visible(self) -> Bool[Array, "#B 1 #beams S"]:
        """Returns the mask of the places that each hypothesis attends to, the next token included.
        """
        keys, beams = self.keys[0], 1 if self.ancestors is None else self.ancestors.shape[1]
        written = (jnp.arange(keys.shape[2] // beams) <= self.length)[None, None]
        if self.ancestors is None:
            return written[:, :, None]
        visible = self.ancestors[..., None] == jnp.arange(beams)
        return (visible & written[..., None]).reshape(len(visible), 1, beams, -1)

    def write(
        self, layer: Any, keys: Float[Array, "N H 1 K"], values: Float[Array, "N H 1 K"]
    ) -> tuple["KVCache", layers.KeyValue]:
        """Writes a layer's keys and values of the next token.

        Returns the new cache, and the layer's keys and values of all tokens.
        """
        written = [
            _write(old, layer, new, self.length)
            for old, new in ((self.keys, keys), (self.values, values))
        ]
        cache = self._replace(keys=written[0], values=written[1])
        return cache, (cache.keys[layer], cache.values[layer])


def _initial_ancestors(rows: int, beams: int, length: int) -> Int[Array, "B beams T"]:
    """Returns the ancestors of hypotheses whose tokens were all computed in their own beam."""
    return jnp.broadcast_to(jnp.arange(beams)[:, None], (rows, beams, length))


def empty_cache(c: Config, rows: int, max_length: int, beams: int) -> KVCache:
    """Returns an empty cache for `rows` rows of `beams` hypotheses of up to `max_length` tokens."""
    shape = (c.decoder_layers, rows, c.num_heads, max_length * beams, c.head_dim)
    zeros: PerLayer = jnp.zeros(shape, jnp.dtype(c.dtype))
    if not c.scan_layers:
        zeros = tuple(zeros)
    ancestors = _initial_ancestors(rows, beams, max_length) if beams > 1 else None
    return KVCache(zeros, zeros, jnp.zeros((), jnp.int32), ancestors)


def _take(caches: Sequence[Any], rows: Int[Array, "R"]) -> Any:
    """Returns rows of concatenated caches. Arrays of scanned layers have a leading layer axis."""

    def take(*leaves: Array) -> Array:
        if leaves[0].ndim == 0:
            return leaves[0]
        axis = 1 if leaves[0].ndim == 5 else 0
        return jnp.take(jnp.concatenate(leaves, axis), rows, axis)

    return jax.tree.map(take, *caches)


def _write(
    old: PerLayer, layer: Any, new: Float[Array, "N H 1 K"], length: Int[Array, ""]
) -> PerLayer:
    rows = len(old[layer]) if isinstance(old, tuple) else old.shape[1]
    beams = len(new) // rows
    block = jnp.swapaxes(new.reshape(rows, beams, *new.shape[1:2], -1), 1, 2)
    start = (0, 0, length * beams, 0)
    if isinstance(old, tuple):
        updated = jax.lax.dynamic_update_slice(old[layer], block, start)
        return (*old[:layer], updated, *old[layer + 1 :])
    return jax.lax.dynamic_update_slice(old, block[None], (layer, *start))
