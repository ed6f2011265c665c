"""From a split of a cache to rows: which examples fit, in which order they come, on which lane.

Random access all the way: an example is a function of seed and draw. What is made of the rows, and
when, is `pipeline.py`'s matter.
"""

import dataclasses
import functools
import hashlib
import itertools
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from mmt.data.cache import Cache, records
from mmt.data.denoising import Denoiser, Denoising
from mmt.data.mixing import is_monolingual, permute
from mmt.data.modifiers import Ids, Rewriter
from mmt.data.packing import Batch, Example, Packer, Row, assemble
from mmt.data.stages import Stage, Timeline

_LOOK_UP = 256  # draws that a lane looks up at once
_REMEMBERED = 1 << 20  # changes of examples, which the ledger asks for again
_SAMPLE = 1024  # draws at a time
_SAMPLE_ROWS = 1000
_EPOCH = 0x9E3779B97F4A7C15  # odd: what an epoch adds to a language's key, modulo 2^64


class Split:
    """The examples of some languages of a split that fit into the feature lengths.

    `counts` says how many those are; a language is named by its position there. Lengths of
    monolingual text are those of the examples that `denoising` makes of it.
    """

    def __init__(
        self, cache: Cache, split: str, languages: Sequence[str],
        feature_lengths: Mapping[str, int], denoising: Denoising = Denoising(),  # noqa: B008
    ):  # fmt: skip
        if set(feature_lengths) != {"inputs", "targets"}:
            raise ValueError(
                f"feature_lengths must give 'inputs' and 'targets', got {dict(feature_lengths)}"
            )
        self.cache = cache
        self.shape = (feature_lengths["inputs"], feature_lengths["targets"])
        self.denoising = denoising
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
            if is_monolingual(code):
                lengths = self.denoiser.lengths(lengths[:, 1])
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

    @functools.cached_property
    def denoiser(self) -> Denoiser:
        """What makes the examples of monolingual text. ValueError where the cache's is of no use.
        """
        return Denoiser(self.denoising, self.cache.sentinels())

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

    def raw(self, language_id: int, record: int) -> bytes:
        """A record as stored."""
        return self._readers[language_id].raw(record)

    def batch(self, rows: Sequence[Row]) -> Batch:
        raw = [e.changed or self.raw(e.language, e.record) for row in rows for e in row]
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


class Change(NamedTuple):
    """What modifiers make of an example: by how many tokens its sides are longer, and whether it
    then fits. An example that does not is left as it was.
    """

    language: int
    record: int
    source: int
    target: int
    fits: bool


_UNKNOWN = Change(0, 0, 0, 0, fits=False)


