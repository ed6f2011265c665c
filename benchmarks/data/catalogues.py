"""Measures how fast catalogues are read as a corpus, and translated as files.

    python -m benchmarks.data.catalogues [--entries 1000000] [--formats json,android]

Made-up entries of 6 + 6 words are written in every format. "pairs/s" is the speed of
`mmt.data.readers`, in a new process; "peak" is the largest resident set of that process. "entries/s
written" is the speed of reading one file and writing it with another text in every entry. Each file
is read as a whole, so it has at most 64 MiB: 800,000 of these entries in Android's format. Seconds
are CPU seconds of one core. The streamed formats are in `benchmarks.data.readers`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from mmt import documents
from mmt.data import readers
from mmt.data.readers.files import Files

MIB = 2**20
LANGUAGES = ("deu_Latn", "eng_Latn")
WORDS = 6


def made_up(entries: int, seed: int) -> Iterator[str]:
    """Yields texts of made-up words."""
    random = np.random.default_rng(seed)
    letters = np.array(list("aäeiouklmnprstvz"))
    words = ["".join(random.choice(letters, n)) for n in random.integers(2, 10, 5000)]
    for row in random.integers(0, len(words), (entries, WORDS)):
        yield " ".join(words[i] for i in row.tolist())


def _single(head: str, line: str, tail: str) -> Callable[[Path, int], tuple[Path, Path | None]]:
    """Returns a writer of one file per language; `line` has a number and a text."""

    def write(folder: Path, entries: int) -> tuple[Path, Path | None]:
        for seed, language in enumerate(("de", "en")):
            with open(folder / language, "w", encoding="utf-8") as file:
                file.write(head)
                texts = enumerate(made_up(entries, seed))
                file.writelines(line.format(number, text) for number, text in texts)
                file.write(tail)
        return folder / "de", folder / "en"

    return write


def _both(head: str, line: str, tail: str) -> Callable[[Path, int], tuple[Path, Path | None]]:
    """Returns a writer of one file; `line` has a number and both texts."""

    def write(folder: Path, entries: int) -> tuple[Path, Path | None]:
        with open(folder / "de", "w", encoding="utf-8") as file:
            file.write(head)
            texts = zip(made_up(entries, 0), made_up(entries, 1), strict=True)
            file.writelines(line.format(number, *both) for number, both in enumerate(texts))
            file.write(tail)
        return folder / "de", None

    return write


FORMATS = {
    "json": (".json", _single("{\n", '  "key{0}": "{1}",\n', '  "": ""\n}\n')),
    "android": (
        ".xml",
        _single("<resources>\n", '  <string name="key{0}">{1}</string>\n', "</resources>\n"),
    ),
    "properties": (".properties", _single("", "key{0} = {1}\n", "")),
    "strings": (".strings", _single("", '"key{0}" = "{1}";\n', "")),
    "yaml": (".yml", _single("app:\n", "  key{0}: {1}\n", "")),
    "fluent": (".ftl", _single("", "key{0} = {1}\n", "")),
    "qt": (
        ".ts",
        _both(
            '<TS language="en"><context><name>a</name>\n',
            "<message><source>{1}</source><translation>{2}</translation></message>\n",
            "</context></TS>\n",
        ),
    ),
    "po": (
        ".po",
        _both('msgid ""\nmsgstr "Language: en\\n"\n', '\nmsgid "{1} {0}"\nmsgstr "{2}"\n', ""),
    ),
}


def measure(source: Path, target: Path | None, entries: int) -> dict[str, float]:
    """Reads a corpus in this process, then reads and writes the source's file."""
    files = Files(source, target, languages=LANGUAGES)
    start = time.process_time()
    number = sum(1 for _ in readers.read(files))
    reading = time.process_time() - start
    assert number == entries, (number, entries)
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    start = time.process_time()
    content = source.read_bytes()
    document = documents.read(source.name, content, documents.Locales(*LANGUAGES))
    new = [segment.source._replace(text="Ein Text") for segment in document.segments]
    document.write(new)
    return {"reading": reading, "writing": time.process_time() - start, "peak": peak}


def _apart(source: Path, target: Path | None, entries: int) -> dict[str, float]:
    paths = [str(path) for path in (source, target) if path]
    command = [sys.executable, "-m", "benchmarks.data.catalogues", "--measure", *paths]
    done = subprocess.run(
        [*command, "--entries", str(entries)], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


def main() -> int:
    """Prints the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=50_000)
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--measure", type=Path, nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        target = args.measure[1] if len(args.measure) > 1 else None
        print(json.dumps(measure(args.measure[0], target, args.entries)))
        return 0
    columns = ("format", "MiB", "pairs/s", "peak MiB", "entries/s written", "a million: minutes")
    table = Table(*columns, title=f"{args.entries:,} entries, one process")
    for name in args.formats.split(","):
        suffix, write = FORMATS[name]
        with tempfile.TemporaryDirectory() as folder:
            paths = [
                path and path.rename(f"{path}{suffix}")
                for path in write(Path(folder), args.entries)
            ]
            source = paths[0]
            assert source
            size = source.stat().st_size
            found = _apart(source, paths[1], args.entries)
        table.add_row(
            name, f"{size / MIB:.1f}", f"{args.entries / found['reading']:,.0f}",
            f"{found['peak'] / MIB:.0f}", f"{args.entries / found['writing']:,.0f}",
            f"{1e6 / args.entries * found['reading'] / 60:.1f}",
        )  # fmt: skip
    from benchmarks.header import header  # imports jax, which would count as readers' memory

    print(header())
    Console(width=100).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
