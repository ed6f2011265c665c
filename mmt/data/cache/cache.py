"""A cache: one corpus as token ids, in a directory with all files that training needs.

It holds a manifest (manifest.py), the vocabulary files, and the records (`records.py`) of each
split and language. `build` takes any iterators of token lists, or functions that return token
lists, which several processes can call. Nothing here depends on corpora or SeqIO.
"""

import contextlib
import functools
import itertools
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Int32, Int64

from mmt import suggest
from mmt.data import mixing
from mmt.data.cache import longest, records
from mmt.data.cache.arrays import open_array
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.data.cache.origins import CorpusOrigin
from mmt.data.vocabulary import PAD, Vocabulary, sentinel
from mmt.run import Run
from mmt.system.atomic import disk_errors, replacing
from mmt.system.processes import streaming
from mmt.system.progress import COUNT, ELAPSED, progress_bar

# (inputs, targets), then if known the corpus's name, and whether the example before is the previous
# line of the document
Tokens = Sequence[Any]
Piece = Callable[[], Iterable[Tokens]]  # makes some hundred examples; must be picklable
Examples = Callable[[], Iterable[Tokens | Piece]]

_BLOCK_EXAMPLES = 256  # number of examples that are encoded at once


@dataclass(frozen=True)
class Cache:
    """An open cache; `open_cache` returns it."""

    directory: Path
    manifest: Manifest
    has_text: ClassVar[bool] = True

    def without(self, corpora: Sequence[str]) -> "Cache":
        """Returns the cache with a manifest that omits some corpora; it describes a run, see
        `pipeline.train_batches.leave_out`. The records are those of the whole cache.
        """
        return replace(self, manifest=self.manifest.without(corpora))

    def records(self, language: str, split: str) -> records.RecordReader:
        """Returns the records of a language and split; their token ids have no EOS.

        [i] -> {'inputs': int32 [S], 'targets': int32 [T]}; `len` is their number.
        """
        return records.RecordReader(self.directory / split, language, self._count(language, split))

    def pairs(self, language: str, split: str, every: int = 1) -> Iterator[tuple[str, str]]:
        """Yields the texts of a split, or of every n-th example: the source with its tag, and the
        target.
        """
        files = self.vocabulary_files()
        source, target = Vocabulary.load(files["source"]), Vocabulary.load(files["target"])
        examples = self.records(language, split)
        for i in range(0, len(examples), every):
            inputs, targets = (examples[i][name].tolist() for name in ("inputs", "targets"))
            yield source.decode(inputs), target.decode(targets)

    def lengths(self, language: str, split: str) -> Int32[np.ndarray, "n 2"]:
        """Returns the tokens of source and target per example, without EOS; memory-mapped.

        Raises:
          ValueError: the file is damaged.
        """
        count = self._count(language, split)
        file = self.directory / split / f"{language}.lengths.npy"
        return open_array(file, (count, 2), np.int32) if count else np.zeros((0, 2), np.int32)

    def too_long(self, language: str, split: str, shape: Sequence[int]) -> Int64[np.ndarray, "m"]:
        """Returns the records, in order, that do not fit into rows of `shape` tokens with EOS.

        Of monolingual text these are the lines, not the noised examples.
        """
        file = longest.path_of(self.directory / split, language)
        return longest.too_long(file, self.lengths(language, split), shape)

    def follows(self, language: str, split: str) -> Bool[np.ndarray, "n"] | None:
        """Returns whether each example follows the one before it in a document; memory-mapped.

        None if the corpora of the language mark no documents.
        """
        file = self.directory / split / f"{language}.follows.npy"
        if not file.is_file():
            return None
        return open_array(file, (self._count(language, split),), bool)

    def sentinels(self) -> tuple[int, ...]:
        """Returns the ids of the sentinels for noise spans in monolingual text.

        Raises:
          ValueError: the sides have different vocabularies, or the vocabulary has no sentinels.
        """
        files = set(self.vocabulary_files().values())
        problem = f"monolingual text of the cache {self.directory} cannot be used"
        if len(files) > 1:
            raise ValueError(
                f"{problem}: source and target have separate vocabularies; train one for both "
                "(TARGET_VOCAB_SIZE = 0), or omit this text (mixing.Mixing.monolingual = 0)"
            )
        sentinel_ids = Vocabulary.load(files.pop()).sentinels
        if not sentinel_ids:
            raise ValueError(
                f"{problem}: its vocabulary has no sentinels ({sentinel(0)}, …); a vocabulary that "
                "is trained on a corpus with [monolingual] text has them: set VOCABULARY_FROM to "
                "such a run, or omit the text (mixing.Mixing.monolingual = 0)"
            )
        return sentinel_ids

    def vocabulary_files(self) -> dict[str, Path]:
        """Returns the SentencePiece models of 'source' and 'target'; they may share one file."""
        return {side: self.directory / name for side, name in self.manifest.model_files.items()}

    def _count(self, language: str, split: str) -> int:
        if split == "validation" and split not in self.manifest.counts:
            raise ValueError(
                f"{self.directory} has no validation pairs: add [validation] to the corpus, or "
                "turn validation off (--gin.train.train.hooks=[])"
            )
        for name, valid_names in (
            (split, list(self.manifest.counts)),
            (language, list(self.manifest.languages)),
        ):
            if name not in valid_names:
                hint = suggest.hint(name, valid_names, 3, cutoff=0.0)
                raise ValueError(f"{self.directory} has no {name!r}{hint}")
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
    origins: Sequence[CorpusOrigin] = (),
) -> Manifest:
    """Writes a cache and returns its manifest.

    Examples are streamed into a temporary directory, which is renamed to `directory` at the end, so
    a cache is complete or absent. A former cache is replaced; an equal one that another process has
    finished in between stays. The files do not depend on the number of processes.

    Args:
      directory: the cache's directory.
      examples: (split, language) -> a function that yields `Tokens`, or functions that return
        lists of these, which the processes call.
      name: name of the mixture.
      target, source: FLORES code of the one target (or source) language; else ''.
      corpus_hash: identifies the text.
      vocabularies: the SentencePiece models of 'source' and 'target'.
      pad, start: ids of padding and of a decoder's first input.
      processes: the number of processes that encode.
      origins: files and cleaning of the corpora that the examples name.

    Raises:
      ValueError: `directory` holds something else, or ids do not fit the vocabularies.
      OSError: the disk is full or read-only (with the path), or a process was killed.
    """
    languages = tuple(sorted({language for _, language in examples}))
    if not languages:
        raise ValueError(f"nothing to cache at {directory}: there are no languages")
    if not _is_replaceable(directory):
        raise ValueError(f"{directory} exists and is not a cache; it is not changed")
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
        origins=list(origins),
    )
    is_same = functools.partial(_is_cache_of, directory, manifest)
    with replacing(directory, unless=is_same) as temporary:
        _fill(temporary, examples, manifest, vocabularies, processes)
    return manifest


