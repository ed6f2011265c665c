"""Rows of the caches, for layers in one array and for separate ones."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt.model.config import Config
from mmt.model.kv_cache import CrossKV, KVCache, empty_cache

CONFIG = Config(
    vocab_size=20, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32, encoder_layers=1,
    decoder_layers=3,
)  # fmt: skip
ROWS = np.array([4, 1])


def layer(keys, index: int):
    return np.asarray(keys[index])


@pytest.mark.parametrize("scanned", [True, False])
def test_rows_are_taken_from_every_layer(scanned):
    config = dataclasses.replace(CONFIG, scan_layers=scanned)
    cache = empty_cache(config, rows=5, max_length=4, beams=2)
    cache = jax.tree.map(
        lambda leaf: jnp.arange(leaf.size, dtype=leaf.dtype).reshape(leaf.shape), cache
    )
    taken = cache.take(jnp.asarray(ROWS))
    assert isinstance(taken, KVCache) and taken.length == cache.length
    np.testing.assert_array_equal(taken.ancestors, cache.ancestors[ROWS])
    source = CrossKV(cache.keys, cache.values, jnp.arange(15).reshape(5, 3) > 6, jnp.arange(5))
    other = source.take(jnp.asarray(ROWS))
    assert other.language_ids.tolist() == [4, 1]
    np.testing.assert_array_equal(other.mask, source.mask[ROWS])
    for index in range(3):
        for name in ("keys", "values"):
            expected = layer(getattr(cache, name), index)[ROWS]
            np.testing.assert_array_equal(layer(getattr(taken, name), index), expected)
            np.testing.assert_array_equal(layer(getattr(other, name), index), expected)
