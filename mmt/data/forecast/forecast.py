"""Forecasts the examples of a mixture before training: `mmt data forecast`.

It uses the order of the training batches without reading the data. `ledger.py` counts the examples
that a run has consumed.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int32

from mmt import languages
from mmt.data import ledger, mixing, recipe
from mmt.data.cache import Cache, open_cache
from mmt.data.cache.manifest import Manifest
from mmt.data.cache.records import RecordReader
from mmt.data.corpora import Corpus, load
from mmt.data.entries import MONOLINGUAL
from mmt.data.pipeline import TrainBatches
from mmt.data.vocabulary import SENTINELS
from mmt.run import Run
from mmt.system.text_table import aligned

LENGTHS = {"inputs": 256, "targets": 256}  # of gin_configs/runs/train.gin
BYTES_A_TOKEN = 4.0  # of UTF-8, for estimates; see `Estimated`
_SAMPLE = 1000  # number of pairs of a language whose lengths are measured
_ROWS = 10**12  # most rows of a run: beyond it the sampler's times are inexact

Row = dict[str, Any]


@dataclass(frozen=True)
class Forecast:
    """The examples of `steps` batches.

    Attributes:
      rows: per language: language, name, pairs (that fit), share (of the examples), examples,
        epochs, repeats (examples that were shown before), source_tokens, target_tokens, tokens (of
        both, with EOS), first and last (the first and last step with it), estimated (whether the
        lengths are estimates).
      steps, batch: the number of batches, and their rows.
      examples_a_row: mean examples per row.
      notes: warnings, and the accuracy of the figures.
    """

    rows: list[Row]
    steps: int
    batch: int
    examples_a_row: float
    notes: tuple[str, ...] = ()


def forecast(batches: TrainBatches, steps: int) -> Forecast:
    """Forecasts the examples of the first `steps` batches.

    The order is that of training, and every language's examples are counted individually. The
    examples per row are estimated by packing a sample (`virtual_shards.density`). So `examples`,
    `tokens`, `first` and `last` are usually right within 1 %. Tokens are counted before modifiers.

    Raises:
      ValueError: steps below 1, or more than 10^12 rows.
    """
    order, batch = batches.order, batches.batch_size
    sampler = order.sampler
    draws = count_draws(batches, steps)
    counts_until = sampler.before(draws)
    counter = ledger.Counter(order)
    counted = counter.appearances(np.zeros_like(counts_until), counts_until)
    owners = [code for code, _ in counter.entries]
    expected = sampler.expected(draws) / draws

    def step(draw: int) -> int:
        return min(max(int(sampler.rows_for(draw) // batch) + 1, 1), steps)

    rows = []
    for index, (code, pairs) in enumerate(order.split.counts.items()):
        of_language = [owner == code for owner in owners]
        examples, source, target = counted[of_language].sum(axis=0).tolist()[:3]
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
    return Forecast(rows, steps, batch, draws / (steps * batch), _notes(batches, steps))


def _name(code: str) -> str:
    name = languages.find(mixing.language_of(code)).name
    return f"{name}, monolingual" if mixing.is_monolingual(code) else name


def _notes(batches: TrainBatches, steps: int) -> tuple[str, ...]:
    split, notes = batches.order.split, []
    if isinstance(split.cache, Estimated):
        notes.append(
            f"Without a cache, token counts, and examples per row of {split.shape[0]} and "
            f"{split.shape[1]}, are estimates ({BYTES_A_TOKEN:g} bytes per token), marked `~`. "
            "`mmt data prepare --gin_file=…` builds a run's cache; then they are exact."
        )
    stage = batches.order.sampler.loss_watched_stage()
    if stage is not None:
        notes.append(
            f"The end of the stage until {dict(stage.until or {})} is not known before training; "
            "this forecast assumes that it never ends."
        )
    if batches.schedule is not None:
        notes.append(
            "The schedule changes rates by validation losses, which are not known before training; "
            "this forecast has late entries, but neither lower rates nor ends."
        )
    if any(stage.modifiers for stage in batches.order.sampler.stages):
        estimated = isinstance(split.cache, Estimated)
        addition = "; the ends of stages in steps are estimates" if estimated else ""
        notes.append(f"Tokens are counted before modifiers{addition}.")
    return (*notes, *batches.warnings(steps))


def open_source(source: str, mixture: str = "") -> Cache:
    """Opens the cache in the directory `source`, or returns an estimated cache of a corpus.

    A corpus is a description, its folder or 'cldr'. The estimated cache has what the mixture or
    task of the name `mixture` reads (`recipe.select`).

    Raises:
      ValueError: `source` is neither, or the corpus has nothing of the mixture.
    """
    if Run(source).manifest.is_file():
        return open_cache(Path(source))
    if Path(source).is_dir() and not (Path(source) / "corpus.toml").is_file():
        raise ValueError(
            f"{source} holds neither a cache ({Run(source).manifest.name}) nor a corpus "
            "description (corpus.toml)"
        )
    corpus = load(source)
    selected = recipe.select(corpus, mixture)
    if not selected.components and corpus.languages:
        raise ValueError(
            f"corpus {corpus.name} has nothing for {mixture!r}; its languages: "
            f"{', '.join(corpus.languages)}"
        )
    return Estimated.of(*selected)


@dataclass(frozen=True)
class Estimated(Cache):
    """A corpus in place of its cache, with estimated lengths.

    A token is assumed to have four bytes of UTF-8, which is right within a factor of two for a
    vocabulary of many languages. Only the first thousand pairs of a language are measured; their
    lengths (`sampled`) are repeated for the others.
    """

    sampled: Mapping[str, Int32[np.ndarray, "_ 2"]]
    has_text: ClassVar[bool] = False

    @classmethod
    def of(cls, corpus: Corpus, components: Mapping[str, tuple[str, str]]) -> "Estimated":
        """Returns components, each a language and split of a corpus; ValueError if all are empty.
        """
        corpora = {code: corpus.counts(*component) for code, component in components.items()}
        counts = {code: sum(pairs for _, pairs in runs) for code, runs in corpora.items()}
        held_out = {
            code: corpus.count(language, "validation")
            for code, (language, kind) in components.items()
            if kind != MONOLINGUAL
        }
        if not any(counts.values()):
            raise ValueError(f"corpus {corpus.name} has no training pairs")
        sampled = {}
        for code in filter(counts.__getitem__, components):
            sample = itertools.islice(corpus.pairs(*components[code]), _SAMPLE)
            sizes = [[len(side.encode()) for side in (pair.source, pair.target)] for pair in sample]
            tokens = np.ceil(np.array(sizes) / BYTES_A_TOKEN)
            tokens[:, 0] += not mixing.is_monolingual(code)  # the tag
            sampled[code] = tokens.astype(np.int32)
        manifest = Manifest(
            name=corpus.name, target="" if corpus.reverse else corpus.target,
            source=corpus.target if corpus.reverse else "", languages=tuple(sorted(components)),
            counts={"train": counts, "validation": held_out}, corpus_hash="", vocabulary_hash={},
            vocabulary_size={},
            corpora={"train": {code: [*map(list, runs)] for code, runs in corpora.items()}},
        )  # fmt: skip
        return cls(corpus.root, manifest, sampled)

    def lengths(self, language: str, split: str) -> Int32[np.ndarray, "n 2"]:
        count = self.manifest.counts[split][language]
        return np.resize(self.sampled[language], (count, 2)) if count else np.zeros((0, 2), "i4")

    def sentinels(self) -> tuple[int, ...]:
        return tuple(range(SENTINELS))

    def records(self, language: str, split: str) -> RecordReader:
        """Returns a reader without records."""
        return RecordReader(self.directory, language, 0)


def count_draws(batches: TrainBatches, steps: int) -> int:
    """Returns the approximate number of examples in `steps` batches."""
    max_steps = _ROWS // batches.batch_size
    if not 1 <= steps <= max_steps:
        raise ValueError(
            f"steps is {steps}; allowed: 1 to {max_steps:,}, which is {_ROWS:,} rows in batches of "
            f"{batches.batch_size:,}"
        )
    return max(batches.order.sampler.draws_in(steps * batches.batch_size), 1)


def table(result: Forecast) -> str:
    """Returns the forecast as text, the largest share first."""
    rows = sorted(result.rows, key=lambda row: (-row["share"], row["language"]))
    pairs, examples, tokens = (sum(r[key] for r in rows) for key in ("pairs", "examples", "tokens"))
    header = ["language", "name", "pairs", "share", "epochs", "repeats", "tokens", "first", "last"]
    approximate = "~" if any(row["estimated"] for row in rows) else ""
    repeats = sum(row["repeats"] for row in rows)
    lines = [header]
    for row in rows:
        lines.append([
            row["language"], row["name"], f"{row['pairs']:,}", f"{row['share']:.2%}",
            f"{approximate}{row['epochs']:.2f}", f"{approximate}{row['repeats']:,}",
            f"{approximate}{row['tokens']:,}",
            *("never" if row[key] is None else f"{row[key]:,}" for key in ("first", "last")),
        ])  # fmt: skip
    lines.append([
        "all", f"{len(rows)}", f"{pairs:,}", f"{1:.2%}", f"{approximate}{examples / pairs:.2f}",
        f"{approximate}{repeats:,}", f"{approximate}{tokens:,}", "1", f"{result.steps:,}",
    ])  # fmt: skip
    summary = (
        f"{result.steps:,} steps of {result.batch:,} rows, {result.examples_a_row:.2f} examples "
        f"per row: {examples:,} examples. First and last: the first and last step with a language."
    )
    return "\n".join([*aligned(lines, left=2), summary, *result.notes])
