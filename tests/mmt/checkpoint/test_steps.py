"""Which checkpoints there are, by their names alone; what is in them stands in test_checkpoint."""

import json

import pytest

from mmt.checkpoint import steps


def checkpoints(run, losses):
    for step, loss in losses.items():
        folder = run / "checkpoints" / str(step) / "measured"
        folder.mkdir(parents=True)
        measured = {} if loss is None else {"validation_loss": loss}
        (folder / "metadata").write_text(json.dumps(measured))


def test_only_whole_ones_count(tmp_path):
    assert steps.available_steps(tmp_path) == []
    checkpoints(tmp_path, {10: None, 9: None})
    for name in ("11.orbax-checkpoint-tmp", "8.damaged"):
        (tmp_path / "checkpoints" / name).mkdir()
    (tmp_path / "checkpoints/12").write_text("")
    assert steps.available_steps(tmp_path) == [9, 10]


def test_the_best_is_that_of_least_loss_and_a_broken_measurement_is_named(tmp_path, capsys):
    checkpoints(tmp_path, {1: 3.0, 2: 1.0, 3: 2.0, 4: None})
    assert steps.best_step(tmp_path) == 2
    (tmp_path / "checkpoints/2/measured/metadata").write_text("{")
    assert steps.best_step(tmp_path) == 3
    assert "checkpoints/2/measured is damaged" in capsys.readouterr().err


def test_the_last_are_in_order_or_the_ones_there_are_named(tmp_path):
    checkpoints(tmp_path, {2: None, 4: None, 10: None})
    assert steps.last_steps(tmp_path, 2) == [4, 10]
    with pytest.raises(ValueError, match="has 2, 4, 10"):
        steps.last_steps(tmp_path, 4)
