"""Measures what a run loses by kills, damage, full disks, signals and other faults.

    python -m benchmarks.faults [--kills 25] [--seed 0]

`mmt.train` trains a tiny model on a made-up cache, in separate processes. Training losses and final
checkpoints are compared, bit for bit, with an undisturbed run. `lost` counts losses that differ,
damaged checkpoints and missing records. It takes ten minutes on two cores at most. The exit status
is 1 if anything was lost. A limit on file size (RLIMIT_FSIZE) stands for a full disk.
"""

import argparse
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.faulty_run import PERIOD, SKIPS, STEPS, Options, make_cache, run

HERE = multiprocessing.get_context("forkserver")  # imports once for all processes


class Row(NamedTuple):
    """The fault, the observed behaviour, and the number of losses."""

    fault: str
    happened: str
    lost: int


class Bench:
    """A folder of runs, one of them undisturbed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.whole = self.options("whole")
        make_cache(folder / "cache")
        assert self.finished(self.whole) == 0, self.message(self.whole)

    def options(self, name: str, **options: Any) -> Options:
        stderr = str(self.folder / f"{name}.stderr")
        return Options(self.folder / name, self.folder / "cache", stderr=stderr, **options)

    def start(self, options: Options) -> Any:
        process = HERE.Process(target=run, args=(options,))
        process.start()
        return process

    def finished(self, options: Options) -> int:
        process = self.start(options)
        process.join()
        return process.exitcode

    def message(self, options: Options, *words: str) -> str:
        """Returns the first line on stderr that has all the words."""
        lines = Path(options.stderr).read_text().splitlines()
        line = next((line for line in lines if all(word in line for word in words)), "")
        return line.replace(f"{options.directory}/", "").replace("checkpoints/", "")

    def lost(self, options: Options) -> int:
        """Returns the number of steps with another loss than the undisturbed run, plus bad
        checkpoints.
        """
        from mmt.checkpoint import digests
        from mmt.run import Run

        losses, expected = self.losses(options), self.losses(self.whole)
        bad = sum(
            bool(digests.verify(options.directory / "checkpoints" / str(step)))
            for step in Run(options.directory).checkpoint_steps()
        )
        return bad + sum(losses.get(step) != loss for step, loss in expected.items())

    def losses(self, options: Options) -> dict[int, float]:
        from mmt.run import read_metrics

        rows = read_metrics(options.directory / "metrics.jsonl")
        return {row["step"]: row["loss"] for row in rows if "loss" in row}

    def progress(self, process: Any, options: Options) -> None:
        """Waits until a run has written another checkpoint, or has ended."""
        from mmt.run import Run

        before = Run(options.directory).checkpoint_steps()
        while process.is_alive() and Run(options.directory).checkpoint_steps()[-1:] == before[-1:]:
            time.sleep(0.01)

    def wait(self, process: Any, options: Options, step: int) -> None:
        """Waits until a run has a checkpoint of this step or a later one."""
        from mmt.run import Run

        while Run(options.directory).last_step() < step:
            assert process.is_alive(), self.message(options)
            time.sleep(0.01)


def kills(bench: Bench, count: int) -> Iterator[Row]:
    """Sends SIGKILL at random moments; a run that ends earlier is compared, and another one starts.
    """
    lost = runs = writing = done = 0
    while done < count or not done:
        options, ended = bench.options(f"killed{runs}", pause=0.01), False
        runs += 1
        while not ended:
            process = bench.start(options)
            if done < count:
                if done % 5:  # every fifth is killed while it starts
                    bench.progress(process, options)
                process.join(bench.random.uniform(0.0, 1.0))
            else:
                process.join()
            ended = not process.is_alive()
            if not ended:
                writing += bool(list(options.directory.glob("checkpoints/*tmp*")))
                process.kill()
                process.join()
                done += 1
        lost += bench.lost(options)
    yield Row(f"SIGKILL at {done} random moments, {writing} of them while a checkpoint was written",
              f"{runs} runs to the end, every loss as if never killed", lost)  # fmt: skip


def cut(directory: Path, rng: random.Random) -> None:
    file = max((file for file in directory.rglob("*") if file.is_file()), key=os.path.getsize)
    os.truncate(file, file.stat().st_size // 2)


def flip(directory: Path, rng: random.Random) -> None:
    files = [file for file in sorted(directory.glob("*/**/*")) if file.is_file()]
    file = rng.choices(files, [file.stat().st_size for file in files])[0]
    content = bytearray(file.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


def halve(directory: Path, rng: random.Random) -> None:
    files = [file for file in sorted(directory.rglob("*")) if file.is_file()]
    for file in rng.sample(files, len(files) // 2):
        file.unlink()


def damage(bench: Bench, times: int = 2) -> Iterator[Row]:
    """Damages the last checkpoint of a run, and resumes the run."""
    half = bench.options("half", steps=STEPS - 2 * PERIOD)
    assert bench.finished(half) == 0
    kinds: dict[str, Callable[[Path, random.Random], None]] = {
        "its largest file truncated": cut,
        "one bit flipped": flip,
        "half of its files deleted": halve,
    }
    for name, harm in kinds.items():
        lost, unnamed, message = 0, 0, ""
        for number in range(times):
            options = bench.options(f"{harm.__name__}{number}")
            shutil.copytree(half.directory, options.directory)
            harm(options.directory / "checkpoints" / str(half.steps), bench.random)
            unnamed += bench.finished(options) != 0
            message = bench.message(options, "is damaged")
            unnamed += not message
            lost += bench.lost(options)
        yield Row(f"last checkpoint, {name} ({times} times)", f"{message}; the one before is taken",
                  lost + unnamed)  # fmt: skip


def full_disks(bench: Bench) -> Iterator[Row]:
    options = bench.options("full", full=(20, 35), pause=0.02)
    status = bench.finished(options)
    message = bench.message(options, "written")
    yield Row(
        "disk full for 15 steps, checkpoints and metrics", f"{message}; status {status}",
        bench.lost(options) + (status != 0),
    )  # fmt: skip
    options = bench.options("stays_full", full=(20, -1), pause=0.02)
    status = bench.finished(options)
    message = bench.message(options, "the last complete one") or bench.message(options, "written")
    again = bench.finished(options._replace(full=(0, 0)))
    yield Row("disk full to the end, then started again with room",
              f"{message}; status {status}, then {again}",
              bench.lost(options) + (status == 0) + (again != 0))  # fmt: skip
    target = bench.folder / "other_cache"
    process = HERE.Process(target=_cache_on_a_full_disk, args=(target,))
    process.start()
    process.join()
    left = [path.name for path in bench.folder.iterdir() if "other_cache" in path.name]
    yield Row(
        "disk full while a cache is made",
        f"OSError, status {process.exitcode}; left: {', '.join(left) or 'nothing'}",
        len(left) + (process.exitcode != 1),
    )


def _cache_on_a_full_disk(directory: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))
    try:
        make_cache(directory)
    except OSError:
        sys.exit(1)


def not_finite(bench: Bench) -> Iterator[Row]:
    from mmt.run import read_metrics

    def rows(options: Options, key: str) -> list[Any]:
        logged = read_metrics(options.directory / "metrics.jsonl")
        return [row[key] for row in logged if key in row]

    options = bench.options("skips", poisoned=(20, 30, 31))
    status = bench.finished(options)
    skipped, before = sum(rows(options, "skipped")), bench.losses(options)
    lost = sum(before.get(step) != bench.losses(bench.whole)[step] for step in range(1, 21))
    yield Row("NaN in the batches 20, 30 and 31", f"{skipped} steps skipped and counted",
              lost + (skipped != 3) + (status != 0) + (STEPS - 3 - len(before)))  # fmt: skip
    bad = tuple(range(30, 30 + SKIPS + 1))
    whole, killed = (bench.options(name, poisoned=bad) for name in ("returns", "returns_killed"))
    bench.finished(whole)
    process = bench.start(killed._replace(pause=0.02))
    bench.wait(process, killed, 33)
    process.kill()
    process.join()
    bench.finished(killed)
    back = rows(whole, "returned_from")
    same = bench.losses(whole) == bench.losses(killed) and len(bench.losses(whole)) == STEPS
    yield Row(f"NaN in {len(bad)} batches in a row", f"back from step {back[0] if back else '-'}: "
              f"{bench.message(whole, 'back to step') or '-'}; killed and started again the same",
              (not same) + (len(back) != 1))  # fmt: skip


def signals(bench: Bench) -> Iterator[Row]:
    options = bench.options("terminated", pause=0.02)
    process = bench.start(options)
    bench.wait(process, options, 10)
    since = time.monotonic()
    process.terminate()
    time.sleep(0.05)
    process.terminate()
    process.join()
    seconds, status = time.monotonic() - since, process.exitcode
    message = bench.message(options, "signal")
    again = bench.finished(options)
    yield Row("SIGTERM twice, 50 ms apart", f"{message}, after {seconds:.1f} s; status {status}",
              bench.lost(options) + (status != 143) + (again != 0))  # fmt: skip
    options = bench.options("clock", back=True)
    status = bench.finished(options)
    yield Row("each look at the clock finds it an hour earlier", f"status {status}",
              bench.lost(options))  # fmt: skip
    options = bench.options("twice", pause=0.02)
    second = options._replace(stderr=str(bench.folder / "second.stderr"))
    process = bench.start(options)
    bench.wait(process, options, 3)
    since, status = time.monotonic(), bench.finished(second)
    seconds = time.monotonic() - since
    process.join()
    message = bench.message(second, "in use by process")
    yield Row(
        "two runs in one MODEL_DIR", f"{message}; after {seconds:.1f} s, status {status}",
        bench.lost(options) + (status != 1) + (not message) + (process.exitcode != 0),
    )  # fmt: skip


def main(arguments: list[str]) -> int:
    """Prints the table; returns 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    since = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = f"{folder}/programs"
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
        HERE.set_forkserver_preload(["optax", "mmt.train", "mmt.data.pipeline"])
        bench = Bench(Path(folder), args.seed)
        table = Table("fault", "what happened", "lost", show_lines=True)
        rows = []
        parts = (kills(bench, args.kills), damage(bench), full_disks(bench), not_finite(bench),
                 signals(bench))  # fmt: skip
        for row in (row for part in parts for row in part):
            rows.append(row)
            table.add_row(row.fault, row.happened, str(row.lost))
            print(f"{row.fault}: lost {row.lost}", file=sys.stderr)
    Console(width=110).print(table)
    lost = sum(row.lost for row in rows)
    seconds = time.monotonic() - since
    print(f"{STEPS} steps, a checkpoint every {PERIOD}; {seconds:.0f} s; lost: {lost}")
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
