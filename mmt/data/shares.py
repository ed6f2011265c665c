"""What a mixture will show, before it is trained: `mmt data shares`.

It asks the very batches that training would read, without reading one. What a run has really seen
is in `ledger.py`.
"""

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int32

from mmt import languages
from mmt.data import ledger, mixing
from mmt.data.cache import Cache, open_cache
from mmt.data.corpora import Corpus, load
from mmt.data.entries import MONOLINGUAL
from mmt.data.manifest import MANIFEST, Manifest
from mmt.data.mixing import Mixing
from mmt.data.pipeline import TrainBatches
from mmt.data.records import Reader
from mmt.data.vocab import SENTINELS

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
    """What the first `steps` batches will show.

    The order is the schedule's own and the examples of every language are counted one by one, as if
    they came in the order of draws. How many come in so many rows is known only on average, from
    packing a sample, see `lanes.density`; so `examples`, `tokens`, `first` and `last` are about as
    exact as the ratio of examples and rows, mostly to 1 %. Modifiers are not foreseen.

    ValueError: steps below 1, or of over 10^12 rows.
    """
    draws, batch = batches.draws, batches.batch_size
    timeline = draws.timeline
    number = _drawn(batches, steps)
    until = timeline.before(number)
    counter = ledger.Counter(draws)
    counted = counter.appearances(np.zeros_like(until), until)
    owners = [code for code, _ in counter.entries]
    expected = timeline.expected(number) / number

    def step(draw: int) -> int:
        return min(max(int(timeline.rows_for(draw) // batch) + 1, 1), steps)

    rows = []
    for index, (code, pairs) in enumerate(draws.split.counts.items()):
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
                "first": step(timeline.when(index, 0)) if examples else None,
                "last": step(timeline.when(index, examples - 1)) if examples else None,
                "estimated": isinstance(draws.split.cache, Estimated),
            }
        )
    return Forecast(rows, steps, batch, number / (steps * batch), _notes(batches, steps))


def _name(code: str) -> str:
    name = languages.find(mixing.language_of(code)).name
    return f"{name}, monolingual" if mixing.is_monolingual(code) else name


def _notes(batches: TrainBatches, steps: int) -> tuple[str, ...]:
    split, notes = batches.draws.split, []
    if isinstance(split.cache, Estimated):
        notes.append(
            f"Nothing is tokenised yet: tokens, and how many examples a row of {split.shape[0]} "
            f"and {split.shape[1]} holds, are estimated, a token per {BYTES_A_TOKEN:g} bytes."
        )
    stage = batches.draws.timeline.watching()
    if stage is not None:
        notes.append(
            f"When the stage until {dict(stage.until or {})} ends is not known before training; "
            "here it never does."
        )
    if any(stage.modifiers for stage in batches.draws.timeline.stages):
        notes.append("Tokens are those before modifiers.")
    return (*notes, *batches.beyond_caps(steps))


def open_source(source: str, mixture: str = "") -> Cache:
    """The cache in the directory `source`; or what a description, its folder or 'cldr' would
    become, its lengths estimated: of its pairs, and of its monolingual text where `mixture` is the
    name of one that has it (`tasks.monolingual`). ValueError where it is neither.
    """
    if (Path(source) / MANIFEST).is_file():
        return open_cache(Path(source))
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

    def records(self, language: str, split: str) -> Reader:
        """None that could be read."""
        return Reader(self.directory, language, 0)


Make = Callable[[Mixing], TrainBatches]


def capped(make: Make, wanted: Mixing, steps: int) -> Mixing:
    """`wanted` with the `examples` that its cap needs: those that `steps` batches hold, or some
    more, so that it is kept exactly. `make` gives the batches of a mixture. ValueError where the
    run is longer than all caps allow.
    """
    if wanted.max_epochs is None or wanted.examples is not None:
        return wanted
    examples = _examples(make, dataclasses.replace(wanted, max_epochs=None), steps)

    def choose(examples: int) -> Mixing:
        return dataclasses.replace(wanted, examples=examples)

    return _within(make, choose, wanted.max_epochs, examples, steps)[0]


def fit(make: Make, bounds: str, wanted: Mixing, steps: int) -> tuple[Mixing, Forecast]:
    """The mixture that keeps to `bounds`, "epochs<=10,share>=0.005" or one of the two, and what it
    will show: with the temperature of `wanted` or, where a share asks for it, the next higher one;
    with a cap where that is needed.

    ValueError for bounds that no mixture can keep: it says which could be kept.
    """
    most, least = _bounds(bounds)
    free = dataclasses.replace(wanted, max_epochs=None, examples=None)
    examples = _examples(make, free, steps)
    counts = _chosen(make(free), free)
    if any(map(mixing.is_monolingual, counts)):
        raise ValueError("--fit is for pairs alone; bind mixing.Mixing.monolingual = 0")

    def choose(examples: int) -> Mixing:
        _check_possible(counts, most, least, examples, steps)
        return _lowest(counts, most, least, examples, free)

    return _within(make, choose, most, examples, steps)


def _within(
    make: Make, choose: Callable[[int], Mixing], most: float, examples: int, steps: int
) -> tuple[Mixing, Forecast]:
    """What `choose` makes for so many `examples`, or for more, so that it shows no language more
    often than `most` times: what a row holds depends on the mixture, and examples are whole.
    """
    for _ in range(8):
        found = choose(examples)
        batches = make(found)
        batches.close()
        foreseen = forecast(batches, steps)
        worst = max(row["epochs"] for row in foreseen.rows if row["examples"])
        if worst <= most:
            return found, foreseen
        examples = math.ceil(max(examples * worst / most, examples + 1))
    raise ValueError(
        f"epochs<={most:g} cannot be kept: languages have too few examples for whole epochs"
    )


def _examples(make: Make, mixture: Mixing, steps: int) -> int:
    batches = make(mixture)
    batches.close()
    return _drawn(batches, steps)


def _drawn(batches: TrainBatches, steps: int) -> int:
    """About how many examples so many steps show."""
    most = _ROWS // batches.batch_size
    if not 1 <= steps <= most:
        raise ValueError(
            f"steps is {steps}; allowed: 1 to {most:,}, which is {_ROWS:,} rows in batches of "
            f"{batches.batch_size:,}"
        )
    return max(batches.draws.timeline.draws_in(steps * batches.batch_size), 1)


def _chosen(batches: TrainBatches, mixture: Mixing) -> dict[str, int]:
    batches.close()
    counts = batches.draws.split.counts
    return {code: n for code, n in counts.items() if mixture.shares(counts).get(code)}


def _bounds(text: str) -> tuple[float, float]:
    """The most epochs, and the least share."""
    found = {"epochs": math.inf, "share": 0.0}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(?:(epochs)\s*<=|(share)\s*>=)\s*(\d*\.?\d+)\s*(%?)\s*", part)
        if not match or not float(match[3]):
            raise ValueError(
                f"--fit {text!r}: no bound {part!r}; allowed: epochs<=N and share>=N (of 1, or "
                "N%), with a comma between"
            )
        found[match[1] or match[2]] = float(match[3]) / (100 if match[4] else 1)
    return found["epochs"], found["share"]


def _check_possible(
    counts: Mapping[str, int], most: float, least: float, examples: int, steps: int
) -> None:
    if least * len(counts) > 1:
        raise ValueError(
            f"share>={least:g} cannot be kept by {len(counts)} languages; possible: "
            f"share>={_down(1 / len(counts))}, or fewer languages"
        )
    total = sum(counts.values())
    if most * total < examples:
        raise ValueError(
            f"epochs<={most:g} cannot be kept: {steps:,} steps show {examples:,} examples, the "
            f"corpus has {total:,}; possible: epochs<={_up(examples / total)}, or "
            f"{int(steps * most * total / examples):,} steps"
        )
    code, fewest = min(counts.items(), key=lambda one: one[1])
    if most * fewest < least * examples:
        raise ValueError(
            f"epochs<={most:g} and share>={least:g} cannot both be kept: {code} has "
            f"{fewest:,} examples, a share of {least:g} of {examples:,} is "
            f"{least * examples / fewest:,.1f} epochs of it; possible: "
            f"epochs<={_up(least * examples / fewest)}, share>={_down(most * fewest / examples)}, "
            f"{int(steps * most * fewest / (least * examples)):,} steps, or without {code}"
        )


def _lowest(
    counts: Mapping[str, int], most: float, least: float, examples: int, free: Mixing
) -> Mixing:
    """Of the temperatures from that of `free` upwards the first that keeps to the bounds."""
    for temperature in (*np.geomspace(free.temperature, 1000 * free.temperature, 700), 1e12):
        rounded = float(f"{temperature:.3g}")
        plain = mixing.shares(counts, rounded)
        cap = max(plain[code] * examples / counts[code] for code in counts) > most
        drawn = mixing.shares(counts, rounded, max_epochs=most, examples=examples) if cap else plain
        if min(drawn.values()) >= least * (1 - 1e-9):
            warm = dataclasses.replace(free, temperature=rounded)
            if not cap:
                return warm
            return dataclasses.replace(warm, max_epochs=most, examples=examples)
    raise AssertionError(f"no temperature gives {least}")


def _up(value: float) -> str:
    return f"{math.ceil(value * 100) / 100:g}"


def _down(value: float) -> str:
    digits = 10.0 ** (2 - math.floor(math.log10(value)))
    return f"{math.floor(value * digits) / digits:g}"


def table(found: Forecast) -> str:
    """The forecast for people, the largest share first."""
    rows = sorted(found.rows, key=lambda row: (-row["share"], row["language"]))
    pairs, examples, tokens = (sum(r[key] for r in rows) for key in ("pairs", "examples", "tokens"))
    head = ["language", "name", "pairs", "share", "epochs", "repeats", "tokens", "first", "last"]
    about = "~" if any(row["estimated"] for row in rows) else ""
    lines = [head]
    for row in rows:
        lines.append([
            row["language"], row["name"], f"{row['pairs']:,}", f"{row['share']:.2%}",
            f"{row['epochs']:.2f}", f"{row['repeats']:,}", f"{about}{row['tokens']:,}",
            *("never" if row[key] is None else f"{row[key]:,}" for key in ("first", "last")),
        ])  # fmt: skip
    lines.append([
        "all", f"{len(rows)}", f"{pairs:,}", f"{1:.2%}", f"{examples / pairs:.2f}",
        f"{sum(row['repeats'] for row in rows):,}", f"{about}{tokens:,}", "1", f"{found.steps:,}",
    ])  # fmt: skip
    said = (
        f"{found.steps:,} steps of {found.batch:,} rows, {found.examples_a_row:.2f} examples a "
        f"row: {examples:,} examples. First and last: the steps in which a language comes."
    )
    return "\n".join([*ledger.aligned(lines, left=2), said, *found.notes])


def gin(mixture: Mixing) -> str:
    """The bindings of gin that ask for a mixture."""
    names = ("temperature", "max_epochs", "examples")
    values = ((name, getattr(mixture, name)) for name in names)
    return "\n".join(
        f"mixing.Mixing.{name} = {value:g}" if isinstance(value, float) else
        f"mixing.Mixing.{name} = {value}"
        for name, value in values if value is not None
    )  # fmt: skip
