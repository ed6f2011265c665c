"""The interface of descriptions and readers: the files of an entry (Files), and a pair (Sides).

It also chooses source and target among a file's languages, for several formats.
"""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from mmt.documents import code_of
from mmt.system import compression

T = TypeVar("T")


class Files(NamedTuple):
    """The files of an entry, and the options for reading them.

    Attributes:
      source, target: two files with equal numbers of lines, or one file (or folder) with both
        sides.
      join: both files have lines `id<TAB>text`, and lines with the same id are a pair: the format
        of multi-way corpora, whose target side is stored once for all languages.
      sample: the number of pairs drawn at random, always the same ones; a smaller sample is part of
        a larger one. 0: all pairs.
      columns: the file's names of source and target: numbers of TSV columns, keys of JSONL and
        Parquet, TMX's language codes. (): the format's default.
      languages: FLORES codes of source and target, for formats with language names.
      name: the entry's name, which every pair contains.
      empty: whether pairs with an empty side, or a NUL, are allowed; cleaning counts them.
      text: whether the text is monolingual; as a pair, it is both sides.
      back_translated: whether a model made the sources.
      markup: of catalogues, 'keep' or 'strip'.
      documents: whether the lines are in the order of documents, which empty lines separate.
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
    markup: str = "keep"
    documents: bool = False

    @property
    def paths(self) -> tuple[Path, ...]:
        """Returns the files on disk."""
        if self.source.is_dir():
            return tuple(path for path in sorted(self.source.iterdir()) if path.is_file())
        sides = (self.source, self.target) if self.target else (self.source,)
        return tuple(map(compression.file, sides))

    @property
    def reading(self) -> dict[str, object]:
        """Returns the options, besides the files, that affect reading; without defaults."""
        options: dict[str, object] = {}
        if self.join or self.sample:
            options = {"join": self.join, "sample": self.sample}
        if self.columns:
            options["columns"] = self.columns
        if self.back_translated:
            options["back_translated"] = True
        if self.documents:
            options["documents"] = True
        if self.markup != "keep":
            options["markup"] = self.markup
        sides = (self.source, self.target) if self.target else (self.source,)
        members = [path.relative_to(compression.file(path)).as_posix() for path in sides]
        return options | ({"members": members} if any(member != "." for member in members) else {})


class Sides(NamedTuple):
    """Both sides of a pair; `line` counts from 1 in the source's file, `id` is '' without ids.

    In files without lines `line` is the number of the unit (TMX's `tu`, a row of a table).
    """

    line: int
    source: str
    target: str
    id: str = ""


def one_line(text: str) -> str:
    """Replaces each run of line breaks and tabs by a space.

    >>> one_line(" Click\\n    here. ")
    'Click here.'
    """
    has_breaks = "\n" in text or "\t" in text or "\r" in text
    return _BREAKS.sub(" ", text.strip()) if has_breaks else text


def catalogue_text(text: str, files: Files) -> str:
    """Returns a catalogue's text on one line, without its tags if the entry strips markup."""
    return one_line(_TAG.sub("", text) if files.markup == "strip" else text)


def sides_of(texts: Mapping[str, T], files: Files, location: str) -> tuple[T, T]:
    """Returns the source and the target among `texts`, by the file's language codes.

    Raises:
      ValueError: one of the languages is missing; the message begins with `location`.
    """
    sides = files.columns or files.languages
    names = _names(tuple(texts), sides, bool(files.columns))
    missing = [side for side, name in zip(sides, names, strict=True) if name is None]
    if missing:
        listed = ", ".join(f"{name} ({code_of(name) or 'unknown'})" for name in texts) or "none"
        raise ValueError(
            f"{location}: no {' and no '.join(missing)}; available: {listed}. To use one of these, "
            'add columns = ["SOURCE", "TARGET"] to the entry, as the file writes them'
        )
    source, target = (texts[name] for name in names if name is not None)
    return source, target


@functools.lru_cache(maxsize=1 << 12)  # in most files every unit has the same languages
def _names(
    available: tuple[str, ...], sides: tuple[str, str], is_verbatim: bool
) -> tuple[str | None, str | None]:
    """Returns the file's names of both sides; None for a missing one.

    Of several names of a language the shortest is used, `de` before `de-AT`, then the first.
    """
    by_language: dict[str, str] = {}
    for name in sorted(available, key=len):
        by_language.setdefault(name if is_verbatim else code_of(name), name)
    return by_language.get(sides[0]), by_language.get(sides[1])


_BREAKS = re.compile(r"\s*[\n\r\t]+\s*")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
