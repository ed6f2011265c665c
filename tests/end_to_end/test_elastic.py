"""A run that moves between process counts and layouts has the data and numbers of one that does
not.
"""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mmt import distributed
from mmt.data import ledger, pipeline
from mmt.data.mixing import Mixing
from mmt.data.stages import Stage
from mmt.run import Run, read_metrics
from tests.helpers.processes import DENSE, MOE, Runner, finish, records, write_corpus
from tests.helpers.streams import part, write_text_cache

STEPS = 4  # of each leg of the journey


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    pytest.importorskip("seqio", reason="making a cache needs the extra [data]")
    return Runner(write_corpus(tmp_path_factory.mktemp("data") / "words"))


def losses(directory):
    rows = read_metrics(directory / "metrics.jsonl")
    return [(row["step"], row["loss"]) for row in rows if "loss" in row]


def position(directory, step):
    """Returns the data position in the checkpoint of a step."""
    (file,) = (directory / f"checkpoints/{step}/data").glob("metadata")
    return json.loads(file.read_text())


SHARDS = 8
STAGES = [
    Stage({"examples": 150}, Mixing(1.0, languages=["deu"]), {"typos": 0.3, "merged": 0.2}),
    Stage({"swh": 2}, Mixing(2.0), {"upper_case": {"swh": 0.5}, "numbers": 0.3}),
    Stage(modifiers={"noise": 0.1}),
]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return write_text_cache(tmp_path_factory.mktemp("data"), {"deu_Latn": 150, "swh_Latn": 40})[0]


def stream(texts, batch_size, packing):
    return pipeline.train_batches(
        texts, feature_lengths={"inputs": 80, "targets": 80}, batch_size=batch_size,
        virtual_shards=SHARDS, stages=STAGES, packing=packing,
    )  # fmt: skip


def by_shard(batch):
    """The rows of each virtual shard, hashable."""
    rows = [b"".join(batch[name][i].tobytes() for name in sorted(batch))
            for i in range(len(batch["encoder_input_tokens"]))]  # fmt: skip
    each = len(rows) // SHARDS
    return [rows[shard * each : (shard + 1) * each] for shard in range(SHARDS)]


@pytest.fixture(
    scope="module",
    params=[True, pytest.param(False, marks=pytest.mark.slow)],
    ids=["packed", "one a row"],
)
def unmoved(texts, request):
    """The first rows of each virtual shard, in order, of a run that stays where it is."""
    batches = stream(texts, SHARDS, request.param)
    drawn = [by_shard(next(batches)) for _ in range(60)]
    assert batches.order.sampler.parts[2].start < batches.next_draw()  # all stages are there
    batches.close()
    return request.param, [[batch[shard][0] for batch in drawn] for shard in range(SHARDS)]


def check_journey(texts, unmoved, journey):
    """journey: (processes, batch size, steps) of each leg."""
    packing, expected = unmoved
    rows_read = [[] for _ in range(SHARDS)]
    state = None
    for processes, batch_size, steps in journey:
        parts = [stream(texts, batch_size, packing) for _ in range(processes)]
        for process, local in enumerate(parts):
            local.share(part(process, processes))
            if state is not None:
                local.set_state(state)
        for _ in range(steps):
            drawn = [next(local) for local in parts]
            batch = {name: np.concatenate([each[name] for each in drawn]) for name in drawn[0]}
            for shard, rows in enumerate(by_shard(batch)):
                rows_read[shard] += rows
        state = json.loads(json.dumps(distributed.merged([local.get_state() for local in parts])))
        for local in parts:
            local.close()
    assert rows_read == [rows[: len(rows_read[0])] for rows in expected]


def test_every_virtual_shard_resumes_on_other_processes(texts, unmoved):
    """With stages, modifiers and packing on."""
    check_journey(texts, unmoved, [(1, 8, 2), (2, 32, 1)])


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(journey=st.lists(
    st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from([8, 16, 32]), st.integers(1, 3)),
    min_size=2, max_size=5,
))  # fmt: skip
@example(journey=[(1, 8, 3), (2, 16, 3), (4, 32, 3), (1, 32, 3)])
def test_every_virtual_shard_resumes_wherever_the_run_moves(texts, unmoved, journey):
    check_journey(texts, unmoved, journey)


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
    expected, read = records(whole), []
    for leg, layout in enumerate(journey, 1):
        axes = layout.pop("axes", "{'data': -1, 'model': 1}")
        runner.run(
            moved, *model, f"--gin.sharding.device_mesh.axes={axes}", steps=STEPS * leg, **layout
        )
        read += records(moved)
        assert Run(moved).checkpoint_steps()[-1] == STEPS * leg
    assert read == expected  # the same examples in the same rows of the same steps
    seen = Counter(str(record) for step in read for row in step for record in row)
    assert set(seen.values()) <= {1, 2}, "an epoch is over, at most: some come a second time"
    last = STEPS * len(journey)
    assert position(moved, last) == position(whole, last)
    assert ledger.load(moved)["rows"] == ledger.load(whole)["rows"]
    steps, ours = zip(*losses(moved), strict=True)
    theirs = dict(losses(whole))
    assert steps == tuple(theirs)
    assert ours == pytest.approx(list(theirs.values()), rel=1e-4)


@pytest.mark.mesh
def test_fewer_virtual_shards_than_processes_are_an_error(runner, tmp_path):
    """The number of virtual shards is fixed for a run: process counts must divide it."""
    shards = "--gin.pipeline.train_batches.virtual_shards=2"
    runner.run(tmp_path / "run", *DENSE, shards, steps=1)
    records(tmp_path / "run")
    ended = finish(runner.start(tmp_path / "run", *DENSE, processes=4, steps=2))
    for status, _, error in ended:
        assert status == 1 and "2 virtual shards of 4 rows cannot be shared by" in error
        assert "Traceback" not in error
    runner.run(tmp_path / "run", *DENSE, processes=2, steps=2)
