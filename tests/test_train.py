"""The trainer: exact resume, microbatches, layers and experts as if written out, signals."""

import os
import signal

import jax
import numpy as np
import optax
import pytest

from mmt import metrics, train
from mmt.checkpoint import Policy


def equal(a, b) -> bool:
    return jax.tree.all(jax.tree.map(lambda x, y: bool((x == y).all()), a, b))


def training_rows(directory) -> list[dict]:
    rows = metrics.read(directory / "metrics.jsonl")
    clocks = ("tokens_per_second", "data_wait", "seconds")
    return [{k: v for k, v in row.items() if k not in clocks} for row in rows if "loss" in row]


@pytest.mark.parametrize("moe_period", [0, 2])
def test_stopped_and_started_again_is_bit_identical(tmp_path, toy_program, toy_batches, moe_period):
    program = toy_program(moe_period=moe_period)
    whole = train.train(program, toy_batches(), model_dir=str(tmp_path / "whole"), steps=20)

    class Killed(Exception):
        pass

    def kill(now):
        if now.number == 13:  # neither a checkpoint nor a logged step
            raise Killed

    with pytest.raises(Killed):
        train.train(
            program, toy_batches(), model_dir=str(tmp_path / "parts"), steps=20,
            policy=Policy(period=4), hooks=[kill],
        )  # fmt: skip
    again = train.train(
        program, toy_batches(), model_dir=str(tmp_path / "parts"), steps=20, policy=Policy(period=4)
    )
    assert equal(whole, again)
    assert training_rows(tmp_path / "whole") == training_rows(tmp_path / "parts")
    assert [row["step"] for row in training_rows(tmp_path / "parts")] == [5, 10, 15, 20]


def test_learns_to_reverse(tmp_path, toy_program, toy_batches):
    program = toy_program(
        emb_dim=64, optimizer=optax.adam(train.inverse_sqrt(0.005, warmup_steps=50)), log_every=100
    )
    train.train(program, toy_batches(rows=64), model_dir=str(tmp_path), steps=300)
    accuracies = [row["accuracy"] for row in training_rows(tmp_path)]
    assert accuracies[0] < 0.6 < accuracies[-1]


def test_sigterm_saves_and_the_run_goes_on_as_if_nothing_was(tmp_path, toy_program, toy_batches):
    program = toy_program()
    whole = train.train(program, toy_batches(), model_dir=str(tmp_path / "whole"), steps=10)

    def terminate(now):
        if now.number == 7:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(train.Terminated, match="checkpoint 7"):
        train.train(
            program, toy_batches(), model_dir=str(tmp_path / "run"), steps=10, hooks=[terminate]
        )
    again = train.train(program, toy_batches(), model_dir=str(tmp_path / "run"), steps=10)
    assert equal(whole, again)
    assert training_rows(tmp_path / "whole") == training_rows(tmp_path / "run")


def test_inverse_sqrt_is_t5s():
    schedule = train.inverse_sqrt(0.01, warmup_steps=10_000, ramp=False)
    for step in (0, 9_999, 10_000, 250_000):
        assert schedule(step) == pytest.approx(1.0 / np.sqrt(max(step + 1, 10_000)), rel=1e-6)
    ramped = train.inverse_sqrt(0.01, warmup_steps=100)
    assert ramped(49) == pytest.approx(0.005) and ramped(399) == pytest.approx(0.005)


def test_a_cosine_ends_with_the_run_and_needs_steps_after_the_warm_up():
    schedule = train.warmup_cosine(0.06, warmup_steps=10, steps=110)
    assert [float(schedule(step)) for step in (0, 5, 10, 60, 110)] == pytest.approx(
        [0.0, 0.03, 0.06, 0.03, 0.0], abs=1e-8
    )
    with pytest.raises(ValueError, match="TRAIN_STEPS is 50, and 100 of them are to warm up"):
        train.warmup_cosine(0.06, warmup_steps=100, steps=50)


def test_a_vocabulary_that_does_not_fit_is_refused(tmp_path, toy_program, toy_batches):
    with pytest.raises(ValueError, match="20 pieces, the model only 12"):
        train.train(toy_program(vocab_size=12), toy_batches(), model_dir=str(tmp_path), steps=1)


def test_a_checkpoint_of_another_shape_is_refused(tmp_path, toy_program, toy_batches):
    train.train(toy_program(), toy_batches(), model_dir=str(tmp_path), steps=1)
    with pytest.raises(ValueError, match=r"another model: decoder/.*\(2, 16, 2, 8\)"):
        train.train(toy_program(emb_dim=32), toy_batches(), model_dir=str(tmp_path), steps=2)


def test_a_checkpoint_of_another_optimizer_is_refused_and_not_called_damaged(
    tmp_path, toy_program, toy_batches, capsys
):
    train.train(toy_program(), toy_batches(), model_dir=str(tmp_path), steps=1)
    other = train.Program(toy_program().model, optax.sgd(0.1), log_every=5, languages_every=10)
    with pytest.raises(ValueError, match="checkpoints/1 is of another training: optimizer/"):
        train.train(other, toy_batches(), model_dir=str(tmp_path), steps=2)
    assert "damaged" not in capsys.readouterr().err


def test_a_run_does_not_write_over_the_model_it_starts_from(tmp_path, toy_program, toy_batches):
    program = toy_program(initial_model_dir=str(tmp_path))
    with pytest.raises(ValueError, match="which the run starts or learns from"):
        train.train(program, toy_batches(), model_dir=f"{tmp_path}/../{tmp_path.name}", steps=1)
