"""From a split of a cache to rows: which examples fit, in which order they come, on which lane.

Random access all the way: an example is a function of seed and draw. What is made of the rows, and
when, is `pipeline.py`'s matter.
"""

import hashlib
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from mmt.data import records
from mmt.data.cache import Cache
from mmt.data.mixing import permute
from mmt.data.packing import Batch, Example, Packer, Row, assemble
from mmt.data.stages import Part, Timeline

_LOOK_UP = 256  # draws that a lane looks up at once
_SAMPLE = 4096  # draws at a time
_SAMPLE_ROWS = 2000
_EPOCH = 0x9E3779B97F4A7C15  # odd: what an epoch adds to a language's key, modulo 2^64


class Split:
    """The examples of some languages of a split that fit into the feature lengths.

    `counts` says how many those are; a language is named by its position there.
    """

    def __init__(
        self, cache: Cache, split: str, languages: Sequence[str], feature_lengths: Mapping[str, int]
    ):
        if set(feature_lengths) != {"inputs", "targets"}:
            raise ValueError(
                f"feature_lengths must give 'inputs' and 'targets', got {dict(feature_lengths)}"
            )
        self.cache = cache
        self.shape = (feature_lengths["inputs"], feature_lengths["targets"])
        self.counts: dict[str, int] = {}
        self._kept: list[np.ndarray | None] = []  # indices [n], None for all
        self._lengths: list[np.ndarray] = []  # [n, 2], of all
        self._readers: dict[int, records.Reader] = {}  # by language id
        self._ids: list[int] = []
        left_out: dict[str, int] = {}
        for code in languages:
            lengths = np.asarray(cache.lengths(code, split))
            if not len(lengths):
                continue
            fits = (lengths < np.array(self.shape)).all(axis=1)  # EOS takes one more
            if missing := int((~fits).sum()):
                left_out[code] = missing
            if missing == len(lengths):
                continue
            self.counts[code] = len(lengths) - missing
            self._kept.append(np.flatnonzero(fits) if missing else None)
            self._lengths.append(lengths)
            self._ids.append(cache.manifest.languages.index(code))
            self._readers[self._ids[-1]] = cache.records(code, split)
        self._warn(split, left_out)

    def example(self, draw: int, language: int, index: int) -> Example:
        """The index-th of the language's examples that fit."""
        kept = self._kept[language]
        record = index if kept is None else int(kept[index])
        source, target = self._lengths[language][record].tolist()
        return Example(draw, self._ids[language], record, source + 1, target + 1)

    def records(self, language: int, indices: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        """Which of the language's records its examples that fit are."""
        kept = self._kept[language]
        return indices if kept is None else kept[indices]

    def lengths(self, language: int, records: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n 2"]:
        """The tokens of source and target of these records, with EOS."""
        return np.asarray(self._lengths[language][records], np.int64) + 1

    def batch(self, rows: Sequence[Row]) -> Batch:
        raw = [self._readers[e.language].raw(e.record) for row in rows for e in row]
        source, target = self.shape
        manifest = self.cache.manifest
        return assemble(
            rows, records.decode(raw), source=source, target=target,
            pad=manifest.pad, eos=manifest.eos, start=manifest.start,
        )  # fmt: skip

    def _warn(self, split: str, left_out: Mapping[str, int]) -> None:
        if not left_out:
            return
        worst = sorted(left_out, key=left_out.__getitem__, reverse=True)
        none = [code for code in worst if code not in self.counts]
        warnings.warn(
            f"{sum(left_out.values()):,} {split} examples do not fit in inputs {self.shape[0]}, "
            f"targets {self.shape[1]} and are left out; most of them: "
            + ", ".join(f"{code} {left_out[code]:,}" for code in worst[:5])
            + (f"; nothing is left of {', '.join(none)}" if none else ""),
            stacklevel=4,
        )


class Draws:
    """The endless mixture by index: draw i -> example."""

    def __init__(self, split: Split, timeline: Timeline, seed: int):
        self.split = split
        self.timeline = timeline
        self.seed = seed
        self.sizes = np.array(list(split.counts.values()), np.int64)
        # One key per language; every epoch moves it on.
        self._keys = np.array([_key(f"{seed}/{code}") for code in split.counts], np.uint64)

    def examples(self, draws: Sequence[int]) -> list[Example]:
        """The example of each draw."""
        languages, appearances, _ = self.timeline.at(np.asarray(draws, np.int64))
        indices = self.places(languages, appearances)
        triples = zip(draws, languages.tolist(), indices.tolist(), strict=True)
        return [self.split.example(*triple) for triple in triples]

    def places(
        self, languages: Int[np.ndarray, "n"], appearances: Int[np.ndarray, "n"]
    ) -> Int[np.ndarray, "n"]:
        """Appearance a of a language with n examples is number a % n of its epoch a // n: which
        of its examples that is.
        """
        sizes = self.sizes[languages]
        epochs, places = np.divmod(appearances, sizes)
        keys = self._keys[languages] + epochs.astype(np.uint64) * np.uint64(_EPOCH)
        return permute(places, sizes, keys)

    def settings(self) -> dict[str, Any]:
        """What the meaning of a draw depends on."""
        manifest = self.split.cache.manifest
        inputs, targets = self.split.shape
        return {
            "corpus": manifest.corpus_hash,
            "vocabulary": dict(manifest.vocabulary_hash),
            "seed": self.seed,
            "inputs": inputs,
            "targets": targets,
        } | self.timeline.settings()


def _key(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())


def density(split: Split, part: Part, *, open_rows: int) -> float:
    """The examples that a row of a stage's mixture holds on average, of a sample of many rows."""
    if not open_rows:
        return 1.0
    random = np.random.default_rng(0)
    rows, examples, first = 0, 0, 0
    packer = Packer(*split.shape, open_rows=open_rows)
    while rows < _SAMPLE_ROWS:
        languages, _ = part.at(np.arange(part.start + first, part.start + first + _SAMPLE))
        first += _SAMPLE
        indices = random.integers(0, [list(split.counts.values())[i] for i in languages])
        for pair in zip(languages.tolist(), indices.tolist(), strict=True):
            row = packer.add(split.example(0, *pair))
            rows, examples = rows + (row is not None), examples + len(row or ())
    return examples / rows


class Lane:
    """Every lanes-th draw, packed into rows."""

    def __init__(self, draws: Draws, number: int, lanes: int, open_rows: int):
        self._draws = draws
        self._lanes = lanes
        self._next = number
        self._looked_up: deque[Example] = deque()
        source, target = draws.split.shape
        self._packer = Packer(source, target, open_rows=open_rows)

    def row(self) -> Row:
        while True:
            if not self._looked_up:
                end = self._next + _LOOK_UP * self._lanes
                self._looked_up.extend(self._draws.examples(range(self._next, end, self._lanes)))
            done = self._packer.add(self._looked_up.popleft())
            self._next += self._lanes
            if done is not None:
                return done

    def get_state(self) -> dict[str, Any]:
        rows = [[example.draw for example in row] for row in self._packer.open]
        return {"next": self._next, "open": rows}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._next = state["next"]
        self._looked_up.clear()
        self._packer.restore([self._draws.examples(row) for row in state["open"]])
