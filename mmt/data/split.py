"""A split of a cache: the examples that fit into a row, and the arrays of rows."""

import bisect
import functools
import itertools
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int, Int32, Int64

from mmt.data.cache import Cache, alignments, longest, records
from mmt.data.cache.longest import Omitted
from mmt.data.cache.origins import in_corpora
from mmt.data.denoising import Denoiser, Denoising
from mmt.data.mixing import is_monolingual
from mmt.data.packing import Batch, PackedExample, Row, assemble, spread_to_tokens


class Split:
    """The examples of a split, of some languages, that fit into the feature lengths.

    A warning counts the examples that do not fit.

    Attributes:
      name: 'train', 'validation' or 'test'.
      counts: FLORES code -> examples that fit. The id of a language is its index here.
      shape: tokens of a source and of a target row, with EOS.
      denoising: options of the examples of monolingual text, which determine their lengths.
      alignment: whether batches have `decoder_alignment`, the alignments of unchanged pairs.
      leave_out: corpora whose examples are omitted.
      with_corpora: whether batches have `decoder_corpus_ids`, indices into `Manifest.corpus_table`.

    Raises:
      ValueError: the cache has no corpus of a name in `leave_out`, or nothing without them.
    """

    def __init__(
        self, cache: Cache, split: str, languages: Sequence[str],
        feature_lengths: Mapping[str, int], denoising: Denoising = Denoising(),  # noqa: B008
        alignment: bool = False, leave_out: Sequence[str] = (),
    ):  # fmt: skip
        if set(feature_lengths) != {"inputs", "targets"}:
            raise ValueError(
                f"feature_lengths must give 'inputs' and 'targets', got {dict(feature_lengths)}"
            )
        self.cache = cache
        self.name = split
        self.shape = (feature_lengths["inputs"], feature_lengths["targets"])
        self.denoising = denoising
        self.alignment = alignment
        self.leave_out = tuple(leave_out)
        self.with_corpora = False
        self._corpus_runs: dict[int, tuple[list[int], list[int]]] = {}  # by language id: ends, ids
        self.counts: dict[str, int] = {}
        self._omitted: list[Omitted] = []
        self._lengths: list[np.ndarray] = []  # [n, 2], of all; memory-mapped where they are pairs
        self._readers: dict[int, records.RecordReader] = {}  # by language id
        self._alignments: dict[int, alignments.Alignments] = {}
        self._ids: list[int] = []
        self._follows: dict[int, np.ndarray | None] = {}  # by index in `counts`
        kept_counts = cache.manifest.without(leave_out).counts.get(split, {})
        left_out: dict[str, int] = {}
        for code in languages:
            lengths = np.asarray(cache.lengths(code, split))
            if not len(lengths):
                continue
            if is_monolingual(code):
                lengths = self.denoiser.lengths(lengths[:, 1])
                too_long = longest.scan(lengths, self.shape)
            else:
                too_long = cache.too_long(code, split, self.shape)
            omitted = self._gaps(code, too_long)
            count = len(lengths) - omitted.count
            if missing := kept_counts[code] - count:
                left_out[code] = missing
            if not count:
                continue
            self.counts[code] = count
            self._omitted.append(omitted)
            self._lengths.append(lengths)
            self._ids.append(cache.manifest.languages.index(code))
            self._readers[self._ids[-1]] = cache.records(code, split)
            if alignment and cache.has_text and not is_monolingual(code):
                self._alignments[self._ids[-1]] = alignments.Alignments(cache, code)
        self._warn(split, left_out)
        emptied = [code for code in languages if kept_counts.get(code) == 0]
        if self.leave_out and emptied:
            message = f"without the corpora {', '.join(self.leave_out)}, no {split} example remains"
            if not self.counts:
                raise ValueError(f"{message} (pipeline.train_batches.leave_out)")
            warnings.warn(f"{message} of {', '.join(emptied)}", stacklevel=3)

    def _gaps(self, code: str, too_long: Int64[np.ndarray, "m"]) -> Omitted:
        """Returns the gaps of records that do not fit or are of a corpus that is left out."""
        if not self.leave_out:
            return Omitted(too_long, np.ones_like(too_long))
        manifest = self.cache.manifest
        names = [name for _, name in manifest.corpus_table]
        runs = manifest.corpus_runs(code)
        is_left_out = np.array(
            [in_corpora(names[corpus_id], self.leave_out) for corpus_id, _ in runs], bool
        )
        sizes = np.array([count for _, count in runs], np.int64)
        too_long = too_long[~is_left_out[np.searchsorted(sizes.cumsum(), too_long, side="right")]]
        starts = np.concatenate([(sizes.cumsum() - sizes)[is_left_out], too_long])
        order = np.argsort(starts)
        return Omitted(
            starts[order], np.concatenate([sizes[is_left_out], np.ones_like(too_long)])[order]
        )

    @functools.cached_property
    def denoiser(self) -> Denoiser:
        """Returns the denoiser. Raises ValueError if the vocabulary has no sentinels."""
        return Denoiser(self.denoising, self.cache.sentinels())

    def example(self, draw: int, language: int, index: int) -> PackedExample:
        """Returns the index-th of the language's examples that fit."""
        record = self._omitted[language].record(index)
        source, target = self._lengths[language][record].tolist()
        return PackedExample(draw, self._ids[language], record, source + 1, target + 1)

    def corpora(
        self, languages: Int[np.ndarray, "n"], indices: Int[np.ndarray, "n"]
    ) -> Int[np.ndarray, "n"]:
        """Returns the corpus id of each example, given as for `example`."""
        pairs = zip(languages.tolist(), indices.tolist(), strict=True)
        found = [self._corpus(self._ids[i], self._omitted[i].record(index)) for i, index in pairs]
        return np.array(found, np.int64)

    def preceding(self, language: int, index: int, max_lines: int) -> list[PackedExample]:
        """Returns at most `max_lines` lines before an example in its document, the last one last.

        They may be too long for a row.
        """
        if language not in self._follows:
            self._follows[language] = self.cache.follows(list(self.counts)[language], self.name)
        follows = self._follows[language]
        last = first = self.example(0, language, index).record
        while follows is not None and last - first < max_lines and follows[first]:
            first -= 1
        sizes = self._lengths[language][first:last].tolist()
        return [
            PackedExample(0, self._ids[language], record, source + 1, target + 1)
            for record, (source, target) in enumerate(sizes, first)
        ]

    def records(self, language: int, indices: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        """Returns the record numbers of the language's examples that fit."""
        return self._omitted[language].records(indices)

    def lengths(self, language: int, records: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n 2"]:
        """Returns the tokens of source and target of these records, with EOS."""
        return np.asarray(self._lengths[language][records], np.int64) + 1

    def raw(self, language_id: int, record: int) -> bytes:
        """Returns a record as stored."""
        return self._readers[language_id].raw(record)

    def batch(self, rows: Sequence[Row]) -> Batch:
        """Reads the examples of rows and returns their arrays."""
        raw = [e.changed or self.raw(e.language, e.record) for row in rows for e in row]
        source, target = self.shape
        manifest = self.cache.manifest
        batch = assemble(
            rows, records.decode(raw), source=source, target=target,
            pad=manifest.pad, eos=manifest.eos, start=manifest.start,
            alignment=self._aligned(rows) if self.alignment else None,
        )  # fmt: skip
        if self.with_corpora:
            segments = batch["decoder_segment_ids"]
            batch["decoder_corpus_ids"] = spread_to_tokens(self._corpora(rows), rows, segments)
        return batch

    def _corpora(self, rows: Sequence[Row]) -> Int32[np.ndarray, "examples"]:
        """Returns the corpus id of each example."""
        return np.array([self._corpus(e.language, e.record) for row in rows for e in row], np.int32)

    def _corpus(self, language_id: int, record: int) -> int:
        if language_id not in self._corpus_runs:
            manifest = self.cache.manifest
            runs = manifest.corpus_runs(manifest.languages[language_id])
            ends = list(itertools.accumulate(count for _, count in runs))
            self._corpus_runs[language_id] = ends, [corpus_id for corpus_id, _ in runs]
        ends, ids = self._corpus_runs[language_id]
        return ids[bisect.bisect_right(ends, record)]

    def _aligned(self, rows: Sequence[Row]) -> Int32[np.ndarray, "T"]:
        """Returns the index of the source token of all target tokens without EOS, or -1."""
        per_example = [
            np.full(example.target - 1, alignments.NONE, np.int32)
            if example.changed
            else self._alignments[example.language][example.record]
            for row in rows
            for example in row
        ]
        return np.concatenate([np.zeros(0, np.int32), *per_example])

    def _warn(self, split: str, left_out: Mapping[str, int]) -> None:
        if not left_out:
            return
        worst = sorted(left_out, key=left_out.__getitem__, reverse=True)
        emptied = [code for code in worst if code not in self.counts]
        warnings.warn(
            f"{sum(left_out.values()):,} {split} examples do not fit in inputs {self.shape[0]}, "
            f"targets {self.shape[1]} and are omitted; most of them: "
            + ", ".join(f"{code} {left_out[code]:,}" for code in worst[:5])
            + (f"; no example remains of {', '.join(emptied)}" if emptied else ""),
            stacklevel=4,
        )
