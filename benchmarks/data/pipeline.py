"""Measures the data pipeline at scale: a thousand languages of mixed sizes, a million examples.

    python -m benchmarks.data.pipeline [LANGUAGES] [EXAMPLES]

Tokens are made up. Language sizes follow a power law, with at least 100 records each and 4 million
in total. Rows have 256 tokens per side. The limits are: start within 10 s; 50 us CPU time of the
process per example; constant memory over a million examples. Also, no language may be late or
starved, that is, more than 2 % and one example below its share. The exit status is 1 if a limit is
exceeded. The second stream has stages, and modifiers in 8 % of its examples; its additional time
has no limit. The third is the second with two workers: what remains to the process that trains.
"""

import dataclasses
import resource
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from mmt import languages
from mmt.data import cache, mixing, modifiers, pipeline, vocabulary
from mmt.data.stages import Stage

LENGTHS = {"inputs": 256, "targets": 256}
LARGEST, SMALLEST, TOTAL = 1_000_000, 100, 4_000_000
STAGES = [
    Stage({"examples": 200_000}, mixing.Mixing(1.0, at_least=1000)),
    # Romanising is an extra, and the made-up lines are no documents.
    Stage(modifiers=dict.fromkeys(modifiers.KINDS.keys() - {"romanised", "context"}, 0.01)),
]


def sizes(count: int) -> dict[str, int]:
    """Returns sizes by a power law, scaled to a total of about TOTAL records."""
    steps = np.linspace(0, 1, count)
    records = LARGEST * (SMALLEST / LARGEST) ** steps**0.25
    records = np.maximum(records * min(1, TOTAL / records.sum()), SMALLEST).astype(int)
    return {f"l{number:04}_Latn": int(size) for number, size in enumerate(records)}


def made_up(number: int, count: int, pieces: int) -> Iterator[tuple[list[int], list[int]]]:
    """Yields sentences of log-normal lengths, about 25 tokens, with the tag first."""
    random = np.random.default_rng(number)
    lengths = np.clip(random.lognormal(3.0, 0.6, (count, 2)), 3, 200).astype(int)
    pool = random.integers(300, pieces, 4096).tolist()
    for source, target in lengths.tolist():
        start = (source * 31 + target) % 3800
        yield [3, *pool[start : start + source]], pool[start + 50 : start + 50 + target]


def build(folder: Path, counts: dict[str, int]) -> Path:
    """Returns the cache; builds it on first use."""
    directory = folder / f"pipeline-{len(counts)}-{sum(counts.values())}"
    if directory.is_dir():
        return directory
    texts = [f"{language.name} {language.code}" for language in languages.all_languages()]
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary.train(texts * 3, folder / "vocabulary.model", size=1200, tags=["<2eng>"])
    pieces = vocabulary.Vocabulary.load(folder / "vocabulary.model").size

    def stream(number: int, count: int) -> cache.Examples:
        return lambda: made_up(number, count, pieces)

    cache.build(
        directory,
        {("train", code): stream(n, count) for n, (code, count) in enumerate(counts.items())},
        name="made_up", target="eng_Latn", corpus_hash="1",
        vocabularies=dict.fromkeys(("source", "target"), folder / "vocabulary.model"),
    )  # fmt: skip
    return directory


def resident() -> int:
    """Returns the resident MiB of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


@dataclasses.dataclass
class Measured:
    """The measurements of one stream.

    start: seconds to the first batch. each: CPU microseconds per example. memory: MiB after a
    quarter of the examples, and at the end. seen: examples seen per language. first: index of each
    language's first example. ledger: seconds of counting in the ledger.
    """

    start: float
    each: float
    memory: tuple[int, int]
    seen: np.ndarray
    first: np.ndarray
    ledger: float


def measure(
    directory: Path, examples: int, stages: list[Stage] | None, workers: int = 0
) -> Measured:
    began = time.perf_counter()
    batches = pipeline.train_batches(
        directory, feature_lengths=LENGTHS, batch_size=128, stages=stages, workers=workers
    )
    batch = next(batches)
    start = time.perf_counter() - began
    number = len(batches.manifest.languages)
    seen, first = np.zeros(number, np.int64), np.full(number, -1)
    early = resident()
    cpu, done = time.process_time(), 0
    while done < examples:
        ids, segments = batch["decoder_language_ids"], batch["decoder_segment_ids"]
        begins = (batch["decoder_positions"] == 0) & (segments > 0)
        language_ids = ids[begins]
        seen += np.bincount(language_ids, minlength=number)
        new = np.unique(language_ids)
        first[new[first[new] < 0]] = done
        done += len(language_ids)
        if done < examples // 4:
            early = resident()
        batch = next(batches)
    each = (time.process_time() - cpu) / done
    memory = early, resident()
    began = time.perf_counter()
    batches.ledger().count(None, batches.get_state(), 0, 1)
    counted = time.perf_counter() - began
    batches.close()
    return Measured(start, each * 1e6, memory, seen, first, counted)


def starved(measured: Measured, shares: dict[str, float]) -> tuple[int, float]:
    """Returns the number of languages below 98 % of their share, and the lowest part of a share."""
    expected = np.array(list(shares.values())) * measured.seen.sum()
    missing = expected - measured.seen
    few = (missing > 0.02 * expected) & (missing > 1.5)
    return int(few.sum()), float((measured.seen / expected).min())


def main(count: int = 1000, examples: int = 1_000_000) -> int:
    """Prints the table; returns the exit status."""
    warnings.simplefilter("ignore")
    print(header(), file=sys.stderr)
    folder = Path(tempfile.gettempdir()) / "mmt-benchmark"
    counts = sizes(count)
    table = Table(title=f"{count:,} languages, {sum(counts.values()):,} records")
    for column in ("stream", "start, s", "us an example", "MiB at 1/4, at the end",
                   "languages starved", "worst part of a share", "late", "ledger, s"):  # fmt: skip
        table.add_column(column, justify="left" if column == "stream" else "right")
    missed = False
    try:
        directory = build(folder, counts)
        for name, stages, workers in (
            ("one stage", None, 0), ("stages, modifiers", STAGES, 0), ("2 workers", STAGES, 2)
        ):  # fmt: skip
            measured = measure(directory, examples, stages, workers)
            shares = mixing.mixing_rates(counts)
            few, worst = starved(measured, shares) if stages is None else (0, float("nan"))
            late = 0
            if stages is None:  # open rows hold some examples back
                slack = 2 * 64 * pipeline.OPEN_ROWS * 10
                late = int((measured.first > 1 / np.array(list(shares.values())) + slack).sum())
            missed |= measured.start > 10 or few > 0 or late > 0
            missed |= stages is None and measured.each > 50
            missed |= measured.memory[1] > measured.memory[0] * 1.1 + 20
            table.add_row(
                name, f"{measured.start:.1f}", f"{measured.each:.1f}",
                "{:,}, {:,}".format(*measured.memory), str(few), f"{worst:.3f}", str(late),
                f"{measured.ledger:.2f}",
            )  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    Console(width=140).print(table)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
