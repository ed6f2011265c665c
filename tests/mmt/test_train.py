"""The trainer: exact resume, microbatches, layers and experts as if written out, signals."""

import dataclasses
import itertools
import os
import signal
import time
import types

import jax
import numpy as np
import optax
import pytest

from mmt import hooks, train
from mmt.checkpoint import Checkpoints, Policy
from mmt.run import Run, read_metrics
from mmt.system import lock
from tests.conftest import ToyBatches
from tests.helpers.runs import equal_trees, training_rows


@pytest.mark.parametrize("moe_period", [0, pytest.param(2, marks=pytest.mark.slow)])
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
    assert equal_trees(whole, again)
    assert training_rows(tmp_path / "whole") == training_rows(tmp_path / "parts")
    assert [row["step"] for row in training_rows(tmp_path / "parts")] == [5, 10, 15, 20]


@pytest.mark.slow
def test_learns_to_reverse(tmp_path, toy_program, toy_batches):
    program = toy_program(
        emb_dim=64, optimizer=optax.adam(train.inverse_sqrt(0.005, warmup_steps=50)), log_every=100
    )
    train.train(
        program, toy_batches(rows=64), model_dir=str(tmp_path), steps=300,
        hooks=[hooks.SourceUse([next(toy_batches(rows=64))], 150)],
    )  # fmt: skip
    accuracies = [row["accuracy"] for row in training_rows(tmp_path)]
    assert accuracies[0] < 0.6 < accuracies[-1]
    rows = read_metrics(tmp_path / "metrics.jsonl")
    source_use = [row["source_use"] for row in rows if "source_use" in row]
    assert source_use[0] < source_use[1] and source_use[1] > 1


def test_a_run_resumed_after_sigterm_equals_an_undisturbed_one(tmp_path, toy_program, toy_batches):
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
    assert equal_trees(whole, again)
    assert training_rows(tmp_path / "whole") == training_rows(tmp_path / "run")


class Poisoned(ToyBatches):
    """The toy's batches, but NaN weighs in some of them, by the place in the data."""

    def __init__(self, bad) -> None:
        super().__init__()
        self.bad = set(bad)

    def __next__(self):
        bad, batch = self.index in self.bad, super().__next__()
        if bad:
            batch["decoder_loss_weights"][0, 0] = np.nan
        return batch


def test_a_step_without_finite_loss_changes_nothing_and_is_counted(
    tmp_path, toy_program, toy_batches
):
    program = toy_program()
    batches = Poisoned({1})
    state, loss = program.step(program.init(3), program.place(next(batches)))
    assert np.isfinite(loss)
    before = jax.tree.map(np.array, state)
    state, loss = program.step(state, program.place(next(batches)))
    assert np.isnan(loss) and int(state.step) == 2
    assert equal_trees(before, dataclasses.replace(state, step=before.step))

    bad = {2, 3, 7}
    train.train(program, Poisoned(bad), model_dir=str(tmp_path), steps=12)
    rows = training_rows(tmp_path)
    assert [(row["step"], row.get("skipped", 0)) for row in rows] == [(5, 2), (10, 1), (12, 0)]
    assert rows[0]["target_tokens"] == 3 * 8 * 7  # of the three steps that were


