"""Compares the simulator of failures with the formulas of Young and Daly, and with killed runs.

    python -m benchmarks.goodput [--kills 0] [--seed 0]

The first table has machines whose failures are exponential and that always have a host at hand,
where Daly's mean time is exact. The others have no formula: few spare hosts, a smaller mesh, and
Llama 3 405B (arXiv 2407.21783: 419 interruptions in 54 days on 16,384 GPUs, more than 90 % of the
time effective).

With `--kills`, a tiny run trains in a separate process that SIGKILL ends at exponential times, and
is started again, as often as that. The seconds of a start, of a step and of a save are measured in
an undisturbed run; the simulator then forecasts the time to the end. It takes about ten seconds a
kill on two cores.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from mmt.plan import goodput
from mmt.plan.goodput import FailingRun, Failures

DAY, HOUR = 86400.0, 3600.0
MACHINES = (  # days of training; seconds of a save, a restart, between failures
    (20.0, 10.0, 300.0, 48 * HOUR), (20.0, 60.0, 300.0, 3 * HOUR), (20.0, 60.0, 900.0, 3 * HOUR),
    (20.0, 120.0, 300.0, 0.5 * HOUR), (60.0, 30.0, 600.0, 6 * HOUR),
)  # fmt: skip


def formulas(seed: int) -> Table:
    """Returns a row for each machine for which Daly's formula is exact."""
    table = Table("days", "save, s", "restart, s", "between failures, h", "Young, s", "Daly, s",
                  "best, s", "days, formula", "simulated", "ratio", "goodput")  # fmt: skip
    for days, save, restart, mean in MACHINES:
        rates = Failures(restart_seconds=restart, seed=seed)
        run = goodput.with_rates(FailingRun(days * DAY, save, 0.0, 1024, 256, rates), mean)
        best, daly = goodput.best(run), goodput.daly(save, mean)
        done, expected = goodput.simulate(run, daly), goodput.expected_seconds(run, daly)
        table.add_row(
            f"{days:.0f}", f"{save:.0f}", f"{restart:.0f}", f"{mean / HOUR:g}",
            f"{goodput.young(save, mean):,.0f}", f"{daly:,.0f}", f"{best.interval:,.0f}",
            f"{expected / DAY:.3f}", f"{done.mean / DAY:.3f}", f"{done.mean / expected:.4f}",
            f"{done.share:.1%}",
        )  # fmt: skip
    return table


def without_formula(seed: int) -> Table:
    """Returns a row for each machine without a formula."""
    table = Table("54 days on 16,384 chips", "goodput", "failures", "days, 5 to 95 %", "waiting",
                  "fewer hosts")  # fmt: skip
    rows = {"no spare host": Failures(spare_hosts=0, seed=seed),
            "no spare host, elastic": Failures(spare_hosts=0, elastic=True, seed=seed),
            "1 spare host": Failures(seed=seed),
            "4 spare hosts (Llama 3: above 90 %)": Failures(spare_hosts=4, seed=seed)}  # fmt: skip
    for name, rates in rows.items():
        done = goodput.best(FailingRun(49 * DAY, 10.0, 30.0, 16_384, 2048, rates))
        waiting, fewer = (done.parts[key] / done.mean
                          for key in ("waiting for hosts", "fewer hosts"))  # fmt: skip
        table.add_row(
            name, f"{done.share:.1%}", f"{done.failures:,.0f}",
            f"{done.quantile(0.05) / DAY:.1f} to {done.quantile(0.95) / DAY:.1f}",
            f"{waiting:.1%}", f"{fewer:.1%}",
        )  # fmt: skip
    return table


def killed(kills: int, seed: int) -> str:
    """Trains with kills; returns measured seconds beside the simulator's."""
    from benchmarks.faults import HERE, Bench
    from benchmarks.faulty_run import PERIOD, STEPS

    pause = 0.2  # so that a run is longer than its start
    with tempfile.TemporaryDirectory(prefix="goodput-") as folder:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = f"{folder}/programs"
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        HERE.set_forkserver_preload(["optax", "mmt.train", "mmt.data.pipeline"])
        bench = Bench(Path(folder), seed)
        starts, runs, ends = list[float](), list[float](), list[float]()
        for number in range(2):
            options = bench.options(f"timed{number}", pause=pause)
            since = time.monotonic()
            process = bench.start(options)
            bench.wait(process, options, PERIOD)
            starts.append(time.monotonic() - since)
            process.join()
            runs.append(time.monotonic() - since)
        start, whole = min(starts), min(runs)
        step = (whole - start) / (STEPS - PERIOD)  # with its part of the saves
        start -= PERIOD * step
        mean = 0.6 * whole
        chance, total, done = random.Random(seed), 0.0, 0
        while done < kills or not ends:
            options = bench.options(f"killed{len(ends)}", pause=pause)
            since, ended = time.monotonic(), False
            while not ended:
                process = bench.start(options)
                process.join(chance.expovariate(1 / mean))
                ended = not process.is_alive()
                if not ended:
                    process.kill()
                    process.join()
                    done += 1
            ends.append(time.monotonic() - since)
            total += bench.lost(options)
    work = STEPS * step
    rates = Failures(restart_seconds=start, seed=seed)
    run = goodput.with_rates(FailingRun(work + 1e-9, 0.0, 0.0, 1, 1, rates), mean)
    forecast = goodput.simulate(run, PERIOD * step)
    measured = sum(ends) / len(ends) - start  # the simulated run has no first start
    return (
        f"{len(ends)} runs with {done} kills, one every {mean:.1f} s: {measured:.1f} s each, "
        f"{forecast.mean:.1f} s simulated (5 to 95 %: {forecast.quantile(0.05):.1f} to "
        f"{forecast.quantile(0.95):.1f}), ratio {forecast.mean / measured:.2f}; a start takes "
        f"{start:.1f} s, a step {step:.2f} s; losses that differ: {total:g}"
    )


def main(arguments: list[str]) -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    print(header())
    console = Console(width=120)
    console.print(formulas(args.seed))
    console.print(without_formula(args.seed))
    if args.kills:
        print(killed(args.kills, args.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
