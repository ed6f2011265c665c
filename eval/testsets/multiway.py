"""Files of a multi-way parallel test set -> sentences by language, with complete checks.

A file is read unchanged or rejected with its line; nothing is repaired. layouts.py lists the
layouts.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mmt import languages, suggest
from mmt.data.readers import records as readers_records
from mmt.system import json_objects, text_lines


class Sentences(NamedTuple):
    """Source sentences and their translations, line by line.

    documents: the document of each sentence, as the set names it; () if unknown.
    """

    sources: tuple[str, ...]
    references: tuple[str, ...]
    documents: tuple[str, ...] = ()

    @property
    def follows(self) -> tuple[bool, ...]:
        """Returns whether each sentence has the document of the sentence before it.

        >>> Sentences(("a", "b", "c"), ("A", "B", "C"), ("talk", "talk", "news")).follows
        (False, True, False)
        """
        names = self.documents or ("",) * len(self.sources)
        return tuple(name == before != "" for before, name in itertools.pairwise(("", *names)))


def to_target(
    texts: Mapping[str, tuple[Path, Mapping[Any, str]]],
    target: str,
    documents: tuple[Path, Mapping[Any, str]],
) -> dict[str, Sentences]:
    """Returns sentences of every language with references in `target`.

    texts: FLORES code -> a file and its lines by key (line number or id). documents: a file and its
    documents by key, or {} if unknown. Raises ValueError without a text of the target, with the
    nearest name. Raises it also, with both files, for files with different keys.
    """
    folder = documents[0].parent
    if target not in texts:
        hint = suggest.hint(target, texts, 3, cutoff=0.0)
        raise ValueError(f"{folder}: no {target} to translate into{hint}")
    path, references = texts[target]
    for name, lines in (*texts.values(), *([documents] if documents[1] else [])):
        if len(lines) != len(references):
            raise ValueError(
                f"{name} has {len(lines)} lines, {path} has {len(references)}: "
                "they must be parallel"
            )
        if odd := lines.keys() - references.keys():
            raise ValueError(f"{name}: no {min(map(str, odd))} in {path}: they must be parallel")
    order = list(references)
    ids = tuple(documents[1][key] for key in order if documents[1])
    return {
        code: Sentences(tuple(lines[key] for key in order), tuple(references.values()), ids)
        for code, (_, lines) in sorted(texts.items())
        if code != target
    }


def texts(paths: Mapping[str, Path]) -> dict[str, tuple[Path, dict[int, str]]]:
    """Returns the file and the lines of every language, for `to_target`."""
    return {code: (path, numbered(path)) for code, path in paths.items()}


def by_language(names: Mapping[Path, str], *, varieties: bool = False) -> dict[str, Path]:
    """Returns the file of each language, by its name in `names`.

    varieties: whether a language may have several files; the shortest name, then the first, counts.
    Raises ValueError for an unknown name, and for two files of a language.
    """
    paths: dict[str, Path] = {}
    for path, name in sorted(names.items(), key=lambda item: (len(item[0].name), item[0])):
        code = code_of(name, path)
        if code not in paths:
            paths[code] = path
        elif not varieties or _base(name) != _base(names[paths[code]]):
            raise ValueError(f"{paths[code]} and {path} are both {code}; remove one")
    return paths


def check_unique(names: Mapping[Path, str]) -> Mapping[Path, str]:
    """Returns the file of each name. Raises ValueError for two files of one name."""
    paths: dict[str, Path] = {}
    for path, name in names.items():
        if paths.setdefault(name, path) is not path:
            raise ValueError(f"{paths[name]} and {path} are both {name}; remove one")
    return names


def _base(name: str) -> str:
    return re.split("[-_]", name)[0]


def code_of(name: str, location: object) -> str:
    """Returns the FLORES code of a language given by any name.

    Raises ValueError, which begins with `location`, if the name is unknown.
    """
    try:
        return languages.find(name).code
    except ValueError as error:
        raise ValueError(f"{location}: {error}") from None


def numbered(path: Path) -> dict[int, str]:
    """Returns the lines of a file by number, from 1. Raises ValueError for an empty line or file.
    """
    lines = dict(enumerate(text_lines.read(path), 1))
    if not lines:
        raise ValueError(f"{path}: empty file")
    for number, line in lines.items():
        if not line.strip():
            raise ValueError(f"{path}:{number}: empty line")
    return lines


def pairs(path: Path) -> Sentences:
    """Reads lines `source<TAB>reference`, or `source<TAB>reference<TAB>document` in all lines.

    Raises ValueError, with the line, for any other line.
    """
    rows = [line.split("\t") for line in numbered(path).values()]
    for number, row in enumerate(rows, 1):
        if len(row) not in (2, 3):
            raise ValueError(
                f"{path}:{number}: {len(row)} columns; a line is source<TAB>reference, or "
                "source<TAB>reference<TAB>document"
            )
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{path}:{number}: {len(row)} columns, line 1 has {len(rows[0])}; all lines have a "
                "document, or none"
            )
        for column, kind in zip(row, ("side", "side", "document"), strict=False):
            if not column.strip():
                raise ValueError(f"{path}:{number}: an empty {kind}")
    return Sentences(*zip(*rows, strict=True))


def columns(path: Path, *names: str) -> list[tuple[str, ...]]:
    """Returns the named columns of a TSV with a header, as rows.

    Quotation marks are plain text: TICO-19 has lines with unbalanced ones, which a CSV reader would
    change or join. Raises ValueError for a missing column, and for a row with another number of
    columns.
    """
    header, *rows = [line.split("\t") for line in numbered(path).values()]
    for name in names:
        if name not in header:
            raise ValueError(f"{path}:1: no column {name!r}; it has: {', '.join(header)}")
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise ValueError(f"{path}:{number}: {len(row)} columns, the header has {len(header)}")
    return [tuple(row[header.index(name)] for name in names) for row in rows]


def records(
    path: Path, *, key: str = "id", text: str = "text", document: str = "url"
) -> dict[Any, dict[str, Any]]:
    """Returns the rows of a JSON Lines or Parquet file by `key`.

    Raises ValueError, with the row, for a missing key or text, a duplicate key, or a document or
    `domain` that is neither a number nor text on one line. Raises it also for a broken file.

    Args:
      path: the file.
      key, text, document: the names of these columns.
    """
    by_id: dict[Any, dict[str, Any]] = {}
    for location, row in _parquet(path) if path.suffix == ".parquet" else _jsonl(path):
        for name in (document, "domain"):
            field = row.get(name) or ""
            if not isinstance(field, str | int) or not text_lines.one_line(str(field)):
                raise ValueError(f"{location}: {name} is {field!r}; expected text on one line")
        if not isinstance(row.get(key), int | str):
            raise ValueError(f"{location}: the row has no {key} (a number or text)")
        if not isinstance(row.get(text), str) or not row[text].strip():
            raise ValueError(f"{location}: {text} is {row.get(text)!r}; expected a sentence")
        if row[key] in by_id:
            raise ValueError(f"{location}: {key} {row[key]!r} is duplicated")
        by_id[row[key]] = row
    return by_id


def _jsonl(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in numbered(path).items():
        try:
            yield f"{path}:{number}", json_objects.parse(line)
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from None


def _parquet(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, row in enumerate(readers_records.table(path), 1):
        yield f"{path}: row {number}", row