def test_after_too_many_skipped_steps_the_run_rolls_back_and_passes_those_data(
    tmp_path, toy_program, toy_batches
):
    """From checkpoint 4 on with the data behind; none is written on the way, and a kill after the
    return leads to the same.
    """
    program, policy = toy_program(), Policy(period=4, max_skipped_steps=3)
    bad, seen, decided = {5, 6, 7}, [], []

    class Killed(Exception):
        pass

    def watch(now):
        seen.append((now.number, now.batches.get_state()["index"]))
        if now.number == 7:
            now.log.write({"step": 7, "decisions": ["lower"]})
        if seen[-1] == (6, 11):  # after the return, before the next checkpoint
            decided.extend(row for row in now.log.rows() if "decisions" in row)
            raise Killed

    run = {"steps": 10, "policy": policy}
    with pytest.raises(Killed):
        train.train(
            program, Poisoned(bad), model_dir=str(tmp_path / "run"), hooks=[watch],
            **run,
        )  # fmt: skip
    assert decided == [{"step": 5, "decisions": ["lower"]}]  # the data were not rewound
    assert seen == [*((n, n) for n in range(1, 9)), (5, 10), (6, 11)]  # 9 was on the device
    assert Run(tmp_path / "run").checkpoint_steps() == [4]
    again = train.train(
        program, Poisoned(bad), model_dir=str(tmp_path / "run"), **run
    )
    whole = train.train(
        program, Poisoned(bad), model_dir=str(tmp_path / "whole"), **run
    )
    assert equal_trees(again, whole)
    rows = read_metrics(tmp_path / "run/metrics.jsonl")
    assert [row for row in rows if "returned_from" in row] == [{"step": 5, "returned_from": 8}]
    assert training_rows(tmp_path / "run") == training_rows(tmp_path / "whole")


def test_a_run_that_never_becomes_finite_ends_with_an_error(tmp_path, toy_program, toy_batches):
    with pytest.raises(ValueError, match=r"also after 2 rollbacks to step 4 \(checkpoint.Policy"):
        train.train(
            toy_program(), Poisoned(range(5, 1000)), model_dir=str(tmp_path),
            steps=50, policy=Policy(period=4, max_skipped_steps=3, max_rollbacks=2),
        )  # fmt: skip
    assert Run(tmp_path).checkpoint_steps() == [4]


def test_a_second_sigterm_tears_no_checkpoint(tmp_path, toy_program, toy_batches, monkeypatch):
    """It comes while the checkpoint of the first is on its way to the disk."""
    leave = Checkpoints.__exit__

    def interrupted(self, *exception):
        os.kill(os.getpid(), signal.SIGTERM)
        return leave(self, *exception)

    monkeypatch.setattr(Checkpoints, "__exit__", interrupted)

    def terminate(now):
        if now.number == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(train.Terminated, match="checkpoint 3"):
        train.train(
            toy_program(), toy_batches(), model_dir=str(tmp_path), steps=10, hooks=[terminate]
        )
    assert Run(tmp_path).checkpoint_steps() == [3]


def test_clocks_that_jump_change_nothing(tmp_path, toy_program, toy_batches, monkeypatch):
    """Each reading of the wall clock is an hour before the last one."""
    program, now, back = toy_program(), time.time, itertools.count(0, 3600)
    policy = Policy(period=2, keep=2)
    whole = train.train(program, toy_batches(), model_dir=str(tmp_path / "whole"), steps=10)
    monkeypatch.setattr(time, "time", lambda: now() - next(back))
    monkeypatch.setattr(time, "time_ns", lambda: int(time.time() * 1e9))
    run = {"model_dir": str(tmp_path / "run"), "policy": policy}
    train.train(program, toy_batches(), steps=5, **run)
    again = train.train(program, toy_batches(), steps=10, **run)
    assert equal_trees(whole, again) and Run(tmp_path / "run").checkpoint_steps() == [8, 10]
    rows = read_metrics(tmp_path / "run/metrics.jsonl")
    assert all(0 < row["seconds"] < 600 and row["tokens_per_second"] > 0 for row in rows)


def test_a_directory_has_one_run(tmp_path, toy_program, toy_batches, monkeypatch):
    """The lock belongs to this process, so the test pretends that another holds it."""
    with lock.held(tmp_path):
        monkeypatch.setattr(lock, "_held", set())
        with pytest.raises(ValueError, match=f"in use by process {os.getpid()} on host"):
            train.train(toy_program(), toy_batches(), model_dir=str(tmp_path), steps=1)
    assert not (tmp_path / "checkpoints").exists()


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
    with pytest.raises(ValueError, match="TRAIN_STEPS is 50, and the warm-up has 100 steps"):
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
    other = train.Trainer(toy_program().model, optax.sgd(0.1), log_every=5, languages_every=10)
    with pytest.raises(ValueError, match="checkpoints/1 is of another training: optimizer/"):
        train.train(other, toy_batches(), model_dir=str(tmp_path), steps=2)
    assert "damaged" not in capsys.readouterr().err


