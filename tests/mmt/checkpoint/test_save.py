"""Writing checkpoints: which are kept, and disks that refuse them."""

import subprocess
import sys
import textwrap
import weakref

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from mmt import checkpoint, train
from mmt.checkpoint import Policy
from mmt.run import Run


@pytest.mark.parametrize("third", [3.0, np.nan])
def test_keeps_the_last_and_the_best(tmp_path, toy_program, toy_batches, third):
    scores = {2: 5.0, 4: 1.0, 6: third, 8: 4.0, 10: 2.0, 12: 6.0}

    def measure(now):
        if now.number in scores:
            now.measured["validation_loss"] = scores[now.number]

    train.train(
        toy_program(), toy_batches(), model_dir=str(tmp_path), steps=12,
        policy=Policy(period=2, keep=2, keep_best=1), hooks=[measure],
    )  # fmt: skip
    assert Run(tmp_path).checkpoint_steps() == [4, 10, 12]
    assert Run(tmp_path).best_step() == 4


def test_without_measurements_the_latest_is_best(tmp_path, toy_program, toy_batches):
    train.train(
        toy_program(), toy_batches(), model_dir=str(tmp_path), steps=6, policy=Policy(period=2)
    )
    assert Run(tmp_path).best_step() == 6


def test_with_bleu_alone_the_latest_is_best(tmp_path, toy_program, toy_batches, capsys):
    def measure(now):
        now.measured["bleu"] = 10.0 - now.number

    run = {"model_dir": str(tmp_path), "policy": Policy(period=2)}
    train.train(toy_program(), toy_batches(), steps=4, hooks=[measure], **run)
    assert Run(tmp_path).best_step() == 4
    assert "damaged" not in capsys.readouterr().err


def test_a_refused_checkpoint_costs_none_of_the_others(
    tmp_path, toy_program, toy_batches, capsys, monkeypatch
):
    """The writer's error is simulated; benchmarks/faults.py and the test below use a full disk."""
    write, tried = ocp.CheckpointManager.save, []

    def save(manager, step, **options):
        tried.append(step)
        if step == 4:
            (tmp_path / "checkpoints/4.orbax-checkpoint-tmp").mkdir()
            raise ValueError("Error writing local file [os_error_code='28']")
        return write(manager, step, **options)

    monkeypatch.setattr(ocp.CheckpointManager, "save", save)
    run = {"model_dir": str(tmp_path), "policy": Policy(period=2, keep=2)}
    train.train(toy_program(), toy_batches(), steps=7, **run)
    error = capsys.readouterr().err
    assert "checkpoints/4 could not be written: No space left on device; the last" in error
    assert tried == [2, 4, 6, 7] and Run(tmp_path).checkpoint_steps() == [6, 7]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2


FULL = """
    import resource, sys, threading, time
    from tests import conftest
    from mmt import train
    from mmt.checkpoint import Policy

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    directory, full, room = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

    def fill(now):
        while any(one.name.startswith("save_finalize") for one in threading.enumerate()):
            time.sleep(0.01)
        if now.number in (full, room):
            limit = 20_000 if now.number == full else soft
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))

    train.train(
        conftest.toy_program.__wrapped__()(), conftest.ToyBatches(), model_dir=directory, steps=9,
        policy=Policy(period=2, keep=2), hooks=[fill],
    )
"""  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("full", "room", "left"), [(4, 5, [8, 9]), (9, 0, [6, 8])])
def test_a_full_disk_costs_one_checkpoint(tmp_path, full, room, left):
    """A limit on the size of files stands for the disk's. Of the last checkpoint it is an error."""
    command = [sys.executable, "-c", textwrap.dedent(FULL), tmp_path, full, room]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == bool(room), done.stderr
    refused = f"checkpoints/{full} could not be written: File too large; the last complete one: "
    assert refused + str(full - full % 2 - 2 + 2 * (full == 9)) in done.stderr
    assert Run(tmp_path).checkpoint_steps() == left
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2


def test_parameters_are_written_and_read_one_at_a_time(tmp_path):
    shape = jax.ShapeDtypeStruct((3, 4), np.float32)
    shapes = {"a": shape, "b": {"c": shape, "d": jax.ShapeDtypeStruct((2,), np.float32)}}
    made, most, requested = [], 0, []

    class Counted(np.ndarray):
        pass

    def load(path, shape):
        nonlocal most
        requested.append(path)
        array = np.full(shape.shape, len(requested), np.float32).view(Counted)
        made.append(weakref.ref(array))
        most = max(most, sum(reference() is not None for reference in made))
        return array

    checkpoint.write_params(tmp_path, shapes, load)
    assert requested == ["a", "b/c", "b/d"] and most <= 2  # the next is made while one is let go
    assert Run(tmp_path).best_step() == 0
    whole = checkpoint.restore_params(tmp_path, shapes)
    assert [float(leaf.min()) for leaf in jax.tree.leaves(whole)] == [1, 2, 3]
    restored = dict(checkpoint.read_params(tmp_path, shapes))
    assert list(restored) == requested
    for leaf, read in zip(jax.tree.leaves(whole), restored.values(), strict=True):
        assert isinstance(read, np.ndarray)
        np.testing.assert_array_equal(read, leaf)
    with pytest.raises(ValueError, match="b/c: not in the model"):
        next(checkpoint.read_params(tmp_path, {"a": shape}))
    with pytest.raises(ValueError, match="there are: 0"):
        next(checkpoint.read_params(tmp_path, shapes, step=4))
    with pytest.raises(ValueError, match=r"holds an imported model, .*finetune.gin .*INITIAL_MOD"):
        checkpoint.check_model(tmp_path, {"params": shapes})
