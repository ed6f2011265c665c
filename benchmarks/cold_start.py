"""Measures the first translation of a process, with and without cached compiled programs.

    python -m benchmarks.cold_start [RUN]

RUN is a run directory (default: the demo's model). Each row translates one line in a new process.
Rounds alternate, and the best of three counts.
"""

import os
import subprocess
import sys
import tempfile
import time

from rich.console import Console
from rich.table import Table

from mmt.run import Run

DEMO = "runs/demo/multilingual"
ROUNDS = 3
KEPT = {"none": None, "over 1 s": "1", "all": "0"}  # JAX's threshold of compile time, in seconds


def seconds(run: str, cache: str, threshold: str) -> float:
    """Returns seconds of `mmt translate` on one line, from start to exit."""
    environment = {
        **os.environ, "MMT_DATA": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": threshold,
    }  # fmt: skip
    command = [sys.executable, "-m", "mmt.cli", "translate", "--model", run]
    start = time.perf_counter()
    subprocess.run(command, input=b"3 Stunden\n", env=environment, check=True, capture_output=True)
    return time.perf_counter() - start


def main(arguments: list[str]) -> None:
    """Prints the table."""
    from benchmarks.header import header

    run = arguments[0] if arguments else DEMO
    Run(run).check_is_model()
    times: dict[str, list[float]] = {name: [] for name in KEPT}
    with tempfile.TemporaryDirectory() as folder:
        for threshold in ("1", "0"):
            seconds(run, f"{folder}/{threshold}", threshold)  # fills the cache
        for turn in range(ROUNDS):
            for name, kept in KEPT.items():
                cache = f"{folder}/empty{turn}" if kept is None else f"{folder}/{kept}"
                times[name].append(seconds(run, cache, kept or "0"))
    print(header())
    table = Table("programs kept", "s", "ratio")
    first = min(times["none"])
    for name, measured in times.items():
        table.add_row(name, f"{min(measured):.2f}", f"{min(measured) / first:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
