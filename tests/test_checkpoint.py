"""Checkpoints: what is kept, damage, absence."""

import functools
import shutil
import weakref

import jax
import numpy as np
import pytest

from mmt import checkpoint, train
from mmt.checkpoint import Policy


def test_keeps_the_last_and_the_best(tmp_path, toy_program, toy_batches):
    scores = {2: 5.0, 4: 1.0, 6: 3.0, 8: 4.0, 10: 2.0, 12: 6.0}

    def measure(now):
        if now.number in scores:
            now.measured["validation_loss"] = scores[now.number]

    train.train(
        toy_program(), toy_batches(), model_dir=str(tmp_path), steps=12,
        policy=Policy(period=2, keep=2, keep_best=1), hooks=[measure],
    )  # fmt: skip
    assert checkpoint.available_steps(tmp_path) == [4, 10, 12]
    assert checkpoint.best_step(tmp_path) == 4


def test_without_measurements_the_latest_is_taken(tmp_path, toy_program, toy_batches):
    train.train(
        toy_program(), toy_batches(), model_dir=str(tmp_path), steps=6, policy=Policy(period=2)
    )
    assert checkpoint.best_step(tmp_path) == 6


def test_a_damaged_checkpoint_is_named_and_the_one_before_taken(
    tmp_path, toy_program, toy_batches, capsys
):
    program = toy_program()
    run = {"model_dir": str(tmp_path / "run"), "policy": Policy(period=2, keep=2)}
    whole = train.train(program, toy_batches(), model_dir=str(tmp_path / "whole"), steps=8)
    train.train(program, toy_batches(), steps=6, **run)
    shutil.rmtree(tmp_path / "run/checkpoints/6/optimizer/d")
    again = train.train(program, toy_batches(), steps=8, **run)
    error = capsys.readouterr().err
    assert "checkpoints/6" in error and "damaged" in error
    same = jax.tree.map(lambda a, b: bool((a == b).all()), whole.params, again.params)
    assert jax.tree.all(same)


def test_no_checkpoint_is_an_error_that_says_where(tmp_path):
    with pytest.raises(ValueError, match="no checkpoint in"):
        checkpoint.best_step(tmp_path)


def test_an_unknown_step_names_those_there_are(tmp_path, toy_program, toy_batches):
    program = toy_program()
    train.train(program, toy_batches(), model_dir=str(tmp_path), steps=3)
    with pytest.raises(ValueError, match="there are: 3"):
        checkpoint.restore_params(tmp_path, program.shapes(3).params, step=2)


@pytest.mark.parametrize("damage", ["metadata cut", "arrays cut", "gone"])
def test_whatever_the_damage_training_goes_on_and_translating_says_so(
    tmp_path, toy_program, toy_batches, capsys, damage
):
    program = toy_program()
    run = {"model_dir": str(tmp_path), "policy": Policy(period=2, keep=2)}
    train.train(program, toy_batches(), steps=4, **run)
    params = tmp_path / "checkpoints/4/params"
    if damage == "metadata cut":
        (params / "_METADATA").write_bytes((params / "_METADATA").read_bytes()[:60])
    elif damage == "gone":
        shutil.rmtree(params)
    else:
        for file in params.glob("ocdbt.process_0/d/*"):
            file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(ValueError, match="checkpoints/4 is damaged.*others: 2"):
        checkpoint.restore_params(tmp_path, program.shapes(3).params)
    state = train.train(program, toy_batches(), steps=6, **run)
    assert int(state.step) == 6 and "checkpoints/4 is damaged" in capsys.readouterr().err


def test_a_run_that_measured_only_bleu_takes_its_latest(tmp_path, toy_program, toy_batches, capsys):
    def measure(now):
        now.measured["bleu"] = 10.0 - now.number

    run = {"model_dir": str(tmp_path), "policy": Policy(period=2)}
    train.train(toy_program(), toy_batches(), steps=4, hooks=[measure], **run)
    assert checkpoint.best_step(tmp_path) == 4
    assert "damaged" not in capsys.readouterr().err


