import jax
import numpy as np
import pytest

from mmt.decoding.top_k import top_k


@pytest.mark.parametrize("width", [5, 1000, 4096, 16_001])
@pytest.mark.parametrize("k", [1, 8])
def test_it_is_the_top_k_of_jax(width, k):
    k = min(k, width)
    rng = np.random.default_rng(width + k)
    rows = rng.standard_normal((7, width)).astype(np.float32)
    rows[1] = -np.inf
    rows[2, width // 2 :] = 3.0  # ties: the lowest columns win
    rows[3] = rng.integers(0, 3, width)
    for got, want in zip(jax.jit(top_k, static_argnums=1)(rows, k), jax.lax.top_k(rows, k),
                         strict=True):  # fmt: skip
        np.testing.assert_array_equal(got, want)
