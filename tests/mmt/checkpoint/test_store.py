"""Checkpoints: what is kept, damage, absence."""

import contextlib
import functools
import random
import shutil
import subprocess
import sys
import textwrap
import weakref

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from mmt import checkpoint, train
from mmt.checkpoint import Checkpoints, Policy
from mmt.run import Run


def test_keeps_the_last_and_the_best(tmp_path, toy_program, toy_batches):
    scores = {2: 5.0, 4: 1.0, 6: 3.0, 8: 4.0, 10: 2.0, 12: 6.0}

    def measure(now):
        if now.number in scores:
            now.measured["validation_loss"] = scores[now.number]

    train.train(
        toy_program(), toy_batches(), model_dir=str(tmp_path), steps=12,
        policy=Policy(period=2, keep=2, keep_best=1), hooks=[measure],
    )  # fmt: skip
    assert Run(tmp_path).checkpoint_steps() == [4, 10, 12]
    assert Run(tmp_path).best_step() == 4


def test_without_measurements_the_latest_is_taken(tmp_path, toy_program, toy_batches):
    train.train(
        toy_program(), toy_batches(), model_dir=str(tmp_path), steps=6, policy=Policy(period=2)
    )
    assert Run(tmp_path).best_step() == 6


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
        Run(tmp_path).best_step()


def test_reading_says_nothing(tmp_path, toy_program, toy_batches, caplog):
    program = toy_program()
    run = {"model_dir": str(tmp_path), "policy": Policy(period=1)}
    train.train(program, toy_batches(), steps=1, **run)
    caplog.clear()
    train.train(program, toy_batches(), steps=2, **run)
    checkpoint.restore_params(tmp_path, program.shapes(3).params)
    assert not caplog.records


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


@pytest.fixture(scope="module")
def saved(tmp_path_factory, toy_program, toy_batches):
    """A run directory with the checkpoints 1 and 2, the shapes in them and the items of both."""
    directory, program = tmp_path_factory.mktemp("saved"), toy_program()
    batches, state = toy_batches(), program.init(3)
    with Checkpoints(directory) as checkpoints:
        for step in (1, 2):
            state, _ = program.step(state, program.place(next(batches)))
            measured = {"validation_loss": 1.0 / step}
            checkpoints.save(step, state.items(), data=batches.get_state(), measured=measured)
    return directory, program.shapes(3).items()


def flipped(file, rng):
    content = bytearray(file.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


SLOW = pytest.mark.slow
DAMAGE = {
    "cut": lambda file, rng: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "flipped": flipped,
    "gone": lambda file, rng: file.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=SLOW) for n in range(1, 9))])
def test_no_damage_anywhere_goes_unnoticed(tmp_path, saved, capsys, damage, seed):
    """A file of the last checkpoint: the one before is taken, or the items are those written."""
    good, shapes = saved
    shutil.copytree(good, tmp_path / "run")
    rng = random.Random(f"{damage}/{seed}")
    with Checkpoints(good) as checkpoints:
        _, expected = checkpoints.restore(shapes)
    last = tmp_path / "run/checkpoints/2"
    file = rng.choice([path for path in sorted(last.glob("*/**/*")) if path.is_file()])
    DAMAGE[damage](file, rng)
    where = str(file.relative_to(last))
    with pytest.raises(ValueError, match="checkpoints/2 is damaged") if where.startswith("params") \
            else contextlib.nullcontext():
        checkpoint.average(tmp_path / "run", shapes["params"], last=2)
    with Checkpoints(tmp_path / "run") as checkpoints:
        step, _ = checkpoints.restore(shapes)
    assert step == 1
    said = capsys.readouterr().err
    assert "checkpoints/2 is damaged" in said and where in said
    assert (tmp_path / "run/checkpoints/2.damaged").is_dir()
    assert Run(tmp_path / "run").checkpoint_steps() == [1]


def test_without_a_note_what_cannot_be_read_is_damaged(tmp_path, saved):
    """As checkpoints were before there were digests."""
    good, shapes = saved
    shutil.copytree(good, tmp_path / "run")
    for note in tmp_path.glob("run/checkpoints/*/digests.json"):
        note.unlink()
    with Checkpoints(tmp_path / "run") as checkpoints:
        assert checkpoints.restore(shapes)[0] == 2
    shutil.rmtree(tmp_path / "run/checkpoints/2/params/ocdbt.process_0")
    with Checkpoints(tmp_path / "run") as checkpoints:
        assert checkpoints.restore(shapes)[0] == 1


def test_where_none_is_good_all_stay(tmp_path, saved):
    good, shapes = saved
    shutil.copytree(good, tmp_path / "run")
    for file in tmp_path.glob("run/checkpoints/*/params/_METADATA"):
        file.unlink()
    for _ in range(2):
        with Checkpoints(tmp_path / "run") as checkpoints:
            with pytest.raises(ValueError, match="no good checkpoint in .*_METADATA is missing"):
                checkpoints.restore(shapes)


def test_a_refused_checkpoint_costs_none_of_the_others(
    tmp_path, toy_program, toy_batches, capsys, monkeypatch
):
    """The writer's error is made up here; in benchmarks/faults.py and below a disk says it."""
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
    said = capsys.readouterr().err
    assert "checkpoints/4 could not be written: No space left on device; the last" in said
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
    refused = f"checkpoints/{full} could not be written: File too large; the last whole one: "
    assert refused + str(full - full % 2 - 2 + 2 * (full == 9)) in done.stderr
    assert Run(tmp_path).checkpoint_steps() == left
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2


def test_a_run_that_measured_only_bleu_takes_its_latest(tmp_path, toy_program, toy_batches, capsys):
    def measure(now):
        now.measured["bleu"] = 10.0 - now.number

    run = {"model_dir": str(tmp_path), "policy": Policy(period=2)}
    train.train(toy_program(), toy_batches(), steps=4, hooks=[measure], **run)
    assert Run(tmp_path).best_step() == 4
    assert "damaged" not in capsys.readouterr().err


def test_the_average_is_the_mean_of_the_last(tmp_path, toy_program, toy_batches):
    program = toy_program()
    train.train(
        program, toy_batches(), model_dir=str(tmp_path), steps=8, policy=Policy(period=2, keep=4)
    )
    shapes = program.shapes(3).params
    assert Run(tmp_path).last_steps(3) == [4, 6, 8]
    assert Run(tmp_path).last_steps(2, step=6) == [4, 6]
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
        Run(tmp_path).last_steps(3)
    with pytest.raises(ValueError, match="the last 2 checkpoints up to 3: .* has 2, 4"):
        Run(tmp_path).last_steps(2, step=3)
    with pytest.raises(ValueError, match="the last 0 checkpoints; allowed: 1 or more"):
        Run(tmp_path).last_steps(0)
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
    assert Run(tmp_path).best_step() == 0
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
