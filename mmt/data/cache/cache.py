"""A cache: one corpus as token ids, in a directory that training and translating can live from.

It holds a manifest (manifest.py), the vocabulary files, and per split and language the records of
`records.py`. Any iterator of token lists can be cached, and of functions that make some, which
several processes do: nothing here knows corpora or SeqIO.
"""

import contextlib
import functools
import itertools
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Int32

from mmt import suggest
from mmt.data import mixing
from mmt.data.cache import records
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.data.vocabulary import PAD, Vocabulary, sentinel
from mmt.run import Run
from mmt.system.atomic import disk_errors, replacing
from mmt.system.processes import streaming
from mmt.system.progress import COUNT, ELAPSED, progress_bar

Tokens = Sequence[Any]  # (inputs, targets) or (inputs, targets, name of the corpus)
Piece = Callable[[], Iterable[Tokens]]  # makes some hundred examples; can be pickled
Examples = Callable[[], Iterable[Tokens | Piece]]

_TOGETHER = 256  # examples that are encoded at once


@dataclass(frozen=True)
class Cache:
    """An open cache, from `open_cache`."""

    directory: Path
    manifest: Manifest
    has_text: ClassVar[bool] = True

    def records(self, language: str, split: str) -> records.RecordReader:
        """Random access: `len`, and [i] -> {'inputs': int32 [S], 'targets': int32 [T]}, no EOS."""
        return records.RecordReader(self.directory / split, language, self._count(language, split))

    def lengths(self, language: str, split: str) -> Int32[np.ndarray, "n 2"]:
        """Tokens of source and target per example, without EOS; read from disk as needed.
        ValueError where the file is damaged.
        """
        count = self._count(language, split)
        if not count:
            return np.zeros((0, 2), np.int32)
        file = self.directory / split / f"{language}.lengths.npy"
        try:
            found = np.load(file, mmap_mode="r")
        except (ValueError, EOFError) as error:
            raise ValueError(f"{file} is damaged ({error}): build the cache again") from error
        if found.shape != (count, 2):
            raise ValueError(
                f"{file} is damaged: its shape is {found.shape}, by its manifest it is "
                f"{(count, 2)}: build the cache again"
            )
        return found

    def sentinels(self) -> tuple[int, ...]:
        """The ids that stand for gaps in monolingual text. ValueError where it cannot be used: the
        sides have not one vocabulary, or it has no sentinels.
        """
        files = set(self.vocabulary_files().values())
        what = f"monolingual text of the cache {self.directory} cannot be used"
        if len(files) > 1:
            raise ValueError(
                f"{what}: source and target have vocabularies of their own; make one for both "
                "(TARGET_VOCAB_SIZE = 0), or leave it out (mixing.Mixing.monolingual = 0)"
            )
        found = Vocabulary.load(files.pop()).sentinels
        if not found:
            raise ValueError(
                f"{what}: its vocabulary has no sentinels ({sentinel(0)}, …), as one has that is "
                "made for a corpus with [monolingual] text; with VOCABULARY_FROM take one of such "
                "a run, or leave the text out (mixing.Mixing.monolingual = 0)"
            )
        return found

    def vocabulary_files(self) -> dict[str, Path]:
        """The SentencePiece models of 'source' and 'target'; one file where they share it."""
        return {side: self.directory / name for side, name in self.manifest.model_files.items()}

    def _count(self, language: str, split: str) -> int:
        for name, known in (
            (split, list(self.manifest.counts)),
            (language, list(self.manifest.languages)),
        ):
            if name not in known:
                near = suggest.hint(name, known, 3, cutoff=0.0)
                raise ValueError(f"{self.directory} has no {name!r}{near}")
        return self.manifest.counts[split].get(language, 0)


