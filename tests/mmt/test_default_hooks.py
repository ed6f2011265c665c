"""The hooks of every run: the state goes into a checkpoint and back, with the data position."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from mmt import default_hooks, hooks, train
from mmt.checkpoint import Checkpoints, Policy
from mmt.run import Run
from tests.conftest import ToyBatches
from tests.helpers.runs import equal_trees, rows_without_clocks


def test_saved_state_and_position_are_restored(tmp_path, toy_program, toy_batches):
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
    assert equal_trees(saved, restored)


class Killed(Exception):
    pass


@pytest.fixture
def always_due(monkeypatch):
    """Makes a save by the clock due at every step."""
    monkeypatch.setattr(default_hooks._SaveClock, "due", lambda self, step: True)


def test_a_kill_between_checkpoints_costs_no_step_and_changes_nothing(
    tmp_path, toy_program, toy_batches, always_due
):
    """The hooks of the step that was saved last are called again; checkpoints stay as they are."""
    held_out = [next(toy_batches())]

    def hooked(*more):
        return {"steps": 12, "hooks": [hooks.ValidationLoss(held_out, 3), *more]}

    program, policy = toy_program(), Policy(period=4, keep=9)
    seen = []

    def kill(now):
        seen.append(now.number)
        if seen.count(9) == 1 and now.number == 9:
            raise Killed

    run = {"model_dir": str(tmp_path / "run"), "policy": policy}
    with pytest.raises(Killed):
        train.train(program, toy_batches(), **run, **hooked(kill))
    assert Run(tmp_path / "run").checkpoint_steps() == [4, 8]
    again = train.train(program, toy_batches(), **run, **hooked(kill))
    assert seen == [1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 10, 11, 12]
    run["model_dir"] = str(tmp_path / "whole")
    run["policy"] = Policy(period=4, keep=9, minutes=0.0)
    whole = train.train(program, toy_batches(), **run, **hooked())
    assert equal_trees(whole, again)
    assert rows_without_clocks(tmp_path / "run") == rows_without_clocks(tmp_path / "whole")
    for name in ("run", "whole"):
        directory = Run(tmp_path / name)
        assert directory.checkpoint_steps() == [4, 8, 12]
        assert not list(directory.recovery.glob("[0-9]*")), "a later checkpoint replaces it"


def test_sigterm_in_a_validation_ends_it_and_it_is_repeated(tmp_path, toy_program, toy_batches):
    class Watched(list):
        """Held-out batches; SIGTERM comes with the second of them."""

        def __iter__(self):
            for place, batch in enumerate(super().__iter__()):
                if place == 1:
                    os.kill(os.getpid(), signal.SIGTERM)
                seen.append(place)
                yield batch

    program, seen = toy_program(), []
    held_out = [next(toy_batches()) for _ in range(4)]
    run = {"model_dir": str(tmp_path / "run"), "steps": 8}

    def validation(batches):
        return [hooks.ValidationLoss(batches, 4)]

    whole = train.train(
        program, toy_batches(), model_dir=str(tmp_path / "whole"), steps=8,
        hooks=validation(held_out),
    )  # fmt: skip
    with pytest.raises(train.Terminated, match="checkpoint 4 is written"):
        train.train(program, toy_batches(), hooks=validation(Watched(held_out)), **run)
    assert len(seen) < 4 and "validation_loss" not in str(rows_without_clocks(tmp_path / "run"))
    again = train.train(program, toy_batches(), hooks=validation(held_out), **run)
    assert equal_trees(whole, again)
    assert rows_without_clocks(tmp_path / "run") == rows_without_clocks(tmp_path / "whole")


def test_sigterm_on_a_skipped_step_saves_it(tmp_path, toy_program):
    """For resuming only: a rollback must not lead there."""

    class Poisoned(ToyBatches):
        def __next__(self):
            bad, batch = self.index == 6, super().__next__()
            if bad:
                batch["decoder_loss_weights"][0, 0] = np.nan
            return batch

    def terminate(now):
        if now.number == 7:
            os.kill(os.getpid(), signal.SIGTERM)

    program, run = toy_program(), {"steps": 10, "policy": Policy(period=4)}
    whole = train.train(program, Poisoned(), model_dir=str(tmp_path / "whole"), **run)
    with pytest.raises(train.Terminated, match="checkpoint 7 is written"):
        train.train(
            program, Poisoned(), model_dir=str(tmp_path / "run"), hooks=[terminate], **run
        )
    assert Run(tmp_path / "run").checkpoint_steps() == [4]
    again = train.train(program, Poisoned(), model_dir=str(tmp_path / "run"), **run)
    assert equal_trees(whole, again)
    assert rows_without_clocks(tmp_path / "run") == rows_without_clocks(tmp_path / "whole")


def test_sigterm_in_a_validation_after_a_rollback_saves_its_step(
    tmp_path, toy_program, monkeypatch
):
    """Also if a later step was saved before the rollback."""

    class Poisoned(ToyBatches):
        def __next__(self):
            bad, batch = self.index in (7, 8, 9), super().__next__()
            if bad:
                batch["decoder_loss_weights"][0, 0] = np.nan
            return batch

    class Watched(list):
        def __iter__(self):
            validations.append("begun")
            if len(validations) == 2:  # step 6 again
                os.kill(os.getpid(), signal.SIGTERM)
            return super().__iter__()

    monkeypatch.setattr(default_hooks._SaveClock, "due", lambda self, step: step == 7)
    program, validations, seen = toy_program(), [], []
    run = {"steps": 12, "policy": Policy(period=4, max_skipped_steps=3)}

    def watch(now):
        seen.append((now.number, now.batches.get_state()["index"]))

    def hooked(held_out):
        return {"hooks": [watch, hooks.ValidationLoss(held_out, 6)], **run}

    held_out, directory = [next(ToyBatches())], str(tmp_path / "run")
    with pytest.raises(train.Terminated, match="checkpoint 6 is written"):
        train.train(program, Poisoned(), model_dir=directory, **hooked(Watched(held_out)))
    assert seen[-2:] == [(5, 12), (6, 13)]
    again = train.train(program, Poisoned(), model_dir=directory, **hooked(held_out))
    assert seen[-8:] == [(6, 13), *((n, n + 7) for n in range(6, 13))]
    whole = train.train(program, Poisoned(), model_dir=str(tmp_path / "whole"), **hooked(held_out))
    assert equal_trees(whole, again)


def test_the_clock_saves_seldom_enough(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(default_hooks.time, "perf_counter", lambda: now[0])
    clock, saved = default_hooks._SaveClock(2.0), []
    for step in range(1, 4000):
        now[0] += 1.0
        clock.save_finished(writing=False)
        if clock.due(step):
            saved.append(now[0])
            clock.save_started()
            now[0] += 10.0  # a save of ten seconds
    gaps = [later - earlier for earlier, later in zip(saved, saved[1:], strict=False)]
    assert 120 <= saved[0] <= 126  # asked every five seconds
    assert all(500 <= gap <= 560 for gap in gaps) and gaps  # 10 s are 2 % of 500
    assert not default_hooks._SaveClock(0.0).due(1)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["loading", "compiling"])
def test_sigterm_before_the_first_step_ends_the_command_with_143(
    phase, toy_run, toy_corpus, toy_training, tmp_path
):
    flags = ["--gin.transformer.Config.emb_dim=1024", f"--gin.CORPUS={toy_corpus}"]
    command = [sys.executable, "-m", "mmt.cli", "train", *toy_training, *flags]
    environment = {"MMT_DATA": str(toy_corpus.parent), "JAX_ENABLE_COMPILATION_CACHE": "false"}
    with subprocess.Popen(
        [*command, f"--gin.MODEL_DIR={tmp_path / 'run'}"], stderr=subprocess.PIPE,
        env=os.environ | environment,
    ) as process:  # fmt: skip
        if phase == "loading":
            while not (tmp_path / "run").exists():  # it is locked first
                time.sleep(0.01)
        else:
            assert any(b"compiling" in line for line in process.stderr)
        since = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 143 and time.monotonic() - since < 10
    assert b"stopped by a signal" in error and b"Traceback" not in error
