"""Measures how fast a corpus becomes a token cache: the local builder, and SeqIO's Beam job.

    python -m benchmarks.data.caching [--pairs 100000] [--languages 4]

The corpus has made-up pairs of 12 + 12 words in languages of equal size, and a vocabulary of 4,000
pieces. The local builder runs with 1 process, with 2, and with one per core. SeqIO's job runs on
Beam's DirectRunner with a tenth of the pairs; a cache is then made of its TFRecord files. Each run
is a new process.

"a pair" is computed from two corpus sizes, which excludes loading libraries and starting processes.
CPU time is the cost on a busy machine, wall time on an idle one. It needs the extras [data] and
[beam].
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.data.readers import made_up

CODES = ("deu_Latn", "fra_Latn", "swh_Latn", "jpn_Jpan", "hin_Deva", "zul_Latn")
MODULE = """
import sys, tasks
from mmt.data import corpora
tasks.register(corpora.load({folder!r}), vocabularies=4000)
"""
LOCAL = """
if __name__ == "__main__":  # the processes it starts need nothing of this
    import sys, my_tasks
    from pathlib import Path
    from tasks import build, by_name
    build.build_cache(by_name.find("{name}_to_eng"), Path(sys.argv[1]),
                      processes=int(sys.argv[2]), seqio_folder=sys.argv[3])
"""


class Seconds(NamedTuple):
    """Wall seconds and CPU seconds of all processes."""

    clock: float
    cpu: float


class Bench:
    """A corpus of `pairs` pairs in a folder, and programs that make caches of it."""

    def __init__(self, folder: Path, pairs: int, languages: int):
        self.folder, self.pairs, self.name = folder, pairs, f"made_up_{pairs}"
        corpus = folder / self.name
        corpus.mkdir()
        described = ['target = "eng"', "[train]"]
        for code in CODES[:languages]:
            described.append(f'{code} = "{code}.tsv"')
            with open(corpus / f"{code}.tsv", "w", encoding="utf-8") as file:
                for group in made_up(pairs // languages):
                    file.writelines(f"{source}\t{target}\n" for source, target in group)
        (corpus / "corpus.toml").write_text("\n".join(described) + "\n")
        (folder / "my_tasks.py").write_text(MODULE.format(folder=str(corpus)))
        (folder / "local.py").write_text(LOCAL.format(name=self.name))
        self._run("-c", "import my_tasks, tasks; from mmt.data import corpora; "
                  f"tasks.vocabulary(corpora.load({str(corpus)!r}), size=4000)")  # fmt: skip

    def local(self, processes: int, seqio_cache: str = "") -> Seconds:
        """Returns the seconds of the local builder."""
        out = self.folder / f"{self.name}-{processes}-{bool(seqio_cache)}"
        return self._run("local.py", str(out), str(processes), seqio_cache)

    def beam(self, workers: int = 1) -> Seconds:
        """Returns the seconds of SeqIO's job; several workers are processes of their own."""
        options = f"--direct_num_workers={workers}"
        if workers > 1:
            options += ",--direct_running_mode=multi_processing"
        return self._run(
            "-m", "seqio.scripts.cache_tasks_main", "--module_import=my_tasks", "--min_shards=1",
            f"--tasks={self.name}_.*", f"--output_cache_dir={self.folder / 'seqio'}",
            f"--pipeline_options=--runner=DirectRunner,{options}",
        )  # fmt: skip

    def _run(self, *arguments: str) -> Seconds:
        path = os.pathsep.join([str(self.folder), os.getcwd(), *sys.path])
        environment = {**os.environ, "PYTHONPATH": path, "MMT_DATA": str(self.folder / "data")}
        start, before = time.perf_counter(), _cpu()
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env=environment, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            raise OSError(f"{arguments[0]} failed: {done.stderr[-2000:]}")
        return Seconds(time.perf_counter() - start, _cpu() - before)


def _cpu() -> float:
    """Returns CPU seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--languages", type=int, default=4)
    args = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    ways: dict[str, list[tuple[int, Seconds]]] = {}
    for pairs in (args.pairs // 50, args.pairs // 10, args.pairs):
        with tempfile.TemporaryDirectory(prefix="caching-") as folder:
            bench = Bench(Path(folder), pairs, args.languages)
            seconds_by_way = {}
            if pairs > args.pairs // 50:
                for n in sorted({1, 2, cores}):
                    seconds_by_way[f"local, {n} process{'es' * (n > 1)}"] = bench.local(n)
            if pairs < args.pairs:
                seconds_by_way["Beam's DirectRunner"] = bench.beam()
                seconds_by_way["  and a cache of it"] = bench.local(1, f"{folder}/seqio")
            for name, seconds in seconds_by_way.items():
                ways.setdefault(name, []).append((pairs, seconds))
    columns = ("", "pairs", "seconds", "CPU s", "a pair, us", "CPU us", "against the first")
    table = Table(*columns, title=f"{args.languages} languages; {cores} cores")
    first = 0.0
    for name, ((few, less), (many, more)) in sorted(ways.items(), key=lambda way: way[0][0] != "l"):
        clock, cpu = ((b - a) / (many - few) * 1e6 for a, b in zip(less, more, strict=True))
        first = first or clock
        table.add_row(
            name, f"{many:,}", f"{more.clock:.1f}", f"{more.cpu:.1f}", f"{clock:.0f}", f"{cpu:.0f}",
            f"{first / clock:.2f} x",
        )  # fmt: skip
    from benchmarks.header import header

    print(header())
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