def build(
    directory: Path,
    examples: Mapping[tuple[str, str], Examples],
    *,
    name: str,
    target: str,
    corpus_hash: str,
    vocabularies: Mapping[str, Path],
    pad: int = PAD,
    start: int = PAD,
    processes: int = 1,
    source: str = "",
) -> Manifest:
    """Writes a cache of `examples`: (split, language) -> function that yields (inputs, targets), or
    (inputs, targets, name of the corpus), or functions that make a list of these, which the
    `processes` do. The files are the same whatever their number.

    Examples are streamed, so that memory stays flat, to a directory beside, which becomes
    `directory` at the very end: what has the name is complete. A cache that was there before is
    replaced; one that another process has put there meanwhile, and that is the same, stays.
    ValueError: something else is there, ids do not fit the vocabularies. OSError with the path: the
    disk is full or read-only, or a process was killed; then nothing half-made is left.
    """
    languages = tuple(sorted({language for _, language in examples}))
    if not languages:
        raise ValueError(f"nothing to cache at {directory}: there are no languages")
    if not _replaceable(directory):
        raise ValueError(f"{directory} exists and is not a cache; it is left as it is")
    models = {side: Vocabulary.load(path) for side, path in vocabularies.items()}
    manifest = Manifest(
        name=name,
        target=target,
        languages=languages,
        counts={split: {} for split, _ in examples},
        corpus_hash=corpus_hash,
        vocabulary_hash={side: model.hash for side, model in models.items()},
        vocabulary_size={side: model.size for side, model in models.items()},
        pad=pad,
        eos=_common_eos(models),
        start=start,
        source=source,
    )
    there = functools.partial(_is_cache_of, directory, manifest)
    with replacing(directory, unless=there) as temporary, streaming(manifest, processes) as stream:
        for side, file_name in manifest.model_files.items():
            with disk_errors(temporary / file_name):
                shutil.copyfile(vocabularies[side], temporary / file_name)
        blocks = stream(_encoded, _pieces(examples))
        _write(_with_progress(blocks, f"caching {name}", len(examples)), temporary, manifest)
        with disk_errors(Run(temporary).manifest):
            manifest.write(temporary)
    return manifest


def open_cache(directory: Path) -> Cache:
    """The cache at `directory`. ValueError: none there, incomplete, or of another version."""
    path = Run(directory).manifest
    if not path.is_file():
        raise ValueError(f"{directory} holds no cache: {path.name} is missing")
    cache = Cache(directory, read_manifest(path))
    needed = list(cache.vocabulary_files().values())
    for split, counts in cache.manifest.counts.items():
        needed += [directory / split / f"{code}.lengths.npy" for code, n in counts.items() if n]
    for file in needed:
        if not file.is_file():
            if (config := Run(directory).config).is_file():
                raise ValueError(
                    f"{directory} is a run, not a cache: give --gin_file={config}, "
                    "or the directory of its cache"
                )
            raise ValueError(f"{file} is missing: the cache is incomplete, build it again")
    return cache


def check_fresh(cache: Cache, *, corpus_hash: str, vocabulary_hash: Mapping[str, str]) -> None:
    """ValueError if the corpus or a vocabulary is another one than when the cache was built."""
    stale = ["the corpus"] if cache.manifest.corpus_hash != corpus_hash else []
    for side, found in vocabulary_hash.items():
        if cache.manifest.vocabulary_hash.get(side) != found:
            stale.append(f"the {side} vocabulary")
    if stale:
        raise ValueError(
            f"the cache {cache.directory} is stale: {' and '.join(stale)} changed since it was "
            f"built; delete it (rm -r {cache.directory}) and it is built anew"
        )


def _common_eos(models: Mapping[str, Vocabulary]) -> int:
    ends = {side: model.eos for side, model in models.items()}
    if len(set(ends.values())) > 1:
        raise ValueError(f"the vocabularies end texts with different ids, {ends}; wanted: one")
    return next(iter(ends.values()))


class _Block(NamedTuple):
    """Examples as they are written, with the runs of their corpora; the first that cannot be."""

    key: tuple[str, str]
    encoded: list[bytes]
    lengths: Int32[np.ndarray, "n 2"]
    runs: list[tuple[str, int]]
    fault: tuple[int, str] | None = None


