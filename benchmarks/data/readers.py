"""Measures how fast each corpus format is read, and that memory does not grow with the corpus.

    python -m benchmarks.data.readers [--pairs 200000] [--formats tsv,tmx]

Made-up pairs of 12 + 12 words are written in every format, and read by `mmt.data.readers` in a new
process. "peak" is the largest resident set of that process. "growth" is the difference to the peak
with a tenth of the pairs. Readers hold a pair, a batch of rows or a piece of a file in memory, for
Parquet also pages and dictionaries of a row group. So memory that does not grow between the two
sizes does not grow further. PO and MO files are excluded, because they are read at once (up to
packed.WHOLE). The limit is 1 GiB; the exit status is 1 if it is exceeded. The complete measurement
is

    python -m benchmarks.data.readers --pairs 50000000 --formats tsv,tsv.zst,jsonl,tmx,parquet
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mmt.data import readers
from mmt.data.readers.files import Files

MIB = 2**20
BAR = 1024  # MiB of memory
GROUP = 10_000  # pairs per step, and rows per group


def made_up(pairs: int) -> Iterator[list[tuple[str, str]]]:
    """Yields GROUP pairs at a time, of 12 words per side, drawn from 5,000 made-up words."""
    random = np.random.default_rng(0)
    letters = np.array(list("aäeiouklmnprstvz"))
    words = ["".join(random.choice(letters, n)) for n in random.integers(2, 10, 5000)]
    for start in range(0, pairs, GROUP):
        drawn = random.integers(0, len(words), (min(GROUP, pairs - start), 24))
        yield [
            (" ".join(words[i] for i in row[:12]), " ".join(words[i] for i in row[12:]))
            for row in drawn.tolist()
        ]


def lines(line: Callable[[str, str], str], head: str = "", tail: str = "") -> Callable:
    """Returns a writer of one line per pair."""

    def write(path: Path, groups: Iterator[list[tuple[str, str]]]) -> None:
        with _packed(path) as file:
            file.write(head.encode())
            for group in groups:
                file.write("".join(line(*pair) for pair in group).encode())
            file.write(tail.encode())

    return write


def _packed(path: Path) -> Any:
    import bz2
    import gzip
    import lzma

    import zstandard

    opened: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".zst": zstandard.open}
    if path.suffix == ".xz":
        return lzma.open(path, "wb", preset=0)
    return opened.get(path.suffix, open)(path, "wb")


def moses(path: Path, groups: Iterator[list[tuple[str, str]]]) -> None:
    """Writes one file per side."""
    with (
        open(path, "w", encoding="utf-8") as sources,
        open(f"{path}.en", "w", encoding="utf-8") as targets,
    ):
        for group in groups:
            sources.write("".join(f"{source}\n" for source, _ in group))
            targets.write("".join(f"{target}\n" for _, target in group))


def zipped(path: Path, groups: Iterator[list[tuple[str, str]]]) -> None:
    """Writes a zip with one TSV."""
    import zipfile

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("pairs.tsv", "w", force_zip64=True) as file:
            for group in groups:
                file.write("".join(f"{source}\t{target}\n" for source, target in group).encode())


def parquet(path: Path, groups: Iterator[list[tuple[str, str]]]) -> None:
    """Writes row groups of a million pairs, as most programs do."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("source", pa.string()), ("target", pa.string())])
    held: list[pa.Table] = []
    with pq.ParquetWriter(path, schema) as writer:
        for group in groups:
            held.append(pa.table(list(zip(*group, strict=True)), schema=schema))
            if len(held) == 100:
                writer.write_table(pa.concat_tables(held))
                held.clear()
        if held:
            writer.write_table(pa.concat_tables(held))


def saved(path: Path, groups: Iterator[list[tuple[str, str]]]) -> None:
    """Writes a Hugging Face data set as saved to disk, in batches of a thousand rows."""
    import pyarrow as pa

    path.mkdir()
    schema = pa.schema([("source", pa.string()), ("target", pa.string())])
    with pa.ipc.new_stream(str(path / "data.arrow"), schema) as stream:
        for group in groups:
            stream.write_table(pa.table(list(zip(*group, strict=True)), schema), max_chunksize=1000)
    (path / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')


tsv = lines(lambda source, target: f"{source}\t{target}\n")
FORMATS: dict[str, tuple[str, Callable]] = {
    "tsv": ("a.tsv", tsv),
    "moses": ("a.de", moses),
    "tsv.gz": ("a.tsv.gz", tsv),
    "tsv.bz2": ("a.tsv.bz2", tsv),
    "tsv.xz": ("a.tsv.xz", tsv),
    "tsv.zst": ("a.tsv.zst", tsv),
    "tsv.zip": ("a.zip", zipped),
    "jsonl": (
        "a.jsonl",
        lines(
            lambda source, target: json.dumps({"translation": {"de": source, "en": target}}) + "\n"
        ),
    ),
    "tmx": (
        "a.tmx",
        lines(
            lambda source, target: f'<tu><tuv xml:lang="de"><seg>{source}</seg></tuv>'
            f'<tuv xml:lang="en"><seg>{target}</seg></tuv></tu>\n',
            '<tmx version="1.4"><body>\n',
            "</body></tmx>\n",
        ),
    ),
    "xliff": (
        "a.xlf",
        lines(
            lambda source, target: f"<trans-unit><source>{source}</source>"
            f"<target>{target}</target></trans-unit>\n",
            '<xliff><file source-language="de" target-language="en"><body>\n',
            "</body></file></xliff>\n",
        ),
    ),
    "parquet": ("a.parquet", parquet),
    "datasets": ("a", saved),
}


def measure(path: Path, pairs: int) -> dict[str, float]:
    """Reads a file in this process; returns seconds, and the largest resident set in bytes."""
    target = Path(f"{path}.en")
    files = Files(path, target if target.exists() else None, languages=("deu_Latn", "eng_Latn"))
    start = time.perf_counter()
    number = sum(1 for _ in readers.read(files))
    seconds = time.perf_counter() - start
    assert number == pairs, (number, pairs)
    status = Path("/proc/self/status").read_text()  # getrusage would include the parent's
    return {"seconds": seconds, "peak": int(status.split("VmHWM:")[1].split()[0]) * 1024}


def _apart(path: Path, pairs: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.data.readers", "--measure", str(path)]
    done = subprocess.run(
        [*command, "--pairs", str(pairs)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def main() -> int:
    """Prints the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure, args.pairs)))
        return 0
    columns = ("format", "on disk MiB", "pairs/s", "peak MiB", "growth MiB", "50 million: hours")
    table = Table(*columns, title=f"{args.pairs:,} pairs, one process")
    missed = False
    for name in args.formats.split(","):
        file, write = FORMATS[name]
        measured = []
        for pairs in (args.pairs // 10, args.pairs):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / file
                write(path, made_up(pairs))
                size = sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())
                measured.append(_apart(path, pairs) | {"size": size})
        small, large = measured
        rate = args.pairs / large["seconds"]
        missed |= large["peak"] > BAR * MIB
        growth = (large["peak"] - small["peak"]) / MIB
        table.add_row(
            name, f"{large['size'] / MIB:.0f}", f"{rate:,.0f}", f"{large['peak'] / MIB:.0f}",
            f"{growth:.0f}", f"{50e6 / rate / 3600:.1f}",
        )  # fmt: skip
    from benchmarks.header import header  # imports jax, which would count as readers' memory

    print(header())
    Console(width=100).print(table)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
