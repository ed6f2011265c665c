"""The training step: microbatches; what all layouts give alike stands in test_layouts."""

import jax
import numpy as np
import optax
import pytest

from mmt import sharding
from mmt.trainer import Program


def test_microbatches_sum_to_the_same_gradient(toy_program, toy_batches):
    """Without dropout a batch cut in 4 gives the same parameters up to rounding."""
    batch = next(toy_batches())
    batch["decoder_loss_weights"][3:, 2:] = 0.0  # parts of unequal token counts
    after = []
    for microbatches in (1, 4):
        program = toy_program(microbatches=microbatches, optimizer=optax.sgd(1.0))
        config = program.model.config
        quiet = type(config)(**{**vars(config), "dropout_rate": 0.0})
        program = Program(
            type(program.model)(quiet), optax.sgd(1.0), microbatches=microbatches
        )
        state, _ = program.step(program.init(3), program.place(batch))
        after.append(state)
    for other in after[1:]:
        jax.tree.map(
            lambda x, y: np.testing.assert_allclose(x, y, atol=2e-6),
            after[0].params, other.params,
        )  # fmt: skip
        assert after[0].meters.sums["target_tokens"] == other.meters.sums["target_tokens"]


def test_a_batch_that_cannot_be_cut_names_the_numbers(toy_program, toy_batches):
    program = toy_program(microbatches=3)
    with pytest.raises(ValueError, match="8 rows .* into 3 microbatches .* multiple of 3"):
        program.step(program.init(3), program.place(next(toy_batches())))


def test_groups_that_a_mesh_cannot_cut_name_the_size_that_can(toy_program):
    mesh = jax.sharding.AbstractMesh((8, 1), ("data", "model"))
    model = toy_program(moe_period=2).model
    program = Program(model, optax.sgd(1.0), layout=sharding.Layout(mesh))
    with pytest.raises(ValueError, match="16 x 6 tokens .* 1024: 1, which 8 .*group_size = 12 "):
        program.check_cut(16, 6, side="encoder")
    with pytest.raises(ValueError, match="12 rows .* over 8 devices .* multiple of 8"):
        program.check_cut(12, 6, side="encoder")
    program.check_cut(128, 64, side="encoder")
