"""What a mixture will show, before it is trained: `mmt data shares`.

It asks the very batches that training would read, without reading one. What a run has really seen
is in `ledger.py`.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int32

from mmt import languages
from mmt.data import ledger, mixing
from mmt.data.cache import Cache, open_cache
from mmt.data.cache.manifest import Manifest
from mmt.data.cache.records import RecordReader
from mmt.data.corpora import Corpus, load
from mmt.data.entries import MONOLINGUAL
from mmt.data.pipeline import TrainBatches
from mmt.data.vocabulary import SENTINELS
from mmt.run import Run

LENGTHS = {"inputs": 256, "targets": 256}  # of gin_configs/runs/train.gin
BYTES_A_TOKEN = 4.0  # of UTF-8, where nothing is tokenised yet; see `Estimated`
_SAMPLE = 1000  # pairs of a language whose length is looked at
_ROWS = 10**12  # of a run: beyond it the schedule's times are no longer exact

Row = dict[str, Any]


@dataclass(frozen=True)
class Forecast:
    """What `steps` batches will show. `rows` has a row per language:

    language, name, pairs (that fit), share (of the examples), examples, epochs, repeats (examples
    that were shown before), source_tokens, target_tokens, tokens (of both, with EOS), first and
    last (the steps in which it comes), estimated (whether the lengths are).
    """

    rows: list[Row]
    steps: int
    batch: int
    examples_a_row: float
    notes: tuple[str, ...] = ()


def forecast(batches: TrainBatches, steps: int) -> Forecast:
    """Forecasts what the first `steps` batches will show.

    The order is that of training, and every language's examples are counted one by one. How many
    examples a row holds is estimated by packing a sample (`virtual_shards.density`), so `examples`,
    `tokens`, `first` and `last` are mostly right within 1 %. Tokens are those before modifiers.

    Raises:
      ValueError: steps below 1, or more than 10^12 rows.
    """
    order, batch = batches.order, batches.batch_size
    sampler = order.sampler
    number = drawn(batches, steps)
    until = sampler.before(number)
    counter = ledger.Counter(order)
    counted = counter.appearances(np.zeros_like(until), until)
    owners = [code for code, _ in counter.entries]
    expected = sampler.expected(number) / number

    def step(draw: int) -> int:
        return min(max(int(sampler.rows_for(draw) // batch) + 1, 1), steps)

    rows = []
    for index, (code, pairs) in enumerate(order.split.counts.items()):
        own = [owner == code for owner in owners]
        examples, source, target = counted[own].sum(axis=0).tolist()[:3]
        rows.append(
            {
                "language": code,
                "name": _name(code),
                "pairs": pairs,
                "share": float(expected[index]),
                "examples": examples,
                "epochs": examples / pairs,
                "repeats": max(examples - pairs, 0),
                "source_tokens": source,
                "target_tokens": target,
                "tokens": source + target,
                "first": step(sampler.when(index, 0)) if examples else None,
                "last": step(sampler.when(index, examples - 1)) if examples else None,
                "estimated": isinstance(order.split.cache, Estimated),
            }
        )
    return Forecast(rows, steps, batch, number / (steps * batch), _notes(batches, steps))


def _name(code: str) -> str:
    name = languages.find(mixing.language_of(code)).name
    return f"{name}, monolingual" if mixing.is_monolingual(code) else name


def _notes(batches: TrainBatches, steps: int) -> tuple[str, ...]:
    split, notes = batches.order.split, []
    if isinstance(split.cache, Estimated):
        notes.append(
            f"Nothing is tokenised yet: tokens, and how many examples a row of {split.shape[0]} "
            f"and {split.shape[1]} holds, are estimated, a token per {BYTES_A_TOKEN:g} bytes. "
            "`mmt data prepare --gin_file=…` makes a run's cache; with it they are counted."
        )
    stage = batches.order.sampler.watching()
    if stage is not None:
        notes.append(
            f"When the stage until {dict(stage.until or {})} ends is not known before training; "
            "here it never does."
        )
    if any(stage.modifiers for stage in batches.order.sampler.stages):
        estimated = isinstance(split.cache, Estimated)
        more = ", and so is when a stage `until` steps ends" if estimated else ""
        notes.append(f"Tokens are those before modifiers{more}.")
    return (*notes, *batches.warnings(steps))


def open_source(source: str, mixture: str = "") -> Cache:
    """The cache in the directory `source`; or what a description, its folder or 'cldr' would
    become, its lengths estimated: of its pairs, and of its monolingual text where `mixture` is the
    name of one that has it (`tasks.monolingual`). ValueError where it is neither.
    """
    if Run(source).manifest.is_file():
        return open_cache(Path(source))
    if Path(source).is_dir() and not (Path(source) / "corpus.toml").is_file():
        raise ValueError(
            f"{source} holds neither a cache ({Run(source).manifest.name}) nor the description "
            "of a corpus (corpus.toml)"
        )
    corpus = load(source)
    pairs = {} if mixture.endswith("_monolingual") else {c: (c, "train") for c in corpus.languages}
    if mixture.endswith(("_monolingual", "_mixed")):
        pairs |= {mixing.monolingual(code): (code, MONOLINGUAL) for code in corpus.monolingual}
    return Estimated.of(corpus, pairs)


@dataclass(frozen=True)
class Estimated(Cache):
    """A corpus as if it were cached: its pairs, and lengths of about as many tokens.

    A token is taken for four bytes of UTF-8, whatever the script: with a vocabulary of many
    languages this is right within a factor of two. Only the first thousand pairs of a language are
    looked at; their lengths, `sampled`, stand for the others'.
    """

    sampled: Mapping[str, Int32[np.ndarray, "_ 2"]]
    has_text: ClassVar[bool] = False

    @classmethod
    def of(cls, corpus: Corpus, parts: Mapping[str, tuple[str, str]]) -> "Estimated":
        """Components, each a language and split of a corpus. ValueError where they are empty."""
        counts = {code: corpus.count(*part) for code, part in parts.items()}
        if not any(counts.values()):
            raise ValueError(f"corpus {corpus.name} has no training pairs")
        sampled = {}
        for code in filter(counts.__getitem__, parts):
            some = itertools.islice(corpus.pairs(*parts[code]), _SAMPLE)
            sizes = [[len(side.encode()) for side in (one.source, one.target)] for one in some]
            tokens = np.ceil(np.array(sizes) / BYTES_A_TOKEN)
            tokens[:, 0] += not mixing.is_monolingual(code)  # the tag
            sampled[code] = tokens.astype(np.int32)
        manifest = Manifest(
            name=corpus.name, target=corpus.target, languages=tuple(sorted(parts)),
            counts={"train": counts}, corpus_hash="", vocabulary_hash={}, vocabulary_size={},
        )  # fmt: skip
        return cls(corpus.root, manifest, sampled)

    def lengths(self, language: str, split: str) -> Int32[np.ndarray, "n 2"]:
        count = self.manifest.counts[split][language]
        return np.resize(self.sampled[language], (count, 2)) if count else np.zeros((0, 2), "i4")

    def sentinels(self) -> tuple[int, ...]:
        return tuple(range(SENTINELS))

    def records(self, language: str, split: str) -> RecordReader:
        """None that could be read."""
        return RecordReader(self.directory, language, 0)


def drawn(batches: TrainBatches, steps: int) -> int:
    """About how many examples so many steps show."""
    most = _ROWS // batches.batch_size
    if not 1 <= steps <= most:
        raise ValueError(
            f"steps is {steps}; allowed: 1 to {most:,}, which is {_ROWS:,} rows in batches of "
            f"{batches.batch_size:,}"
        )
    return max(batches.order.sampler.draws_in(steps * batches.batch_size), 1)


def table(found: Forecast) -> str:
    """The forecast for people, the largest share first."""
    rows = sorted(found.rows, key=lambda row: (-row["share"], row["language"]))
    pairs, examples, tokens = (sum(r[key] for r in rows) for key in ("pairs", "examples", "tokens"))
    head = ["language", "name", "pairs", "share", "epochs", "repeats", "tokens", "first", "last"]
    about = "~" if any(row["estimated"] for row in rows) else ""
    repeats = sum(row["repeats"] for row in rows)
    lines = [head]
    for row in rows:
        lines.append([
            row["language"], row["name"], f"{row['pairs']:,}", f"{row['share']:.2%}",
            f"{about}{row['epochs']:.2f}", f"{about}{row['repeats']:,}",
            f"{about}{row['tokens']:,}",
            *("never" if row[key] is None else f"{row[key]:,}" for key in ("first", "last")),
        ])  # fmt: skip
    lines.append([
        "all", f"{len(rows)}", f"{pairs:,}", f"{1:.2%}", f"{about}{examples / pairs:.2f}",
        f"{about}{repeats:,}", f"{about}{tokens:,}", "1", f"{found.steps:,}",
    ])  # fmt: skip
    said = (
        f"{found.steps:,} steps of {found.batch:,} rows, {found.examples_a_row:.2f} examples a "
        f"row: {examples:,} examples. First and last: the steps in which a language comes."
    )
    return "\n".join([*ledger.aligned(lines, left=2), said, *found.notes])
