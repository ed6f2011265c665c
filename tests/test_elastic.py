"""A run moves between process counts and layouts, and nobody can tell from its data or numbers."""

import json
from collections import Counter

import pytest
from processes import DENSE, MOE, Runner, finish, records, write_corpus

from mmt import checkpoint, metrics
from mmt.data import ledger

STEPS = 4  # of each leg of the journey


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    pytest.importorskip("seqio", reason="making a cache needs the extra [data]")
    return Runner(write_corpus(tmp_path_factory.mktemp("data") / "words"))


def losses(directory):
    rows = metrics.read(directory / "metrics.jsonl")
    return [(row["step"], row["loss"]) for row in rows if "loss" in row]


def position(directory, step):
    """What the checkpoint of a step says of the data."""
    (file,) = (directory / f"checkpoints/{step}/data").glob("metadata")
    return json.loads(file.read_text())


@pytest.mark.mesh
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("model", [DENSE, MOE], ids=["dense", "moe"])
def test_one_two_four_one(runner, tmp_path, model):
    """Parameters cut over two axes, over all devices or not at all; rows in one part, two, four."""
    journey = (
        {"processes": 1, "devices": 1},
        {"processes": 2, "devices": 2, "axes": "{'data': 2, 'model': 2}"},
        {"processes": 4, "devices": 1, "axes": "{'data': -1, 'model': 1}"},
        {"processes": 1, "devices": 2, "axes": "{'data': 1, 'model': 2}"},
    )
    whole, moved = tmp_path / "whole", tmp_path / "moved"
    runner.run(whole, *model, steps=STEPS * len(journey))
    expected, found = records(whole), []
    for leg, layout in enumerate(journey, 1):
        axes = layout.pop("axes", "{'data': -1, 'model': 1}")
        runner.run(
            moved, *model, f"--gin.sharding.device_mesh.axes={axes}", steps=STEPS * leg, **layout
        )
        found += records(moved)
        assert checkpoint.available_steps(moved)[-1] == STEPS * leg
    assert found == expected  # the same examples in the same rows of the same steps
    seen = Counter(str(one) for step in found for row in step for one in row)
    assert set(seen.values()) <= {1, 2}, "an epoch is over, at most: some come a second time"
    last = STEPS * len(journey)
    assert position(moved, last) == position(whole, last)
    assert ledger.load(moved)["rows"] == ledger.load(whole)["rows"]
    steps, ours = zip(*losses(moved), strict=True)
    theirs = dict(losses(whole))
    assert steps == tuple(theirs)
    assert ours == pytest.approx(list(theirs.values()), rel=1e-4)


@pytest.mark.mesh
def test_a_run_with_fewer_lanes_than_processes_says_so(runner, tmp_path):
    """The lanes are the run's for ever: other processes than those that divide them cannot join."""
    lanes = "--gin.pipeline.train_batches.lanes=2"
    runner.run(tmp_path / "run", *DENSE, lanes, steps=1)
    records(tmp_path / "run")
    ended = finish(runner.start(tmp_path / "run", *DENSE, processes=4, steps=2))
    for status, _, error in ended:
        assert status == 1 and "2 lanes of 4 rows cannot be shared by" in error
        assert "Traceback" not in error
    runner.run(tmp_path / "run", *DENSE, processes=2, steps=2)
