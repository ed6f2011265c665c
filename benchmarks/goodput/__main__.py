"""Compares the simulator of failures with formulas, and with real trainings that are killed.

    python -m benchmarks.goodput [--seed 0] [--real [--processes 2] [--seeds 3]]

The first tables have made-up machines, see `formulas`. The others have trainings of a tiny model
that are killed at random moments and started again until they are done, see `killed_runs`; and
trainings of two processes of which one is killed, see `launched_runs`. `--real` trains them anew,
which takes 13 and 16 CPU minutes, and keeps their rows in `killed_runs.jsonl`.

The constants of the simulator (seconds of a step, a save and a start) are those of unkilled runs
beside the killed ones. Two intervals between saves are compared. The goal is a goodput
within 10 % of the forecast.
"""

import argparse
import functools
import json
import os
import queue
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.goodput import forecasts, launched_runs
from benchmarks.goodput.formulas import formulas, without_formula
from benchmarks.goodput.killed_runs import REFERENCE, Bench
from benchmarks.header import header
from mmt import timings
from mmt.run import Run

KILLED_RUNS = Path(__file__).parent / "killed_runs.jsonl"
Row = dict[str, Any]
Job = Callable[[], Any]
MEAN, WORK = 25.0, 48.0  # CPU seconds between failures, and of the steps of a run


def train_and_kill(folder: Path, seeds: int) -> list[Row]:
    """Trains all runs of one process, one at a time on each core, and returns their rows."""
    bench = Bench(folder)
    count = len(os.sched_getaffinity(0))

    def unkilled(name: str) -> list[Job]:
        names = [f"{name}-{number}" for number in range(count)]
        return [functools.partial(bench.unkilled, each, REFERENCE) for each in names]

    # Compiles, for all later starts.
    one_on_each_core([functools.partial(bench.unkilled, "warm-up", [(20, 20), (40, 20)])])
    cold = timings.read(Run(folder / "warm-up"))[0]
    measured = one_on_each_core(unkilled("before"))
    known = forecasts.mean_constants(measured)
    steps = round(WORK / known["step"])
    near = max(round(forecasts.interval(known, MEAN) / known["step"]), 1)
    rows = one_on_each_core([
        functools.partial(bench.killed, f"{period}-{seed}", steps=steps, period=period, seed=seed,
                          mean=MEAN)
        for seed in range(seeds) for period in (steps // 3, near)
    ])  # fmt: skip
    measured += one_on_each_core(unkilled("after"))
    return [{"machine": header(), "constants": measured, "cold_start": cold}, *rows]


def launch_and_kill(folder: Path, seeds: int) -> list[Row]:
    """Trains all runs of several processes, and returns their rows."""
    bench = Bench(folder)
    one_on_each_core([functools.partial(launched_runs.finished, bench, "warm-up", 20, 20, [])])
    cold = timings.read(Run(folder / "warm-up"))[0]
    signals = [(victim, signal.SIGKILL) for victim in range(launched_runs.PROCESSES)]
    detection, known = one_on_each_core([
        functools.partial(launched_runs.detections, bench, "detection", signals),
        functools.partial(launched_runs.unkilled, bench, "before"),
    ])  # fmt: skip
    rows = one_on_each_core([
        functools.partial(launched_runs.killed, bench, f"{period}-{seed}", period=period, seed=seed)
        for seed in range(seeds) for period in launched_runs.PERIODS
    ])  # fmt: skip
    return [{"machine": header(), "processes": launched_runs.PROCESSES, "constants": [known],
             "detections": detection, "cold_start": cold}, *rows]  # fmt: skip


def one_on_each_core(jobs: Sequence[Job]) -> list[Any]:
    """Returns the results of all jobs, in their order. A job's processes are bound to its core."""
    cores: queue.SimpleQueue[int] = queue.SimpleQueue()
    for core in sorted(os.sched_getaffinity(0)):
        cores.put(core)

    def run(job: Job) -> Any:
        core = cores.get()
        os.sched_setaffinity(0, {core})  # of this thread and its processes
        try:
            row = job()
            print(json.dumps(row), file=sys.stderr, flush=True)  # progress
            return row
        finally:
            cores.put(core)

    with ThreadPoolExecutor(cores.qsize()) as pool:
        return list(pool.map(run, jobs))


def main() -> None:
    """Prints the tables; with --real trains and kills the runs first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of the simulated machines")
    parser.add_argument("--real", action="store_true", help="train and kill runs anew")
    parser.add_argument("--seeds", type=int, default=3, help="killed runs of each interval")
    parser.add_argument("--processes", type=int, choices=TRAINED, action="append",
                        help="of the runs to train anew; default: all numbers")  # fmt: skip
    args = parser.parse_args()
    groups = load(KILLED_RUNS)
    for processes in args.processes or TRAINED if args.real else ():
        with tempfile.TemporaryDirectory(prefix="goodput-") as folder:
            groups[processes] = TRAINED[processes](Path(folder), args.seeds)
        lines = (json.dumps(row) + "\n" for rows in groups.values() for row in rows)
        KILLED_RUNS.write_text("".join(lines), encoding="utf-8")
    print(header())
    console = Console(width=120)
    console.print(formulas(args.seed))
    console.print(without_formula(args.seed))
    for processes, rows in groups.items():
        print(f"killed runs, {processes} process{'es' * (processes > 1)}: {rows[0]['machine']}")
        known = forecasts.known(rows[0])
        console.print(forecasts.constants_table(known, rows[0]["cold_start"]))
        console.print(forecasts.runs_table(known, rows[1:]))
        console.print(forecasts.summary_table(known, rows[1:]))


def load(file: Path) -> dict[int, list[Row]]:
    """Returns {number of processes: its rows, with the constants first}; {} without a file."""
    groups: dict[int, list[Row]] = {}
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else ()
    for row in map(json.loads, lines):
        groups.setdefault(row.get("processes", 1), []).append(row)
    return groups


TRAINED = {1: train_and_kill, launched_runs.PROCESSES: launch_and_kill}

if __name__ == "__main__":
    main()
