"""The order of examples, and the virtual shards that pack them into rows.

An example is a function of seed and draw, so any part of the order can be computed directly.
`pipeline.py` makes batches of the rows.
"""

import dataclasses
import hashlib
import itertools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from mmt.data.cache import records
from mmt.data.curriculum import CurriculumSampler
from mmt.data.mixing import is_monolingual
from mmt.data.mixture_sampler import permute
from mmt.data.modifiers import Change, Changes, Ids, Rewriter
from mmt.data.packing import PackedExample, Packer, Row
from mmt.data.split import Split
from mmt.data.stages import Stage

_LOOK_UP = 256  # number of draws that a virtual shard looks up at once
_SAMPLE = 1024  # draws at a time
_SAMPLE_ROWS = 1000
_EPOCH = 0x9E3779B97F4A7C15  # odd; an epoch adds it to a language's key, modulo 2^64


_UNKNOWN = Change(0, 0, 0, 0, fits=False)


class SampleOrder:
    """The endless mixture: maps draw i to an example.

    Attributes:
      split: the examples.
      sampler: assigns a language to each draw.
      sizes: examples per language.
      changed: the changes by modifiers of the draws whose examples were made.
    """

    def __init__(self, split: Split, sampler: CurriculumSampler, seed: int):
        self.split = split
        self.sampler = sampler
        self.seed = seed
        self.sizes = np.array(list(split.counts.values()), np.int64)
        # One key per language, which every epoch changes.
        self._keys = np.array([_key(f"{seed}/{code}") for code in split.counts], np.uint64)
        self._rewriters = [
            Rewriter(stage.modifiers, split.cache, list(split.counts), seed, stage.context_lines)
            if stage.modifiers
            else None
            for stage in sampler.stages
        ]
        self.changed = Changes()
        self._short = {
            number: self._short_examples(number)
            for number, stage in enumerate(sampler.stages[: len(sampler.parts)])
            if stage.max_targets is not None
        }
        self._is_text = np.array([is_monolingual(code) for code in split.counts], bool)

    def examples(self, draws: Sequence[int]) -> list[PackedExample]:
        """Returns the example of each draw, with the modifiers of its stage.

        Examples of monolingual text have noise spans.
        """
        draw_numbers = np.asarray(draws, np.int64)
        languages, appearances, stages = self.sampler.at(draw_numbers)
        examples = self._plain_examples(draws, languages, appearances)
        self._denoise(examples, languages, appearances)
        for stage, indices, kinds in self._modified(draw_numbers, languages, appearances, stages):
            rewritten = self._rewrite(
                stage, kinds, draw_numbers[indices], languages[indices], appearances[indices]
            )
            changes = {}
            for index, tokens in zip(indices.tolist(), rewritten, strict=True):
                language = int(languages[index])
                examples[index], change = self._apply_change(examples[index], language, tokens)
                changes[examples[index].draw] = change
            self.changed.add(changes)
        return examples

    def plain(self, draws: Sequence[int]) -> list[PackedExample]:
        """Returns the example of each draw without modifiers and noise spans.

        Of monolingual text only the lengths are meaningful.
        """
        return self._plain_examples(draws, *self.sampler.at(np.asarray(draws, np.int64))[:2])

    def _plain_examples(
        self,
        draws: Sequence[int],
        languages: Int[np.ndarray, "n"],
        appearances: Int[np.ndarray, "n"],
    ) -> list[PackedExample]:
        indices = self.indices(languages, appearances).tolist()
        triples = zip(draws, languages.tolist(), indices, strict=True)
        return [self.split.example(*triple) for triple in triples]

    def _denoise(
        self,
        examples: list[PackedExample],
        languages: Int[np.ndarray, "n"],
        appearances: Int[np.ndarray, "n"],
    ) -> None:
        """Replaces the examples of monolingual text by noised ones; noise differs by epoch."""
        indices = np.flatnonzero(self._is_text[languages])
        if not indices.size:
            return
        lines = [examples[index] for index in indices.tolist()]
        decoded = records.decode([self.split.raw(line.language, line.record) for line in lines])
        texts = _split_flat(decoded.targets.tolist(), decoded.target_lengths.tolist())
        line_numbers = np.array([line.record for line in lines])
        epoch_keys = appearances[indices].astype(np.uint64) * np.uint64(_EPOCH)
        keys = (self._keys[languages[indices]] ^ epoch_keys).tolist()
        noised = self.split.denoiser.examples(texts, line_numbers, keys)
        for index, line, sides in zip(indices.tolist(), lines, noised, strict=True):
            examples[index] = line._replace(changed=records.encode(*sides, line.language))

    def changes(self, draws: Int[np.ndarray, "n"]) -> list[Change]:
        """Returns the changes of these draws by modifiers, also where the result does not fit."""
        if not any(self._rewriters):
            return []
        languages, appearances, stages = self.sampler.at(draws)
        changes: list[Change | None] = []
        for stage, indices, kinds in self._modified(draws, languages, appearances, stages):
            remembered = [self.changed.get(draw, _UNKNOWN) for draw in draws[indices].tolist()]
            changes += [change for change in remembered if change is not _UNKNOWN]
            is_unknown = np.array([change is _UNKNOWN for change in remembered], bool)
            if not is_unknown.any():
                continue
            kinds, unknown_languages = kinds[:, is_unknown], languages[indices[is_unknown]]
            unknown_appearances = appearances[indices[is_unknown]]
            rewritten = self._rewrite(
                stage, kinds, draws[indices[is_unknown]], unknown_languages, unknown_appearances
            )
            example_indices = self.indices(unknown_languages, unknown_appearances).tolist()
            for language, index, tokens in zip(
                unknown_languages.tolist(), example_indices, rewritten, strict=True
            ):
                example = self.split.example(0, language, index)
                changes.append(self._apply_change(example, language, tokens)[1])
        return [change for change in changes if change is not None]

    def _modified(
        self, draws: Int[np.ndarray, "n"], languages: Int[np.ndarray, "n"],
        appearances: Int[np.ndarray, "n"], stages: Int[np.ndarray, "n"],
    ) -> Iterator[tuple[int, Int[np.ndarray, "m"], Bool[np.ndarray, "kinds m"]]]:  # fmt: skip
        """Yields each stage with modifiers, the indices of the draws that get them, and which."""
        for number, rewriter in enumerate(self._rewriters):
            if rewriter is not None:
                in_stage = np.flatnonzero(stages == number)
                groups = languages[in_stage]
                if rewriter.by_corpus:
                    groups = self.split.corpora(groups, self.indices(groups, appearances[in_stage]))
                kinds = rewriter.select(draws[in_stage], groups)
                modified = np.flatnonzero(kinds.any(axis=0))
                yield number, in_stage[modified], kinds[:, modified]

    def _rewrite(
        self,
        stage: int,
        kinds: Bool[np.ndarray, "kinds n"],
        draws: Int[np.ndarray, "n"],
        languages: Int[np.ndarray, "n"],
        appearances: Int[np.ndarray, "n"],
    ) -> list[tuple[Ids, Ids] | None]:
        """Returns the tokens of these draws of one stage after `Rewriter.rewrite`.

        `merged` takes the next example of the same stage. So the text of a draw does not depend on
        the end of its stage, which may not be known yet.
        """
        rewriter = self._rewriters[stage]
        assert rewriter is not None
        merged = rewriter.merged(kinds)
        tokens = self._tokens(
            np.concatenate([languages, languages[merged]]),
            np.concatenate([appearances, appearances[merged] + 1]),
            stage,
        )
        tokens, next_tokens = tokens[: len(draws)], tokens[len(draws) :]
        following = dict(zip(merged.tolist(), next_tokens, strict=True))
        lines = rewriter.context(draws, kinds)
        preceding = self._preceding(np.flatnonzero(lines), languages, appearances, lines)
        return rewriter.rewrite(draws, kinds, tokens, following, preceding)

    def _preceding(
        self,
        indices: Int[np.ndarray, "m"],
        languages: Int[np.ndarray, "n"],
        appearances: Int[np.ndarray, "n"],
        max_lines: Int[np.ndarray, "n"],
    ) -> dict[int, list[tuple[Ids, Ids]]]:
        """Returns the tokens of the lines before some appearances in their documents, by index."""
        if not indices.size:
            return {}
        example_indices = self.indices(languages[indices], appearances[indices])
        arguments = zip(languages[indices], example_indices, max_lines[indices], strict=True)
        documents = [self.split.preceding(*map(int, argument)) for argument in arguments]
        tokens = iter(self._read_tokens([example for lines in documents for example in lines]))
        return {
            index: [next(tokens) for _ in lines]
            for index, lines in zip(indices.tolist(), documents, strict=True)
        }

    def _apply_change(
        self, example: PackedExample, language: int, tokens: tuple[Ids, Ids] | None
    ) -> tuple[PackedExample, Change | None]:
        """Returns the example with these tokens, or the original if they do not fit."""
        if tokens is None:
            return example, None
        source, target = (len(ids) + 1 for ids in tokens)
        fits = source <= self.split.shape[0] and target <= self.split.shape[1]
        added = source - example.source, target - example.target
        change = Change(language, example.record, *added, fits)
        if not fits:
            return example, change
        changed = records.encode(*tokens, example.language)
        return example._replace(source=source, target=target, changed=changed), change

    def _tokens(
        self, languages: Int[np.ndarray, "n"], appearances: Int[np.ndarray, "n"], stage: int
    ) -> list[tuple[Ids, Ids]]:
        """Returns source and target of these appearances in a stage, as cached."""
        indices = self.indices(languages, appearances, stage)
        pairs = zip(languages.tolist(), indices.tolist(), strict=True)
        return self._read_tokens([self.split.example(0, *pair) for pair in pairs])

    def _read_tokens(self, examples: Sequence[PackedExample]) -> list[tuple[Ids, Ids]]:
        """Returns source and target of these examples, as cached."""
        decoded = records.decode([self.split.raw(e.language, e.record) for e in examples])
        sides = (decoded.inputs, decoded.input_lengths), (decoded.targets, decoded.target_lengths)
        by_side = [_split_flat(flat.tolist(), lengths.tolist()) for flat, lengths in sides]
        return list(zip(*by_side, strict=True))

    def indices(
        self,
        languages: Int[np.ndarray, "n"],
        appearances: Int[np.ndarray, "n"],
        stage_of_all: int | None = None,
    ) -> Int[np.ndarray, "n"]:
        """Returns the index of the example of each appearance, 0 ... n - 1.

        Appearance a of a language with n examples is number a % n of a permutation for epoch a //
        n. A stage with `max_targets` has separate epochs, of its n short examples. The stage is
        `stage_of_all`, or the one that the appearance is drawn in.
        """
        indices = self._permuted(languages, appearances, self.sizes[languages])
        bases = np.array([part.base for part in self.sampler.parts[: len(self.sampler.stages)]])
        for stage, short in self._short.items():
            stages_begun = (bases[: stage + 2, languages] <= appearances).sum(axis=0)
            is_here = (
                stages_begun == stage + 1
                if stage_of_all is None
                else np.full(len(languages), stage == stage_of_all)
            )
            in_stage = np.flatnonzero(is_here & np.isin(languages, [*short]))
            stage_languages = languages[in_stage]
            sizes = np.array([len(short[code]) for code in stage_languages.tolist()], np.int64)
            positions = self._permuted(
                stage_languages, appearances[in_stage] - bases[stage, stage_languages], sizes
            )
            pairs = zip(stage_languages.tolist(), positions.tolist(), strict=True)
            indices[in_stage] = [short[code][position] for code, position in pairs]
        return indices

    def unlimited_from(self) -> Int[np.ndarray, "languages"]:
        """Returns the appearance of each language after which no stage has `max_targets`."""
        first_unlimited = max(self._short, default=-1) + 1
        if first_unlimited == min(len(self.sampler.parts), len(self.sampler.stages)):
            return np.full(len(self.sizes), np.iinfo(np.int64).max // 2)
        return self.sampler.parts[first_unlimited].base

    def _permuted(
        self,
        languages: Int[np.ndarray, "n"],
        appearances: Int[np.ndarray, "n"],
        sizes: Int[np.ndarray, "n"],
    ) -> Int[np.ndarray, "n"]:
        epochs, numbers = np.divmod(appearances, sizes)
        keys = self._keys[languages] + epochs.astype(np.uint64) * np.uint64(_EPOCH)
        return permute(numbers, sizes, keys)

    def _short_examples(self, stage: int) -> dict[int, Int[np.ndarray, "_"]]:
        """Returns the indices of the short examples of a stage's languages.

        ValueError if a language has none.
        """
        limit = self.sampler.stages[stage].max_targets
        short, codes = {}, list(self.split.counts)
        for language in self.sampler.parts[stage].components.tolist():
            all_records = self.split.records(language, np.arange(self.sizes[language]))
            targets = self.split.lengths(language, all_records)[:, 1]
            short[language] = np.flatnonzero(targets <= limit)
            if not len(short[language]):
                raise ValueError(
                    f"stage {stage + 1} has max_targets = {limit}, but the shortest example of "
                    f"{codes[language]} has {targets.min()}; allowed: {targets.min()} or more"
                )
        return short

    def settings(self) -> dict[str, Any]:
        """Returns all settings that determine the example of a draw; plain JSON."""
        manifest = self.split.cache.manifest
        inputs, targets = self.split.shape
        settings = {
            "corpus": manifest.corpus_hash,
            "vocabulary": dict(manifest.vocabulary_hash),
            "seed": self.seed,
            "inputs": inputs,
            "targets": targets,
        } | self.sampler.settings()
        if self.split.leave_out:
            settings["leave_out"] = sorted(self.split.leave_out)
        if self._is_text.any():
            settings["denoising"] = dataclasses.asdict(self.split.denoising)
        return settings


def _split_flat(flat: list[int], lengths: list[int]) -> list[Ids]:
    ends = itertools.accumulate(lengths)
    return [flat[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def _key(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())


def density(split: Split, stage: Stage, *, seed: int, open_rows: int) -> float:
    """Returns the mean number of examples in a row of a stage, measured on a sample of rows.

    The stage's modifiers are applied if the cache has the text.

    Args:
      split: the examples.
      stage: its mixture is sampled.
      seed: of the order of the examples.
      open_rows: rows that are packed at a time; 0: every example is a row.
    """
    if not open_rows:
        return 1.0
    sampler = CurriculumSampler([dataclasses.replace(stage, until=None)], split.counts)
    order = SampleOrder(split, sampler, seed)
    rows, examples, next_draw = 0, 0, 0
    packer = Packer(*split.shape, open_rows=open_rows)
    sampled = order.examples if stage.modifiers and split.cache.has_text else order.plain
    while rows < _SAMPLE_ROWS:
        for example in sampled(range(next_draw, next_draw + _SAMPLE)):
            row = packer.add(example)
            rows, examples = rows + (row is not None), examples + len(row or ())
        next_draw += _SAMPLE
    return examples / rows


class VirtualShard:
    """One of a fixed number of streams: every n-th draw of the mixture, packed into rows.

    Args:
      order: the draws.
      number: the index of the shard, 0 ... virtual_shards - 1, and of its first draw.
      virtual_shards: the number of shards.
      open_rows: rows that are packed at a time; 0: every example is a row.
    """

    def __init__(self, order: SampleOrder, number: int, virtual_shards: int, open_rows: int):
        self._order = order
        self._virtual_shards = virtual_shards
        self._next = number
        self._looked_up: deque[PackedExample] = deque()
        source, target = order.split.shape
        self._packer = Packer(source, target, open_rows=open_rows)

    def row(self) -> Row:
        """Returns the next row."""
        while True:
            if not self._looked_up:
                end = self._next + _LOOK_UP * self._virtual_shards
                draws = range(self._next, end, self._virtual_shards)
                self._looked_up.extend(self._order.examples(draws))
            finished_row = self._packer.add(self._looked_up.popleft())
            self._next += self._virtual_shards
            if finished_row is not None:
                return finished_row

    def get_state(self) -> dict[str, Any]:
        """Returns the next draw, `next`, and the draws in `open` rows; plain JSON."""
        rows = [[example.draw for example in row] for row in self._packer.open]
        return {"next": self._next, "open": rows}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continues after the row at which `state` was saved."""
        self._next = state["next"]
        self._looked_up.clear()
        self._packer.restore([self._order.examples(row) for row in state["open"]])
