"""Work in several processes: results in order; the first error or a killed worker ends it."""

import os
import signal
import time

import pytest

from mmt.system.processes import streaming, workers


def square(shared, item, done):
    time.sleep(0.05 * (item % 3 == 0))
    done(1)
    return shared * item * item


def sometimes(shared, item, done):
    if item == 3:
        raise ValueError("three")
    for _ in range(200):
        time.sleep(0.02)
        done(1)


def dying(shared, item, done):
    if item == 1:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_order_and_an_error_ends_the_rest(processes):
    with pytest.raises(ValueError, match="three"), workers(10, processes) as run:
        assert run("squares", square, list(range(9)), 9) == [10 * i * i for i in range(9)]
        assert run("again", square, [2], 1) == [40]
        assert run("nothing", square, [], 0) == []
        start = time.monotonic()
        run("failing", sometimes, [3, 1, 4, 5, 6, 7], 1000)
    assert time.monotonic() - start < 12  # the others, 4 seconds each, were stopped


def tenfold(shared, item):
    time.sleep(0.02 * (item % 3 == 0))
    if item == 20:
        raise ValueError("twenty")
    return shared * item


def endless(read, fault=None):
    """Numbers from 1; notes what is read."""
    while fault is None or len(read) < fault:
        read.append(len(read) + 1)
        yield read[-1]
    raise OSError("cannot read on")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_stream_is_read_little_ahead_and_its_errors_come_in_turn(processes):
    read = []
    with streaming(10, processes) as stream:
        results = stream(tenfold, endless(read))
        assert [next(results) for _ in range(12)] == [10 * n for n in range(1, 13)]
        assert len(read) <= 12 + 4 * processes
        with pytest.raises(ValueError, match="twenty"):
            list(results)
        read, received = [], []
        with pytest.raises(OSError, match="cannot read on"):
            for result in stream(tenfold, endless(read, 9)):
                received.append(result)
        with pytest.raises(ValueError, match="twenty"):  # before what is read after it
            list(stream(tenfold, endless([], 22)))
    assert received == [10 * n for n in range(1, 10)]


@pytest.mark.slow
def test_a_killed_worker_is_an_error():
    with pytest.raises(OSError, match="was killed"), workers(None, 2) as run:
        run("dying", dying, [1, 2], 2)
