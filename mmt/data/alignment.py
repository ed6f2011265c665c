"""Aligns the words of a cache's training examples, for guided cross-attention.

The aligner is fast_align (Dyer et al. 2013), in the package systran-align. It sees token ids, so no
text is needed. Every language has a separate model: a model of several languages aligns worse,
even where a language has only 1,000 pairs.
"""

import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from mmt.data.cache import Cache, alignments, records
from mmt.data.mixing import is_monolingual
from mmt.data.vocabulary import Vocabulary
from mmt.system import atomic, processes

_CHUNK = 10_000  # records that are read at a time
_LARGEST = np.iinfo(np.uint16).max


@dataclasses.dataclass(frozen=True)
class Aligner:
    """Options of fast_align; `iterations` of expectation maximisation.

    favor_diagonal: whether words at similar positions are more likely to be aligned; how much is
        fitted to each language.
    processes: number of languages that are aligned at the same time; 0: one per core.
    """

    iterations: int = 5
    favor_diagonal: bool = True
    processes: int = 0

    def __call__(self, cache: Cache) -> list[str]:
        """Writes the missing alignments of a cache. Returns the codes of the languages it aligned.

        Languages with alignments are skipped, so the same call resumes after an interruption.

        Raises:
          ValueError: the package systran-align is missing, or the cache has alignments that were
            made with other options.
        """
        try:
            import systran_align  # noqa: F401
        except ImportError as error:
            raise ValueError(
                f"aligning words needs the extra [align] (pip install 'mmt[align]'): {error}"
            ) from error
        counts = cache.manifest.counts.get(alignments.SPLIT, {})
        missing = [
            code
            for code, count in sorted(counts.items(), key=lambda item: -item[1])
            if count and not is_monolingual(code) and not alignments.path_of(cache, code).is_file()
        ]
        self._check_options(cache)
        total = sum(counts[code] for code in missing)
        count = min(self.processes or len(os.sched_getaffinity(0)), len(missing))
        with processes.workers((self, cache), count) as run:
            run(f"aligning {cache.manifest.name}", _align, missing, total)
        return missing

    def _check_options(self, cache: Cache) -> None:
        """Compares the options with those of the cache's alignments; writes them if it has none.

        Alignments of earlier versions have no options.
        """
        folder = cache.directory / alignments.SPLIT
        file, options = folder / "alignment.json", dataclasses.asdict(self)
        del options["processes"]
        if not any(folder.glob("*.alignment-*.npy")):
            atomic.write_json(file, options)
        saved = atomic.read_json(file) if file.is_file() else options
        for name, value in options.items():
            if saved.get(name) != value:
                raise ValueError(
                    f"{cache.directory} has alignments by Aligner.{name} = {saved.get(name)}, this "
                    f"call has {value}: use the same value, or remove {folder}/*.alignment-*.npy"
                )


class _Pair(NamedTuple):
    """An example without the tags before its source: token ids as text, as fast_align takes them.

    source_start, target_start: index of the first token of both sides among the chunk's.
    """

    source: list[str]
    target: list[str]
    source_start: int
    target_start: int


def _align(shared: tuple[Aligner, Cache], language: str, advance: Callable[[int], None]) -> None:
    """Aligns a language and writes its file."""
    options, cache = shared
    with tempfile.TemporaryDirectory(prefix="mmt-align-") as folder:
        aligner = _fit_aligner(options, cache, language, Path(folder))
        links, decoded = [], []
        source_start = target_start = 0
        for chunk, pairs in _pairs(cache, language):
            results = aligner.align_batch([p.source for p in pairs], [p.target for p in pairs])
            links += [
                np.array(result["alignments"], np.int64).reshape(-1, 2)
                + (source_start + pair.source_start, target_start + pair.target_start)
                for pair, result in zip(pairs, results, strict=True)
            ]
            decoded.append(chunk)
            source_start += len(chunk.inputs)
            target_start += len(chunk.targets)
    inputs, lengths, targets = (
        np.concatenate([getattr(chunk, name) for chunk in decoded])
        for name in ("inputs", "input_lengths", "targets")
    )
    best = best_links(np.concatenate([*links, np.zeros((0, 2), np.int64)]), inputs, targets)
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    position = np.arange(len(inputs)) - starts + 1
    aligned = np.where(best < 0, 0, position[best])
    aligned = np.where(aligned > _LARGEST, 0, aligned).astype(np.uint16)
    alignments.write(alignments.path_of(cache, language), aligned)
    advance(len(lengths))


def _fit_aligner(options: Aligner, cache: Cache, language: str, folder: Path) -> Any:
    """Returns fast_align's models of both directions, fitted to the language's examples."""
    import systran_align

    text, forward, backward = (str(folder / name) for name in ("pairs", "forward", "backward"))
    with open(text, "w", encoding="ascii") as file:
        for _, pairs in _pairs(cache, language):
            file.writelines(f"{' '.join(p.source)} ||| {' '.join(p.target)}\n" for p in pairs)
    systran_align.generate_alignment_probabilities(
        text, forward, backward, iterations=options.iterations,
        favor_diagonal=options.favor_diagonal, optimize_tension=options.favor_diagonal,
    )  # fmt: skip
    return systran_align.Aligner(forward, backward)


def _pairs(cache: Cache, language: str) -> Iterator[tuple[records.Decoded, list[_Pair]]]:
    """Yields the examples in chunks. Pairs without words are omitted from the lists of pairs."""
    reader = cache.records(language, alignments.SPLIT)
    vocabulary = Vocabulary.load(cache.vocabulary_files()["source"])
    tags = {str(vocabulary.id(tag)) for tag in vocabulary.tags}
    for first in range(0, len(reader), _CHUNK):
        last = min(first + _CHUNK, len(reader))
        chunk = records.decode([reader.raw(index) for index in range(first, last)])
        inputs, targets = (list(map(str, ids.tolist())) for ids in (chunk.inputs, chunk.targets))
        pairs = []
        source_end = target_end = 0
        for source, target in zip(chunk.input_lengths, chunk.target_lengths, strict=True):
            start, source_end = source_end, source_end + int(source)
            target_start, target_end = target_end, target_end + int(target)
            while start < source_end and inputs[start] in tags:
                start += 1
            if start < source_end and target_start < target_end:
                words = inputs[start:source_end], targets[target_start:target_end]
                pairs.append(_Pair(*words, start, target_start))
        yield chunk, pairs


def best_links(
    links: Int[np.ndarray, "n 2"], inputs: Int[np.ndarray, "S"], targets: Int[np.ndarray, "T"]
) -> Int[np.ndarray, "T"]:
    """Returns per target token the index of one linked source token, or -1.

    The aligner links a target token to several pieces of a source word. Of these the one is chosen
    that is linked to this target piece most often: count(s, t) / count(s), the first of equal ones.

    Args:
      links: (source, target) indices into `inputs` and `targets`, the tokens of all examples.
    """
    source, target = inputs[links[:, 0]].astype(np.int64), targets[links[:, 1]]
    _, pair, pair_counts = np.unique(
        source * (int(targets.max(initial=0)) + 1) + target, return_inverse=True, return_counts=True
    )
    score = pair_counts[pair] / np.bincount(source, minlength=1)[source]
    order = np.lexsort((links[:, 0], -score, links[:, 1]))
    linked, first_links = np.unique(links[order, 1], return_index=True)
    best = np.full(len(targets), -1, np.int64)
    best[linked] = links[order[first_links], 0]
    return best