def test_the_average_is_the_mean_of_the_last(tmp_path, toy_program, toy_batches):
    program = toy_program()
    train.train(
        program, toy_batches(), model_dir=str(tmp_path), steps=8, policy=Policy(period=2, keep=4)
    )
    shapes = program.shapes(3).params
    assert checkpoint.last_steps(tmp_path, 3) == [4, 6, 8]
    assert checkpoint.last_steps(tmp_path, 2, step=6) == [4, 6]
    one = {step: checkpoint.restore_params(tmp_path, shapes, step=step) for step in (4, 6, 8)}
    found = checkpoint.average(tmp_path, shapes, last=3)
    expected = jax.tree.map(
        lambda *leaves: np.mean([np.float64(leaf) for leaf in leaves], axis=0), *one.values()
    )
    near = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7)
    jax.tree.map(near, found, expected)
    different = jax.tree.map(lambda a, b: bool((a != b).any()), found, one[8])
    assert any(jax.tree.leaves(different))
    only = checkpoint.average(tmp_path, shapes, last=1, step=6)
    jax.tree.map(np.testing.assert_array_equal, only, one[6])


def test_an_average_that_cannot_be(tmp_path, toy_program, toy_batches):
    program = toy_program()
    train.train(
        program, toy_batches(), model_dir=str(tmp_path), steps=4, policy=Policy(period=2, keep=4)
    )
    with pytest.raises(ValueError, match="the last 3 checkpoints: .* has 2, 4 .*keep"):
        checkpoint.last_steps(tmp_path, 3)
    with pytest.raises(ValueError, match="the last 2 checkpoints up to 3: .* has 2, 4"):
        checkpoint.last_steps(tmp_path, 2, step=3)
    with pytest.raises(ValueError, match="the last 0 checkpoints; allowed: 1 or more"):
        checkpoint.last_steps(tmp_path, 0)
    other = toy_program(emb_dim=32).shapes(3).params
    with pytest.raises(ValueError, match="checkpoints/2 is of another model"):
        checkpoint.average(tmp_path, other, last=2)


def test_parameters_are_written_and_read_one_at_a_time(tmp_path):
    shape = jax.ShapeDtypeStruct((3, 4), np.float32)
    shapes = {"a": shape, "b": {"c": shape, "d": jax.ShapeDtypeStruct((2,), np.float32)}}
    made, most, asked = [], 0, []

    class Counted(np.ndarray):
        pass

    def load(path, shape):
        nonlocal most
        asked.append(path)
        array = np.full(shape.shape, len(asked), np.float32).view(Counted)
        made.append(weakref.ref(array))
        most = max(most, sum(one() is not None for one in made))
        return array

    checkpoint.write_params(tmp_path, shapes, load)
    assert asked == ["a", "b/c", "b/d"] and most <= 2  # the next is made while one is let go
    assert checkpoint.best_step(tmp_path) == 0
    whole = checkpoint.restore_params(tmp_path, shapes)
    assert [float(leaf.min()) for leaf in jax.tree.leaves(whole)] == [1, 2, 3]
    found = dict(checkpoint.read_params(tmp_path, shapes))
    assert list(found) == asked
    for leaf, own in zip(jax.tree.leaves(whole), found.values(), strict=True):
        assert isinstance(own, np.ndarray)
        np.testing.assert_array_equal(own, leaf)
    with pytest.raises(ValueError, match="b/c: not in the model"):
        next(checkpoint.read_params(tmp_path, {"a": shape}))
    with pytest.raises(ValueError, match="there are: 0"):
        next(checkpoint.read_params(tmp_path, shapes, step=4))
    with pytest.raises(ValueError, match=r"holds an imported model, .*finetune.gin .*INITIAL_MOD"):
        checkpoint.check_model(tmp_path, {"params": shapes})
