"""The hooks of every run: the state goes into a checkpoint and back, with the data position."""

import jax
import numpy as np

from mmt import default_hooks
from mmt.checkpoint import Checkpoints


def test_what_is_saved_comes_back(tmp_path, toy_program, toy_batches):
    program, batches = toy_program(), toy_batches()
    shapes = program.shapes(3)
    with Checkpoints(tmp_path) as checkpoints:
        assert default_hooks.restore(shapes, batches, checkpoints) is None
        saved, _ = program.step(program.init(3), program.place(next(batches)))
        checkpoints.save(1, saved.items(), data=batches.get_state(), measured={})
    again = toy_batches()
    with Checkpoints(tmp_path) as checkpoints:
        restored = default_hooks.restore(shapes, again, checkpoints)
    assert again.get_state() == batches.get_state() != toy_batches().get_state()
    same = jax.tree.map(lambda x, y: bool(np.array_equal(x, y)), saved, restored)
    assert jax.tree.all(same)