def _pieces(
    examples: Mapping[tuple[str, str], Examples],
) -> Iterator[tuple[tuple[str, str], Piece | list[Tokens]]]:
    """The work, in the order of the records; an empty piece first, also where there is no other."""
    for key, make in examples.items():
        yield key, []
        together: list[Tokens] = []
        for one in make():
            if not callable(one):
                together.append(one)
            if callable(one) or len(together) == _TOGETHER:
                yield key, together
                together = []
            if callable(one):
                yield key, one
        yield key, together


def _encoded(manifest: Manifest, item: tuple[tuple[str, str], Piece | list[Tokens]]) -> _Block:
    key, piece = item
    language = manifest.languages.index(key[1])
    encoded: list[bytes] = []
    lengths: list[tuple[int, int]] = []
    names: list[str] = []
    fault = None
    for inputs, targets, *name in piece() if callable(piece) else piece:
        if wrong := _wrong_ids((inputs, targets), manifest, mixing.is_monolingual(key[1])):
            fault = len(encoded), wrong
            break
        encoded.append(records.encode(inputs, targets, language))
        lengths.append((len(inputs), len(targets)))
        names += name
    runs = [(name, len(list(some))) for name, some in itertools.groupby(names)]
    return _Block(key, encoded, np.array(lengths, np.int32).reshape(-1, 2), runs, fault)


def _write(blocks: Iterable[_Block], directory: Path, manifest: Manifest) -> None:
    """The records of all keys, whose counts and corpora the manifest is told."""
    for (split, language), own in itertools.groupby(blocks, lambda block: block.key):
        (directory / split).mkdir(exist_ok=True)
        number = manifest.languages.index(language)
        runs: list[list[Any]] = []
        with records.RecordWriter(directory / split, language, number) as writer:
            for block in own:
                if block.fault:
                    at = f"{split}/{language}, example {writer.count + block.fault[0]}"
                    raise ValueError(f"{at}: {block.fault[1]}")
                writer.add_all(block.encoded, block.lengths)
                for corpus, count in block.runs:
                    if [corpus] != [run[0] for run in runs[-1:]]:
                        runs.append([corpus, 0])
                    runs[-1][1] += count
        manifest.counts[split][language] = writer.count
        if runs:
            manifest.corpora.setdefault(split, {})[language] = runs


def _wrong_ids(example: tuple[records.Ids, records.Ids], manifest: Manifest, text: bool) -> str:
    """What is wrong with an example, or with monolingual text; '' where nothing is."""
    for side, ids in zip(("source", "target"), example, strict=True):
        size = manifest.vocabulary_size[side]
        if text and side == "source":
            if len(ids):
                return "monolingual text has a source"
            continue
        if not len(ids):
            return f"the {side} has no tokens"
        if min(ids) < 0 or max(ids) >= size:
            return (
                f"the {side} has the ids {min(ids)} ... {max(ids)}, "
                f"the {side} vocabulary 0 ... {size - 1}"
            )
    return ""


def _replaceable(directory: Path) -> bool:
    if not directory.exists():
        return True
    is_cache = Run(directory).manifest.is_file()
    return directory.is_dir() and (is_cache or not any(directory.iterdir()))


def _is_cache_of(directory: Path, manifest: Manifest) -> bool:
    with contextlib.suppress(ValueError, OSError):
        return open_cache(directory).manifest == manifest
    return False


def _with_progress(blocks: Iterable[_Block], label: str, keys: int) -> Iterator[_Block]:
    """The blocks, with a bar on a terminal's stderr, else a line every ten seconds."""
    parts = (COUNT, "{task.fields[done]:,} examples", ELAPSED)
    with progress_bar(*parts, disable=None) as bar:
        task = bar.add_task(label, total=keys, done=0)
        done, said, seen = 0, time.monotonic(), set()
        for block in blocks:
            yield block
            done += len(block.encoded)
            seen.add(block.key)
            bar.update(task, completed=len(seen) - 1, done=done)
            if not bar.console.is_terminal and time.monotonic() - said > 10:
                said = time.monotonic()
                print(f"{label}: {'/'.join(block.key)}, {done:,} examples", file=sys.stderr)
        bar.update(task, completed=keys, done=done)
