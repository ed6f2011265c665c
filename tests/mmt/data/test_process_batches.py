"""Processes own whole virtual shards: every row once; the error names the possible numbers."""

import gc
import json
import multiprocessing
import os
import signal
import struct
import subprocess
import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmt.data import pipeline
from mmt.data.modifiers import Changes
from mmt.data.process_batches import ProcessRows, WorkerBatches, _Worker
from mmt.data.stages import Stage
from tests.helpers.streams import LENGTHS, batches_of, write_cache

COUNTS = {"deu_Latn": 200, "fra_Latn": 70, "swh_Latn": 8}


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 8))
def test_every_virtual_shard_is_of_one_process(processes, shards_each, rows_each):
    shards = processes * shards_each
    batch_size = shards * rows_each
    size = batch_size // processes
    numbers = []
    for process in range(processes):
        rows = ProcessRows(batch_size, shards, (range(process * size, (process + 1) * size),))
        rows.check()
        numbers += rows.shard_numbers()
    assert numbers == list(range(shards))


def test_rows_of_half_a_virtual_shard_are_refused():
    with pytest.raises(ValueError, match="2 virtual shards of 4 rows .* a multiple of 4 that"):
        ProcessRows(8, 2, (range(2),)).check()
    with pytest.raises(ValueError, match="batch_size 8 must be a positive multiple"):
        ProcessRows(8, 3, (range(8),)).check()


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return write_cache(tmp_path_factory.mktemp("data"), COUNTS)


@pytest.fixture
def batches(directory):
    with batches_of(directory) as make:
        yield make


def assert_go_on_alike(one, other, count):
    for _ in range(count):
        mine, yours = next(one), next(other)
        assert mine.keys() == yours.keys()
        for name in mine:
            np.testing.assert_array_equal(mine[name], yours[name], err_msg=name)
        assert one.get_state() == other.get_state()


@pytest.mark.parametrize("workers", [1, 3, pytest.param(20, marks=pytest.mark.slow)])
def test_batches_and_states_are_those_of_a_thread(batches, workers):
    alone, shared = batches(), batches(workers=workers)
    assert alone.get_state() == shared.get_state()
    assert_go_on_alike(alone, shared, 12)
    resumed = batches(workers=2)
    resumed.set_state(json.loads(json.dumps(shared.get_state())))
    assert_go_on_alike(alone, resumed, 3)
    resumed.set_state(alone.get_state())  # goes on after it has begun, too
    assert_go_on_alike(alone, resumed, 3)


def test_workers_resume_with_the_virtual_shards_of_the_state(batches):
    former = batches(batch_size=6, virtual_shards=3)
    next(former)
    alone, shared = batches(batch_size=12), batches(batch_size=12, virtual_shards=4, workers=2)
    for one in (alone, shared):
        one.set_state(former.get_state())
    assert_go_on_alike(alone, shared, 3)


def test_workers_follow_a_stage_that_losses_end(batches):
    stages = [Stage(until={"validation_loss": 1}), Stage(max_targets=8)]
    alone, shared = batches(stages=stages), batches(stages=stages, workers=2)
    assert_go_on_alike(alone, shared, 3)
    draw = alone.next_draw()
    for step, loss in enumerate((2.0, 3.0)):
        losses = dict.fromkeys(COUNTS, loss)
        changed = [one.validated(losses, draw, step=step) for one in (alone, shared)]
    assert changed[0] == changed[1] != []
    assert_go_on_alike(alone, shared, 6)


def test_workers_read_the_share_of_a_process(batches):
    alone, shared = batches(), batches(workers=2)
    for one in (alone, shared):
        one.share(lambda _: [range(4, 8)])
        one.add_corpus_ids()
    assert len(next(shared)["decoder_corpus_ids"]) == 4
    next(alone)
    assert_go_on_alike(alone, shared, 3)


def test_workers_end_with_the_batches(batches):
    shared = batches(workers=2)
    next(shared)
    assert len(multiprocessing.active_children()) == 2
    shared.close()
    assert not multiprocessing.active_children()


def test_workers_end_with_batches_that_nothing_refers_to(directory):
    shared = pipeline.train_batches(
        directory, feature_lengths=LENGTHS, batch_size=8, workers=2
    )  # fmt: skip
    next(shared)
    del shared
    gc.collect()
    assert not multiprocessing.active_children()


def test_a_killed_worker_is_an_error(batches):
    shared = batches(workers=2)
    next(shared)
    for child in multiprocessing.active_children():
        os.kill(child.pid, signal.SIGTERM)  # the parent answers it
    next(shared)
    os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
    with pytest.raises(OSError, match=r"a worker process .* was killed by signal 9") as error:
        for _ in range(100):
            next(shared)
    assert error.value.status == 75  # of the command: it may be repeated


def test_a_worker_that_is_killed_while_it_sends_a_batch_is_the_same_error():
    results, sender = multiprocessing.Pipe(duplex=False)
    os.write(sender.fileno(), struct.pack("!i", 1000) + b"the beginning of a message")
    sender.close()
    killed = subprocess.Popen(["sleep", "60"])
    killed.kill()
    process = types.SimpleNamespace(join=killed.wait, exitcode=-signal.SIGKILL)
    with pytest.raises(OSError, match=r"a worker process .* was killed by signal 9"):
        _Worker(process, results).receive()


def test_a_script_without_a_guard_is_told_what_workers_need(directory, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        f"from mmt.data import pipeline\n"
        f"next(pipeline.train_batches({str(directory)!r}, feature_lengths={LENGTHS}, "
        f"batch_size=8, workers=1))\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert ended.returncode == 1
    assert 'A script needs `if __name__ == "__main__":`' in ended.stderr.splitlines()[-1]


def broken():
    raise ValueError("no such cache")


def test_the_error_of_a_worker_is_raised_here():
    rows = ProcessRows(8, 8, (range(8),))
    shared = WorkerBatches(broken, rows, 2, {"lane": {}}, Changes())
    with pytest.raises(ValueError, match="no such cache"):
        next(shared)
    shared.close()


def test_a_wrong_number_of_workers_is_an_error(batches, as_users_have_it):
    for workers in (-1, 1.5, True, "two"):
        with pytest.raises(ValueError, match=f"workers is {workers!r}; allowed: whole numbers"):
            batches(workers=workers)
