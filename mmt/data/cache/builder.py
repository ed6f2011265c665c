"""Writes a cache from token lists of any origin.

`build` takes any iterators of token lists, or functions that return token lists, which several
processes can call.
"""

import contextlib
import functools
import itertools
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int32

from mmt.data import mixing
from mmt.data.cache import records
from mmt.data.cache.cache import open_cache
from mmt.data.cache.manifest import Manifest
from mmt.data.cache.origins import CorpusOrigin
from mmt.data.vocabulary import PAD, Vocabulary
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
            fault = len(encoded), "".join(f"{name}: " for name in origin[:1]) + message
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
            return (
                f"the {side} has no tokens; `mmt data prepare` removes pairs without visible text"
            )
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
