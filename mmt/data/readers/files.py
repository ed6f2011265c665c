"""What lies between a description and the readers: where pairs are (Files), and a pair (Sides).

And what readers of several formats share: which of a file's languages is which side.
"""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from mmt import languages
from mmt.system import compression

T = TypeVar("T")


class Files(NamedTuple):
    """Where the pairs of an entry are, and how they are read.

    source, target: two files of equally many lines, or one file (or folder) with both sides.
    join: both files have lines `id<TAB>text`, and a pair is what has the same id: the way of
        multi-way corpora, whose target side lies there once for all languages.
    sample: only so many of the pairs, drawn at random: the same ones every time, and those of a
        smaller sample are among those of a larger one. 0: all of them.
    columns: what the file itself calls source and target, where it must be told: numbers of TSV's
        columns, keys of JSONL and Parquet, TMX's language codes. (): as the format has it.
    languages: FLORES codes of source and target, for formats that say what their sides are.
    name: of the entry, which every pair carries.
    text: what is there is monolingual; as a pair, it is both sides.
    back_translated: a model made the sources of the targets.
    empty: a pair with an empty side, or a NUL, is no fault: whoever cleans wants to count it.
    """

    source: Path
    target: Path | None = None
    join: bool = False
    sample: int = 0
    columns: tuple[str, str] | tuple[()] = ()
    languages: tuple[str, str] = ("", "")
    name: str = ""
    empty: bool = False
    text: bool = False
    back_translated: bool = False

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files on disk."""
        if self.source.is_dir():
            return tuple(path for path in sorted(self.source.iterdir()) if path.is_file())
        sides = (self.source, self.target) if self.target else (self.source,)
        return tuple(map(compression.file, sides))

    @property
    def reading(self) -> dict[str, object]:
        """What beside the files decides what is read; empty where it is the usual."""
        options: dict[str, object] = {}
        if self.join or self.sample:
            options = {"join": self.join, "sample": self.sample}
        if self.columns:
            options["columns"] = self.columns
        if self.back_translated:
            options["back_translated"] = True
        sides = (self.source, self.target) if self.target else (self.source,)
        members = [path.relative_to(compression.file(path)).as_posix() for path in sides]
        return options | ({"members": members} if any(member != "." for member in members) else {})


class Sides(NamedTuple):
    """Both sides of a pair; `line` counts from 1 in the source's file, `id` is '' without ids.

    In files without lines `line` is the number of the unit (TMX's `tu`, a row of a table), as it
    stands in the file.
    """

    line: int
    source: str
    target: str
    id: str = ""


def one_line(text: str) -> str:
    """Text of a format whose sides may hold line breaks and tabs: each run of them is a space.

    >>> one_line(" Click\\n    here. ")
    'Click here.'
    """
    broken = "\n" in text or "\t" in text or "\r" in text
    return _BREAKS.sub(" ", text.strip()) if broken else text


@functools.lru_cache(maxsize=1 << 12)
def code_of(name: str) -> str:
    """The FLORES code of a language as a file calls it; '' for one that is not known."""
    try:
        return languages.find(name).code
    except ValueError:
        return ""


def sides_of(texts: Mapping[str, T], files: Files, at: str) -> tuple[T, T]:
    """What of `there` (the file's language codes -> texts) is the source and what the target.

    ValueError, beginning with `at`, where one of the languages is missing.
    """
    sides = files.columns or files.languages
    names = _names(tuple(texts), sides, bool(files.columns))
    missing = [side for side, name in zip(sides, names, strict=True) if name is None]
    if missing:
        listed = ", ".join(f"{name} ({code_of(name) or 'unknown'})" for name in texts) or "none"
        raise ValueError(
            f"{at}: no {' and no '.join(missing)}; there: {listed}. If one of these is meant, the "
            'entry says so: columns = ["SOURCE", "TARGET"], as the file writes them'
        )
    source, target = (texts[name] for name in names if name is not None)
    return source, target


@functools.lru_cache(maxsize=1 << 12)  # of most files every unit has the same languages
def _names(
    present: tuple[str, ...], sides: tuple[str, str], written: bool
) -> tuple[str | None, str | None]:
    """What the wanted languages are called; None for one not there. Of two names of a language it
    is the shorter, `de` before `de-AT`, of two as short the first.
    """
    called: dict[str, str] = {}
    for name in sorted(present, key=len):
        called.setdefault(name if written else code_of(name), name)
    return called.get(sides[0]), called.get(sides[1])


_BREAKS = re.compile(r"\s*[\n\r\t]+\s*")