class Draws:
    """The endless mixture by index: draw i -> example."""

    def __init__(self, split: Split, timeline: Timeline, seed: int):
        self.split = split
        self.timeline = timeline
        self.seed = seed
        self.sizes = np.array(list(split.counts.values()), np.int64)
        # One key per language; every epoch moves it on.
        self._keys = np.array([_key(f"{seed}/{code}") for code in split.counts], np.uint64)
        self._rewriters = [
            Rewriter(stage.modifiers, split.cache, list(split.counts), seed)
            if stage.modifiers
            else None
            for stage in timeline.stages
        ]
        self._changes: dict[int, Change | None] = {}
        self._texts = np.array([is_monolingual(code) for code in split.counts], bool)

    def examples(self, draws: Sequence[int]) -> list[Example]:
        """The example of each draw, modified where the draw's stage has it so; of monolingual text
        with its gaps.
        """
        numbers = np.asarray(draws, np.int64)
        languages, appearances, stages = self.timeline.at(numbers)
        found = self._plain(draws, languages, appearances)
        self._denoise(found, languages, appearances)
        for rewriter, own, kinds in self._chosen(numbers, languages, stages):
            made = self._made(rewriter, kinds, numbers[own], languages[own], appearances[own])
            for place, tokens in zip(own.tolist(), made, strict=True):
                language = int(languages[place])
                found[place], change = self._changed(found[place], language, tokens)
                if len(self._changes) >= _REMEMBERED:
                    self._changes.clear()
                self._changes[found[place].draw] = change
        return found

    def plain(self, draws: Sequence[int]) -> list[Example]:
        """The example of each draw without what modifiers make of it, and without its gaps: of text
        its length alone.
        """
        return self._plain(draws, *self.timeline.at(np.asarray(draws, np.int64))[:2])

    def _plain(
        self,
        draws: Sequence[int],
        languages: Int[np.ndarray, "n"],
        appearances: Int[np.ndarray, "n"],
    ) -> list[Example]:
        indices = self.places(languages, appearances).tolist()
        triples = zip(draws, languages.tolist(), indices, strict=True)
        return [self.split.example(*triple) for triple in triples]

    def _denoise(
        self,
        found: list[Example],
        languages: Int[np.ndarray, "n"],
        appearances: Int[np.ndarray, "n"],
    ) -> None:
        """Puts in place what is made of monolingual text: other gaps in each epoch."""
        own = np.flatnonzero(self._texts[languages])
        if not own.size:
            return
        lines = [found[place] for place in own.tolist()]
        read = records.decode([self.split.raw(one.language, one.record) for one in lines])
        texts = _cut(read.targets.tolist(), read.target_lengths.tolist())
        numbers = np.array([one.record for one in lines])
        times = appearances[own].astype(np.uint64) * np.uint64(_EPOCH)
        keys = (self._keys[languages[own]] ^ times).tolist()
        made = self.split.denoiser.examples(texts, numbers, keys)
        for place, one, sides in zip(own.tolist(), lines, made, strict=True):
            found[place] = one._replace(changed=records.encode(*sides, one.language))

    def changes(self, draws: Int[np.ndarray, "n"]) -> list[Change]:
        """What modifiers make of these draws, or would if it did fit."""
        if not any(self._rewriters):
            return []
        languages, appearances, stages = self.timeline.at(draws)
        found: list[Change | None] = []
        for rewriter, own, kinds in self._chosen(draws, languages, stages):
            known = [self._changes.get(draw, _UNKNOWN) for draw in draws[own].tolist()]
            found += [change for change in known if change is not _UNKNOWN]
            new = np.array([change is _UNKNOWN for change in known], bool)
            own, kinds = own[new], kinds[:, new]
            made = self._made(rewriter, kinds, draws[own], languages[own], appearances[own])
            indices = self.places(languages[own], appearances[own]).tolist()
            for language, index, tokens in zip(languages[own].tolist(), indices, made, strict=True):
                example = self.split.example(0, language, index)
                found.append(self._changed(example, language, tokens)[1])
        return [change for change in found if change is not None]

    def _chosen(
        self,
        draws: Int[np.ndarray, "n"],
        languages: Int[np.ndarray, "n"],
        stages: Int[np.ndarray, "n"],
    ) -> Iterator[tuple[Rewriter, Int[np.ndarray, "m"], Bool[np.ndarray, "kinds m"]]]:
        """By stage the places of the draws that get modifiers, and which."""
        for number, rewriter in enumerate(self._rewriters):
            if rewriter is not None:
                own = np.flatnonzero(stages == number)
                kinds = rewriter.chosen(draws[own], languages[own])
                some = np.flatnonzero(kinds.any(axis=0))
                yield rewriter, own[some], kinds[:, some]

    def _made(
        self,
        rewriter: Rewriter,
        kinds: Bool[np.ndarray, "kinds n"],
        draws: Int[np.ndarray, "n"],
        languages: Int[np.ndarray, "n"],
        appearances: Int[np.ndarray, "n"],
    ) -> list[tuple[Ids, Ids] | None]:
        """What `Rewriter.rewrite` makes of these draws."""
        merged = rewriter.merged(kinds)
        found = self._tokens(
            np.concatenate([languages, languages[merged]]),
            np.concatenate([appearances, appearances[merged] + 1]),
        )
        tokens, after = found[: len(draws)], found[len(draws) :]
        return rewriter.rewrite(
            draws, kinds, tokens, dict(zip(merged.tolist(), after, strict=True))
        )

    def _changed(
        self, example: Example, language: int, made: tuple[Ids, Ids] | None
    ) -> tuple[Example, Change | None]:
        """The example with these tokens, or as it was where they do not fit."""
        if made is None:
            return example, None
        source, target = (len(ids) + 1 for ids in made)
        fits = source <= self.split.shape[0] and target <= self.split.shape[1]
        more = source - example.source, target - example.target
        change = Change(language, example.record, *more, fits)
        if not fits:
            return example, change
        changed = records.encode(*made, example.language)
        return example._replace(source=source, target=target, changed=changed), change

    def _tokens(
        self, languages: Int[np.ndarray, "n"], appearances: Int[np.ndarray, "n"]
    ) -> list[tuple[Ids, Ids]]:
        """Source and target of these appearances, as cached."""
        indices = self.places(languages, appearances)
        pairs = zip(languages.tolist(), indices.tolist(), strict=True)
        wanted = [self.split.example(0, *pair) for pair in pairs]
        found = records.decode([self.split.raw(one.language, one.record) for one in wanted])
        sides = (found.inputs, found.input_lengths), (found.targets, found.target_lengths)
        cut = [_cut(flat.tolist(), lengths.tolist()) for flat, lengths in sides]
        return list(zip(*cut, strict=True))

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
        found = {
            "corpus": manifest.corpus_hash,
            "vocabulary": dict(manifest.vocabulary_hash),
            "seed": self.seed,
            "inputs": inputs,
            "targets": targets,
        } | self.timeline.settings()
        if self._texts.any():
            found["denoising"] = dataclasses.asdict(self.split.denoising)
        return found


def _cut(flat: list[int], lengths: list[int]) -> list[Ids]:
    ends = itertools.accumulate(lengths)
    return [flat[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def _key(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())


def density(split: Split, stage: Stage, *, seed: int, open_rows: int) -> float:
    """The examples that a row of a stage holds on average, of a sample of many rows. They are
    modified as the stage has it, if the cache has their text.
    """
    if not open_rows:
        return 1.0
    alone = Timeline([dataclasses.replace(stage, until=None)], split.counts)
    draws = Draws(split, alone, seed)
    rows, examples, first = 0, 0, 0
    packer = Packer(*split.shape, open_rows=open_rows)
    sampled = draws.examples if stage.modifiers and split.cache.has_text else draws.plain
    while rows < _SAMPLE_ROWS:
        for example in sampled(range(first, first + _SAMPLE)):
            row = packer.add(example)
            rows, examples = rows + (row is not None), examples + len(row or ())
        first += _SAMPLE
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
