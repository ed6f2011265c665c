"""Pieces of work in several processes, with a progress bar that knows how long it will take.

Results come in the order of the pieces, whatever the number of processes; what a piece of work is,
and what a killed run leaves of it, is the caller's business.
"""

import collections
import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from typing import Any

from mmt.system.progress import COUNT, REMAINING, progress_bar

Work = Callable[[Any, Any, Callable[[int], None]], Any]
Run = Callable[[str, Work, Sequence[Any], int], list[Any]]
Stream = Callable[[Callable[[Any, Any], Any], Iterable[Any]], Iterator[Any]]

_AHEAD = 4  # pieces of a stream for each process that are read before their turn

_SHARED: Any = None  # in a worker: what all pieces of work know
_COUNTED: Any = None
_STOPPED: Any = None


@contextlib.contextmanager
def workers(shared: Any, processes: int) -> Iterator[Run]:
    """A function `run(label, work, items, total)`: the results of `work(shared, item, done)` in the
    items' order.

    work: a function of a module, which calls `done(n)` now and then; `total` is what these add up
        to. With one process all is done here; else `shared` is pickled once for each process.

    The first error of a piece ends the rest. OSError: a process was killed.
    """
    if processes <= 1:
        yield functools.partial(_run_here, shared)
        return
    with _pool(shared, processes) as (pool, counted):
        yield functools.partial(_run_there, pool, counted)


@contextlib.contextmanager
def streaming(shared: Any, processes: int) -> Iterator[Stream]:
    """A function `stream(work, items)`: the results of `work(shared, item)` in the items' order, of
    items that need not fit into memory: few are read before their turn.

    Errors come in that order too, those of reading the items and those of the work, so that it is
    the same one whatever the number of processes. Else as `workers`.

    >>> with streaming(10, processes=1) as stream:
    ...     list(stream(lambda shared, item: shared * item, iter([1, 2])))
    [10, 20]
    """
    if processes <= 1:
        yield lambda work, items: (work(shared, item) for item in items)
        return
    with _pool(shared, processes) as (pool, _):
        yield functools.partial(_stream_there, pool, processes * _AHEAD)


@contextlib.contextmanager
def _pool(shared: Any, processes: int) -> Iterator[tuple[ProcessPoolExecutor, Any]]:
    """The processes, and what they count in."""
    context = multiprocessing.get_context("spawn")  # forking a process that has threads may hang
    counted, stopped = context.Value("q", 0), context.Event()
    pool = ProcessPoolExecutor(
        processes, mp_context=context, initializer=_start, initargs=(shared, counted, stopped)
    )
    try:
        yield pool, counted
    except BrokenProcessPool as error:
        raise OSError(
            "a process of the work was killed (is there too little memory?), or could not begin: a "
            'script needs `if __name__ == "__main__":` around what starts processes'
        ) from error
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)


def _run_here(shared: Any, label: str, work: Work, items: Sequence[Any], total: int) -> list[Any]:
    with _progress(label, total) as show:
        there = 0

        def done(number: int) -> None:
            nonlocal there
            there += number
            show(there)

        return [work(shared, item, done) for item in items]


def _run_there(
    pool: ProcessPoolExecutor,
    counted: Any,
    label: str,
    work: Work,
    items: Sequence[Any],
    total: int,
) -> list[Any]:
    counted.value = 0
    with _progress(label, total) as show:
        futures: list[Future[Any]] = [pool.submit(_work, work, item) for item in items]
        waiting = set(futures)
        while waiting:
            ended, waiting = wait(waiting, timeout=0.2)
            for future in ended:
                future.result()
            show(counted.value)
        return [future.result() for future in futures]


def _stream_there(
    pool: ProcessPoolExecutor,
    ahead: int,
    work: Callable[[Any, Any], Any],
    items: Iterable[Any],
) -> Iterator[Any]:
    waiting: collections.deque[Future[Any]] = collections.deque()
    left, fault = iter(items), None
    more = True
    while more or waiting:
        while more and len(waiting) < ahead:
            try:
                waiting.append(pool.submit(_work_alone, work, next(left)))
            except StopIteration:
                more = False
            except BrokenProcessPool:
                raise
            except Exception as error:  # its turn comes after those that were read before it
                more, fault = False, error
        if waiting:
            yield waiting.popleft().result()
    if fault is not None:
        raise fault


def _start(shared: Any, counted: Any, stopped: Any) -> None:
    global _SHARED, _COUNTED, _STOPPED
    _SHARED, _COUNTED, _STOPPED = shared, counted, stopped
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to handle
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for([parent.sentinel])
    os._exit(1)


def _work(work: Work, item: Any) -> Any:
    def done(number: int) -> None:
        with _COUNTED.get_lock():
            _COUNTED.value += number
        if _STOPPED.is_set():
            raise InterruptedError("another piece of the work failed")

    return work(_SHARED, item, done)


def _work_alone(work: Callable[[Any, Any], Any], item: Any) -> Any:
    return work(_SHARED, item)


@contextlib.contextmanager
def _progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function to be told how much is done: a bar on a terminal's stderr, else a line in ten
    seconds.
    """
    start = said = time.monotonic()
    with progress_bar(COUNT, REMAINING, disable=None) as bar:
        task = bar.add_task(label, total=total)

        def show(done: int) -> None:
            nonlocal said
            bar.update(task, completed=done)
            now = time.monotonic()
            if not bar.console.is_terminal and now - said > 10 and done:
                said = now
                left = (now - start) * (total - done) / done
                print(f"{label}: {done:,} of {total:,}, {left:.0f} s left", file=sys.stderr)

        yield show
