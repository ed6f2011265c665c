"""Keys and values that decoding keeps: of the source (`CrossKV`), of earlier tokens (`KVCache`)."""

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
    """Cross-attention keys and values of all decoder layers, all that decoding needs of a source.

    `mask` is True for tokens, False for padding. `language_ids` are there if the decoder routes by
    language.
    """

    keys: PerLayer
    values: PerLayer
    mask: Bool[Array, "B S"]
    language_ids: Int[Array, "B"] | None = None

    def take(self, rows: Int[Array, "R"], *others: "CrossKV") -> "CrossKV":
        """Returns rows of this and of others, which are counted through."""
        return _take((self, *others), rows)


class KVCache(NamedTuple):
    """Self-attention keys and values of the `length` tokens decoded so far.

    The beams of a sentence share a row with S = T * beams places: place t * beams + i holds the key
    of token t that was computed in beam i. A beam search does not move keys when it reorders its
    hypotheses. It reorders `ancestors`, which says in which beam each token of a hypothesis was
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
        chosen = jnp.take_along_axis(self.ancestors, parents[:, :, None], axis=1)
        decoded = jnp.arange(chosen.shape[2]) < self.length
        return self._replace(ancestors=jnp.where(decoded, chosen, _own(*chosen.shape)))

    def take(self, rows: Int[Array, "R"], *others: "KVCache") -> "KVCache":
        """Returns rows of this cache and of others of its length, which are counted through."""
        return _take((self, *others), rows)

    def visible(self) -> Bool[Array, "#B 1 #beams S"]:
        """Returns which places each hypothesis attends to: its tokens, the next one included."""
        keys, beams = self.keys[0], 1 if self.ancestors is None else self.ancestors.shape[1]
        written = (jnp.arange(keys.shape[2] // beams) <= self.length)[None, None]
        if self.ancestors is None:
            return written[:, :, None]
        visible = self.ancestors[..., None] == jnp.arange(beams)
        return (visible & written[..., None]).reshape(len(visible), 1, beams, -1)

    def write(
        self, layer: Any, keys: Float[Array, "N H 1 K"], values: Float[Array, "N H 1 K"]
    ) -> tuple["KVCache", layers.KeyValue]:
        """Writes a layer's keys and values of the next token. Returns the cache, and all of the
        layer's keys and values.
        """
        written = [
            _write(old, layer, new, self.length)
            for old, new in ((self.keys, keys), (self.values, values))
        ]
        cache = self._replace(keys=written[0], values=written[1])
        return cache, (cache.keys[layer], cache.values[layer])


def _own(rows: int, beams: int, length: int) -> Int[Array, "B beams T"]:
    """Returns the ancestors of hypotheses whose tokens were all computed in their own beam."""
    return jnp.broadcast_to(jnp.arange(beams)[:, None], (rows, beams, length))


def empty_cache(c: Config, rows: int, max_length: int, beams: int) -> KVCache:
    """Returns an empty cache for `rows` rows of `beams` hypotheses of up to `max_length` tokens."""
    shape = (c.decoder_layers, rows, c.num_heads, max_length * beams, c.head_dim)
    zeros: PerLayer = jnp.zeros(shape, jnp.dtype(c.dtype))
    if not c.scan_layers:
        zeros = tuple(zeros)
    ancestors = _own(rows, beams, max_length) if beams > 1 else None
    return KVCache(zeros, zeros, jnp.zeros((), jnp.int32), ancestors)


def _take(caches: Sequence[Any], rows: Int[Array, "R"]) -> Any:
    """Returns rows of several caches. Scanned layers come before the rows; a length has none."""

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
    at = (0, 0, length * beams, 0)
    if isinstance(old, tuple):
        updated = jax.lax.dynamic_update_slice(old[layer], block, at)
        return (*old[:layer], updated, *old[layer + 1 :])
    return jax.lax.dynamic_update_slice(old, block[None], (layer, *at))