def _fill(
    directory: Path,
    examples: Mapping[tuple[str, str], Examples],
    manifest: Manifest,
    vocabularies: Mapping[str, Path],
    processes: int,
) -> None:
    """Writes all files of a cache; `manifest` gets the counts."""
    with streaming(manifest, processes) as stream:
        for side, file_name in manifest.model_files.items():
            with disk_errors(directory / file_name):
                shutil.copyfile(vocabularies[side], directory / file_name)
        blocks = stream(_encode_block, _work_items(examples))
        blocks = _with_progress(blocks, f"caching {manifest.name}", len(examples))
        _write_records(blocks, directory, manifest)
        with disk_errors(Run(directory).manifest):
            manifest.write(directory)


def open_cache(directory: Path) -> Cache:
    """Returns the cache at `directory`. Raises ValueError if it is absent, incomplete or outdated.
    """
    path = Run(directory).manifest
    if not path.is_file():
        raise ValueError(f"{directory} holds no cache: {path.name} is missing")
    cache = Cache(directory, read_manifest(path))
    files = list(cache.vocabulary_files().values())
    for split, counts in cache.manifest.counts.items():
        files += [directory / split / f"{code}.lengths.npy" for code, n in counts.items() if n]
    for file in files:
        if not file.is_file():
            if (config := Run(directory).config).is_file():
                raise ValueError(
                    f"{directory} is a run, not a cache: give --gin_file={config}, "
                    "or the directory of its cache"
                )
            raise ValueError(f"{file} is missing: the cache is incomplete, build it again")
    return cache


def check_fresh(cache: Cache, *, corpus_hash: str, vocabulary_hash: Mapping[str, str]) -> None:
    """Raises ValueError if the corpus or a vocabulary has changed since the cache was built."""
    stale = ["the corpus"] if cache.manifest.corpus_hash != corpus_hash else []
    for side, digest in vocabulary_hash.items():
        if cache.manifest.vocabulary_hash.get(side) != digest:
            stale.append(f"the {side} vocabulary")
    if stale:
        raise ValueError(
            f"the cache {cache.directory} is stale: {' and '.join(stale)} changed since it was "
            f"built; delete it (rm -r {cache.directory}) to build it again"
        )


def _common_eos(models: Mapping[str, Vocabulary]) -> int:
    eos_ids = {side: model.eos for side, model in models.items()}
    if len(set(eos_ids.values())) > 1:
        raise ValueError(f"the vocabularies have different EOS ids, {eos_ids}; expected: equal ids")
    return next(iter(eos_ids.values()))


