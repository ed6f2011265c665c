"""Compares the simulator of failures with formulas, and with real trainings that are killed.

    python -m benchmarks.goodput [--seed 0] [--real [--seeds 3]]

The first tables have made-up machines, see `formulas`. The others have trainings of a tiny model
that are killed at random moments and started again until they are done, see `killed_runs`. Their
rows are in `killed_runs.jsonl`; `--real` trains them anew, which takes 13 CPU minutes.

The constants of the simulator (seconds of a step, a save and a start) are those of unkilled runs
before and after the killed ones. Two intervals between saves are compared: Daly's, and a third of
the run. The goal is a goodput within 10 % of the forecast.
"""

import argparse
import functools
import json
import os
import queue
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.goodput import forecasts
from benchmarks.goodput.formulas import formulas, without_formula
from benchmarks.goodput.killed_runs import REFERENCE, Bench
from benchmarks.header import header
from mmt import timings
from mmt.run import Run

KILLED_RUNS = Path(__file__).parent / "killed_runs.jsonl"
Job = Callable[[], dict[str, Any]]
MEAN, WORK = 25.0, 48.0  # CPU seconds between failures, and of the steps of a run


def train_and_kill(folder: Path, seeds: int) -> list[dict[str, Any]]:
    """Trains all runs, one at a time on each core, and returns their rows."""
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


def one_on_each_core(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Returns the results of all jobs, in their order. A job's processes are bound to its core."""
    cores: queue.SimpleQueue[int] = queue.SimpleQueue()
    for core in sorted(os.sched_getaffinity(0)):
        cores.put(core)

    def run(job: Job) -> dict[str, Any]:
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
    args = parser.parse_args()
    if args.real:
        with tempfile.TemporaryDirectory(prefix="goodput-") as folder:
            rows = train_and_kill(Path(folder), args.seeds)
        KILLED_RUNS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(header())
    console = Console(width=120)
    console.print(formulas(args.seed))
    console.print(without_formula(args.seed))
    _print_killed(console, [json.loads(line) for line in KILLED_RUNS.open(encoding="utf-8")])


def _print_killed(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    known = forecasts.mean_constants(rows[0]["constants"])
    print(f"killed runs: {rows[0]['machine']}")
    console.print(forecasts.constants_table(known, rows[0]["cold_start"]))
    console.print(forecasts.runs_table(known, rows[1:]))
    console.print(forecasts.summary_table(known, rows[1:]))


if __name__ == "__main__":
    main()
