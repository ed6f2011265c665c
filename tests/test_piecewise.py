"""Arrays written one at a time: what is read back, and a full disk; the rest in test_checkpoint."""

import resource

import jax
import numpy as np
import pytest

from mmt import piecewise


def test_a_full_disk_is_an_error_of_the_system(tmp_path):
    shapes = {"a": jax.ShapeDtypeStruct((100, 100), np.float32)}
    random = np.random.default_rng(0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            piecewise.write_tree(
                tmp_path / "tree", shapes, lambda _, shape: random.normal(size=shape.shape)
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "tree").exists()