class _Block(NamedTuple):
    """Encoded examples up to the first faulty one, with the runs of their corpora."""

    key: tuple[str, str]
    encoded: list[bytes]
    lengths: Int32[np.ndarray, "n 2"]
    runs: list[tuple[str, int]]
    follows: list[bool]
    fault: tuple[int, str] | None = None


def _work_items(
    examples: Mapping[tuple[str, str], Examples],
) -> Iterator[tuple[tuple[str, str], Piece | list[Tokens]]]:
    """Yields the work in the order of the records, an empty part first, for keys without examples.
    """
    for key, make in examples.items():
        yield key, []
        block: list[Tokens] = []
        for work in make():
            if not callable(work):
                block.append(work)
            if callable(work) or len(block) == _BLOCK_EXAMPLES:
                yield key, block
                block = []
            if callable(work):
                yield key, work
        yield key, block


def _encode_block(
    manifest: Manifest, keyed_work: tuple[tuple[str, str], Piece | list[Tokens]]
) -> _Block:
    key, work = keyed_work
    language = manifest.languages.index(key[1])
    encoded: list[bytes] = []
    lengths: list[tuple[int, int]] = []
    names: list[str] = []
    follows: list[bool] = []
    fault = None
    for inputs, targets, *origin in work() if callable(work) else work:
        if message := _find_fault((inputs, targets), manifest, mixing.is_monolingual(key[1])):
            fault = len(encoded), message
            break
        encoded.append(records.encode(inputs, targets, language))
        lengths.append((len(inputs), len(targets)))
        names += origin[:1]
        follows.append(bool(origin[1:] and origin[1]))
    runs = [(name, len(list(group))) for name, group in itertools.groupby(names)]
    return _Block(key, encoded, np.array(lengths, np.int32).reshape(-1, 2), runs, follows, fault)


def _write_records(blocks: Iterable[_Block], directory: Path, manifest: Manifest) -> None:
    """Writes the records of all keys; adds their counts and corpora to the manifest."""
    for (split, language), language_blocks in itertools.groupby(blocks, lambda block: block.key):
        (directory / split).mkdir(exist_ok=True)
        language_id = manifest.languages.index(language)
        runs: list[list[Any]] = []
        follows: list[np.ndarray] = []
        with records.RecordWriter(directory / split, language, language_id) as writer:
            for block in language_blocks:
                if block.fault:
                    location = f"{split}/{language}, example {writer.count + block.fault[0]}"
                    raise ValueError(f"{location}: {block.fault[1]}")
                writer.add_all(block.encoded, block.lengths)
                follows.append(np.array(block.follows, bool))
                for corpus, count in block.runs:
                    if [corpus] != [run[0] for run in runs[-1:]]:
                        runs.append([corpus, 0])
                    runs[-1][1] += count
        manifest.counts[split][language] = writer.count
        if any(block_follows.any() for block_follows in follows):
            file = directory / split / f"{language}.follows.npy"
            with disk_errors(file):
                np.save(file, np.concatenate(follows))
        if runs:
            manifest.corpora.setdefault(split, {})[language] = runs


def _find_fault(example: tuple[records.Ids, records.Ids], manifest: Manifest, text: bool) -> str:
    """Returns the fault of an example, or of monolingual text; '' without fault."""
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


def _is_replaceable(directory: Path) -> bool:
    """Returns whether it is absent, empty or a cache; read again if another process replaced it."""
    try:
        status, names = directory.stat(), os.listdir(directory)
        is_free = not names or Run(directory).manifest.name in names
        if is_free or os.path.samestat(status, directory.stat()):
            return is_free
    except (FileNotFoundError, NotADirectoryError):
        return not directory.is_file()
    return _is_replaceable(directory)


def _is_cache_of(directory: Path, manifest: Manifest) -> bool:
    with contextlib.suppress(ValueError, OSError):
        return open_cache(directory).manifest == manifest
    return False


def _with_progress(blocks: Iterable[_Block], label: str, keys: int) -> Iterator[_Block]:
    """Yields the blocks, with a progress bar on a terminal, else a line every ten seconds."""
    columns = (COUNT, "{task.fields[done]:,} examples", ELAPSED)
    with progress_bar(*columns, disable=None) as bar:
        task = bar.add_task(label, total=keys, done=0)
        examples_done, reported_at, keys_seen = 0, time.monotonic(), set()
        for block in blocks:
            yield block
            examples_done += len(block.encoded)
            keys_seen.add(block.key)
            bar.update(task, completed=len(keys_seen) - 1, done=examples_done)
            if not bar.console.is_terminal and time.monotonic() - reported_at > 10:
                reported_at = time.monotonic()
                print(
                    f"{label}: {'/'.join(block.key)}, {examples_done:,} examples", file=sys.stderr
                )
        bar.update(task, completed=keys, done=examples_done)
