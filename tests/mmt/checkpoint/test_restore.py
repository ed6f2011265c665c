"""Reading checkpoints: damage and absence."""

import contextlib
import random
import shutil

import pytest

from mmt import checkpoint, train
from mmt.checkpoint import Checkpoints, Policy
from mmt.run import Run
from tests.helpers.runs import equal_trees


def test_a_damaged_checkpoint_is_named_and_the_previous_one_restored(
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
    assert equal_trees(whole.params, again.params)


def test_without_a_checkpoint_the_error_names_the_directory(tmp_path):
    with pytest.raises(ValueError, match="no checkpoint in"):
        Run(tmp_path).best_step()


def test_reading_logs_nothing(tmp_path, toy_program, toy_batches, caplog):
    program = toy_program()
    run = {"model_dir": str(tmp_path), "policy": Policy(period=1)}
    train.train(program, toy_batches(), steps=1, **run)
    caplog.clear()
    train.train(program, toy_batches(), steps=2, **run)
    checkpoint.restore_params(tmp_path, program.shapes(3).params)
    assert not caplog.records


def test_the_position_in_the_data_is_that_of_the_latest_checkpoint(
    tmp_path, toy_program, toy_batches
):
    assert checkpoint.data_state(tmp_path) is None
    batches = toy_batches()
    run = {"model_dir": str(tmp_path), "policy": Policy(period=2, keep=2)}
    train.train(toy_program(), batches, steps=4, **run)
    assert checkpoint.data_state(tmp_path) == batches.get_state()
    (tmp_path / "checkpoints/4/data/metadata").write_text("{")  # damaged: the one before it
    assert checkpoint.data_state(tmp_path) not in (None, batches.get_state())


def test_an_unknown_step_is_an_error_with_the_known_ones(tmp_path, toy_program, toy_batches):
    program = toy_program()
    train.train(program, toy_batches(), model_dir=str(tmp_path), steps=3)
    with pytest.raises(ValueError, match="there are: 3"):
        checkpoint.restore_params(tmp_path, program.shapes(3).params, step=2)


@pytest.mark.parametrize(
    "damage", ["metadata cut", "arrays cut", pytest.param("gone", marks=pytest.mark.slow)]
)
def test_with_any_damage_training_resumes_and_translating_is_an_error(
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
def test_damage_of_any_file_is_detected(tmp_path, saved, capsys, damage, seed):
    """With any damage to a file of the last checkpoint, the previous one is restored or the saved
    items are.
    """
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
    error = capsys.readouterr().err
    assert "checkpoints/2 is damaged" in error and where in error
    assert (tmp_path / "run/checkpoints/2.damaged").is_dir()
    assert Run(tmp_path / "run").checkpoint_steps() == [1]


def test_without_digests_what_cannot_be_read_is_damaged(tmp_path, saved):
    """Checkpoints written before digests existed."""
    good, shapes = saved
    shutil.copytree(good, tmp_path / "run")
    for note in tmp_path.glob("run/checkpoints/*/digests.json"):
        note.unlink()
    with Checkpoints(tmp_path / "run") as checkpoints:
        assert checkpoints.restore(shapes)[0] == 2
    shutil.rmtree(tmp_path / "run/checkpoints/2/params/ocdbt.process_0")
    with Checkpoints(tmp_path / "run") as checkpoints:
        assert checkpoints.restore(shapes)[0] == 1


def test_if_all_are_damaged_all_are_kept(tmp_path, saved):
    good, shapes = saved
    shutil.copytree(good, tmp_path / "run")
    for file in tmp_path.glob("run/checkpoints/*/params/_METADATA"):
        file.unlink()
    for _ in range(2):
        with Checkpoints(tmp_path / "run") as checkpoints:
            with pytest.raises(ValueError, match="no good checkpoint in .*_METADATA is missing"):
                checkpoints.restore(shapes)