def test_a_run_does_not_overwrite_its_initial_model(tmp_path, toy_program, toy_batches):
    program = toy_program(initial_model_dir=str(tmp_path))
    with pytest.raises(ValueError, match="the run's initial model or teacher"):
        train.train(program, toy_batches(), model_dir=f"{tmp_path}/../{tmp_path.name}", steps=1)


class ToyCorpora(ToyBatches):
    """The toy batches with two corpora in the first language: rows that begin with an even token
    are of `even`.
    """

    corpora = (("aaa_Latn", "even"), ("aaa_Latn", "odd"), ("bbb_Latn", "x"), ("ccc_Latn", "x"))
    manifest = types.SimpleNamespace(**vars(ToyBatches.manifest) | {"corpus_table": corpora})
    with_ids = False

    def add_corpus_ids(self):
        self.with_ids = True

    def __next__(self):
        batch = super().__next__()
        odd, language = batch["encoder_input_tokens"][:, :1] % 2, batch["decoder_language_ids"]
        if self.with_ids:
            batch["decoder_corpus_ids"] = np.where(language == 0, odd, language + 1)
        return batch


@pytest.mark.slow
def test_losses_by_corpus_change_no_number_of_training(tmp_path, toy_program, toy_batches):
    program = toy_program(languages_every=5)
    plain = train.train(program, toy_batches(), model_dir=str(tmp_path / "plain"), steps=10)
    state = train.train(program, ToyCorpora(), model_dir=str(tmp_path / "corpora"), steps=10)
    assert equal_trees(plain.params, state.params)
    rows = training_rows(tmp_path / "corpora")
    for row, former in zip(rows, training_rows(tmp_path / "plain"), strict=True):
        assert row["loss"] == former["loss"] and row["language_tokens"] == former["language_tokens"]
        for code, loss in former["language_loss"].items():
            assert row["language_loss"][code] == pytest.approx(loss, rel=1e-5)
    batches, tokens = toy_batches(), {"even": 0, "odd": 0}
    for _ in range(5):
        batch = next(batches)
        for source, language in zip(batch["encoder_input_tokens"], batch["decoder_language_ids"],
                                    strict=True):  # fmt: skip
            if language[0] == 0:
                tokens["odd" if source[0] % 2 else "even"] += len(language)
    assert rows[0]["corpus_tokens"] == {"aaa_Latn": tokens}
    assert set(rows[0]["corpus_loss"]["aaa_Latn"]) == {"even", "odd"}


def test_a_run_of_an_earlier_version_goes_on_by_language(tmp_path, toy_program, toy_batches):
    """Its checkpoints hold a sum per language."""
    program = toy_program(languages_every=5)
    whole = train.train(program, toy_batches(), model_dir=str(tmp_path / "whole"), steps=15)
    for batches, steps in ((toy_batches(), 8), (ToyCorpora(), 15)):
        state = train.train(program, batches, model_dir=str(tmp_path / "parts"), steps=steps)
    assert equal_trees(whole, state)
    assert training_rows(tmp_path / "parts")[-1] == training_rows(tmp_path / "whole")[-1]
    train.train(program, ToyCorpora(), model_dir=str(tmp_path / "new"), steps=8)
    train.train(program, ToyCorpora(), model_dir=str(tmp_path / "new"), steps=15)
    rows = training_rows(tmp_path / "new")
    assert rows[-1]["step"] == 15 and "corpus_loss" in rows[-1]
