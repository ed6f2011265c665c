"""How pairs of sentences are read from files: two columns, line by line, or joined by an id.

Which files make up a corpus is for corpora.py, what a line is for lines.py.
"""

import functools
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mmt.data import lines


class Files(NamedTuple):
    """Where pairs are, and how they are read.

    source, target: two files of equally many lines, or one of `source<TAB>target`.
    join: both files have lines `id<TAB>text`, and a pair is what has the same id: the way of
        multi-way corpora, whose target side lies there once for all languages.
    sample: only so many of the pairs, drawn at random: the same ones every time, and those of a
        smaller sample are among those of a larger one. 0: all of them.
    """

    source: Path
    target: Path | None = None
    join: bool = False
    sample: int = 0

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files themselves."""
        return (self.source, self.target) if self.target else (self.source,)


class Sides(NamedTuple):
    """Both sides of a pair; `line` counts from 1 in the source's file, `id` is '' without ids."""

    line: int
    source: str
    target: str
    id: str = ""


def read(files: Files) -> Iterator[Sides]:
    """Streams the pairs in the order of the source's lines.

    Raises ValueError, with file and line, for files that do not fit together, an empty side, an id
    that is there twice or has no translation, fewer pairs than `sample`, and no lines at all.
    """
    chosen = _chosen(files)
    sides = Sides(0, "", "")
    for sides in _all(files):
        for side, path in (("source", files.source), ("target", files.target or files.source)):
            if not getattr(sides, side).strip():
                at = f"{path}: {sides.id}" if files.join else f"{path}:{sides.line}"
                raise ValueError(f"{at}: the {side} side is empty")
        if chosen is None or sides.line in chosen:
            yield sides
    if not sides.line:
        raise ValueError(f"{files.source}: no lines")


def count(files: Files) -> int:
    """How many pairs `read` yields, found by counting line feeds."""
    number = lines.count(files.source)
    if not number:
        raise ValueError(f"{files.source}: no lines")
    if files.sample > number:
        raise ValueError(f"{files.source}: a sample of {files.sample} of {number} lines")
    return files.sample or number


def _chosen(files: Files) -> set[int] | None:
    """The numbers of the lines in the sample: the first of a shuffle of all."""
    if not files.sample:
        return None
    count(files)
    shuffled = np.random.default_rng(0).permutation(lines.count(files.source))
    return set((shuffled[: files.sample] + 1).tolist())


def _all(files: Files) -> Iterator[Sides]:
    if files.target is None:
        return _columns(files.source)
    if files.join:
        return _joined(files.source, files.target)
    return _parallel(files.source, files.target)


def _columns(path: Path) -> Iterator[Sides]:
    for number, line in enumerate(lines.read(path), 1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise ValueError(
                f"{path}:{number}: {len(columns)} columns; a line is source<TAB>target"
            )
        yield Sides(number, columns[0], columns[1])


def _parallel(source: Path, target: Path) -> Iterator[Sides]:
    both = zip_longest(lines.read(source), lines.read(target))
    for number, (one, other) in enumerate(both, 1):
        if one is None or other is None:
            raise ValueError(
                f"{source} has {lines.count(source)} lines, but {target} has "
                f"{lines.count(target)}: line n of one must be the translation of line n of "
                "the other"
            )
        yield Sides(number, one, other)


def _joined(source: Path, target: Path) -> Iterator[Sides]:
    translations = _by_id(target, target.stat().st_mtime_ns)
    seen: set[str] = set()
    for number, name, text in _identified(source):
        if name in seen:
            raise ValueError(f"{source}:{number}: the id {name!r} is there twice")
        if name not in translations:
            raise ValueError(f"{source}:{number}: {target} has no line of id {name!r}")
        seen.add(name)
        yield Sides(number, text, translations[name], name)


@functools.lru_cache(maxsize=4)  # the languages of a multi-way corpus share their target's file
def _by_id(path: Path, changed: int) -> dict[str, str]:
    """id -> text; held in memory. `changed`: when the file was, so that a new one is read anew."""
    found: dict[str, str] = {}
    for number, name, text in _identified(path):
        if name in found:
            raise ValueError(f"{path}:{number}: the id {name!r} is there twice")
        found[name] = text
    return found


def _identified(path: Path) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(lines.read(path), 1):
        columns = line.split("\t")
        if len(columns) != 2 or not columns[0]:
            raise ValueError(f"{path}:{number}: {len(columns)} columns; a line is id<TAB>text")
        yield number, columns[0], columns[1]
