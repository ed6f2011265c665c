"""Runs tasks in several processes, with a progress bar and an estimate of the time left.

Results come in the order of the items, for any number of processes. The caller defines the tasks,
and cleans up after a killed run.
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

_READ_AHEAD = 4  # items of a stream that are read ahead for each process

_SHARED: Any = None  # in a worker: the object shared by all tasks
_COUNTER: Any = None
_STOP: Any = None


@contextlib.contextmanager
def workers(shared: Any, processes: int) -> Iterator[Run]:
    """Yields a function `run(label, work, items, total)` that calls `work(shared, item, done)`.

    It returns the results in the order of the items.

    work: a function of a module, which calls `done(n)` repeatedly; the sum of n over all items is
        `total`. With one process everything runs here; otherwise `shared` is pickled once per
        process.

    The first error of a task cancels the rest. Raises OSError if a process was killed.
    """
    if processes <= 1:
        yield functools.partial(_run_here, shared)
        return
    with _pool(shared, processes) as (pool, counter):
        yield functools.partial(_run_in_pool, pool, counter)


@contextlib.contextmanager
def streaming(shared: Any, processes: int) -> Iterator[Stream]:
    """Yields a function `stream(work, items)`, an iterator of `work(shared, item)` in order.

    Items need not fit into memory, because few are read ahead. Errors of reading and of the work
    come in order too, so that the first is the same for any number of processes. Otherwise as
    `workers`.

    >>> with streaming(10, processes=1) as stream:
    ...     list(stream(lambda shared, item: shared * item, iter([1, 2])))
    [10, 20]
    """
    if processes <= 1:
        yield lambda work, items: (work(shared, item) for item in items)
        return
    with _pool(shared, processes) as (pool, _):
        yield functools.partial(_stream_in_pool, pool, processes * _READ_AHEAD)


@contextlib.contextmanager
def _pool(shared: Any, processes: int) -> Iterator[tuple[ProcessPoolExecutor, Any]]:
    """Yields the process pool and its shared counter."""
    context = multiprocessing.get_context("spawn")  # forking a process with threads may hang
    counter, stop = context.Value("q", 0), context.Event()
    pool = ProcessPoolExecutor(
        processes,
        mp_context=context,
        initializer=_initialise_worker,
        initargs=(shared, counter, stop),
    )
    try:
        yield pool, counter
    except BrokenProcessPool as error:
        raise OSError(
            "a worker process was killed (too little memory?), or could not start: a "
            'script needs `if __name__ == "__main__":` around code that starts processes'
        ) from error
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def _run_here(shared: Any, label: str, work: Work, items: Sequence[Any], total: int) -> list[Any]:
    with _progress(label, total) as show:
        total_done = 0

        def done(number: int) -> None:
            nonlocal total_done
            total_done += number
            show(total_done)

        return [work(shared, item, done) for item in items]


def _run_in_pool(
    pool: ProcessPoolExecutor,
    counter: Any,
    label: str,
    work: Work,
    items: Sequence[Any],
    total: int,
) -> list[Any]:
    counter.value = 0
    with _progress(label, total) as show:
        futures: list[Future[Any]] = [pool.submit(_run_counted, work, item) for item in items]
        pending = set(futures)
        while pending:
            ended, pending = wait(pending, timeout=0.2)
            for future in ended:
                future.result()
            show(counter.value)
        return [future.result() for future in futures]


def _stream_in_pool(
    pool: ProcessPoolExecutor,
    max_pending: int,
    work: Callable[[Any, Any], Any],
    items: Iterable[Any],
) -> Iterator[Any]:
    pending: collections.deque[Future[Any]] = collections.deque()
    remaining, read_error = iter(items), None
    has_more = True
    while has_more or pending:
        while has_more and len(pending) < max_pending:
            try:
                pending.append(pool.submit(_run_streamed, work, next(remaining)))
            except StopIteration:
                has_more = False
            except BrokenProcessPool:
                raise
            except Exception as error:  # raised after the results of earlier items
                has_more, read_error = False, error
        if pending:
            yield pending.popleft().result()
    if read_error is not None:
        raise read_error


def _initialise_worker(shared: Any, counted: Any, stopped: Any) -> None:
    global _SHARED, _COUNTER, _STOP
    _SHARED, _COUNTER, _STOP = shared, counted, stopped
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for([parent.sentinel])
    os._exit(1)


def _run_counted(work: Work, item: Any) -> Any:
    def done(number: int) -> None:
        with _COUNTER.get_lock():
            _COUNTER.value += number
        if _STOP.is_set():
            raise InterruptedError("another task failed")

    return work(_SHARED, item, done)


def _run_streamed(work: Callable[[Any, Any], Any], item: Any) -> Any:
    return work(_SHARED, item)


@contextlib.contextmanager
def _progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yields a function that takes the amount done, and shows a bar or a line every ten seconds.

    The bar is for a terminal on stderr, the lines for anything else.
    """
    start = last_line = time.monotonic()
    with progress_bar(COUNT, REMAINING, disable=None) as bar:
        task = bar.add_task(label, total=total)

        def show(done: int) -> None:
            nonlocal last_line
            bar.update(task, completed=done)
            now = time.monotonic()
            if not bar.console.is_terminal and now - last_line > 10 and done:
                last_line = now
                seconds_left = (now - start) * (total - done) / done
                print(f"{label}: {done:,} of {total:,}, {seconds_left:.0f} s left", file=sys.stderr)

        yield show
