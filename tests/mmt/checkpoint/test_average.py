"""The mean of several checkpoints."""

import functools

import jax
import numpy as np
import pytest

from mmt import checkpoint, train
from mmt.checkpoint import Policy
from mmt.run import Run


def test_the_average_is_the_mean_of_the_last(tmp_path, toy_program, toy_batches):
    program = toy_program()
    train.train(
        program, toy_batches(), model_dir=str(tmp_path), steps=8, policy=Policy(period=2, keep=4)
    )
    shapes = program.shapes(3).params
    assert Run(tmp_path).last_steps(3) == [4, 6, 8]
    assert Run(tmp_path).last_steps(2, step=6) == [4, 6]
    by_step = {step: checkpoint.restore_params(tmp_path, shapes, step=step) for step in (4, 6, 8)}
    average = checkpoint.average(tmp_path, shapes, last=3)
    expected = jax.tree.map(
        lambda *leaves: np.mean([np.float64(leaf) for leaf in leaves], axis=0), *by_step.values()
    )
    near = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7)
    jax.tree.map(near, average, expected)
    different = jax.tree.map(lambda a, b: bool((a != b).any()), average, by_step[8])
    assert any(jax.tree.leaves(different))
    only = checkpoint.average(tmp_path, shapes, last=1, step=6)
    jax.tree.map(np.testing.assert_array_equal, only, by_step[6])


def test_an_impossible_average_is_an_error(tmp_path, toy_program, toy_batches):
    program = toy_program()
    train.train(
        program, toy_batches(), model_dir=str(tmp_path), steps=4, policy=Policy(period=2, keep=4)
    )
    with pytest.raises(ValueError, match="the last 3 checkpoints: .* has 2, 4 .*keep"):
        Run(tmp_path).last_steps(3)
    with pytest.raises(ValueError, match="the last 2 checkpoints up to 3: .* has 2, 4"):
        Run(tmp_path).last_steps(2, step=3)
    with pytest.raises(ValueError, match="the last 0 checkpoints; allowed: 1 or more"):
        Run(tmp_path).last_steps(0)
    other = toy_program(emb_dim=32).shapes(3).params
    with pytest.raises(ValueError, match="checkpoints/2 is of another model"):
        checkpoint.average(tmp_path, other, last=2)
