"""Files of a test set in many languages -> sentences by language, each file checked whole.

Which language a file is, what its lines, columns and rows are, and that all files are parallel. A
file is taken as it is or refused with its line, nothing is repaired. layouts.py lists the
layouts.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mmt import languages, suggest
from mmt.data.readers import records as readers_records
from mmt.system import json_objects, text_lines


class Sentences(NamedTuple):
    """Source sentences and their translations, line by line.

    documents: which document each sentence is from, as the set names it; () where that is unknown.
    """

    sources: tuple[str, ...]
    references: tuple[str, ...]
    documents: tuple[str, ...] = ()


def to_target(
    texts: Mapping[str, tuple[Path, Mapping[Any, str]]],
    target: str,
    documents: tuple[Path, Mapping[Any, str]],
) -> dict[str, Sentences]:
    """Sentences of every language to `target`.

    texts: FLORES code -> a file and its lines by key (a line's number, an id). documents: a file
    and the documents by key, or {} where they are unknown.

    Raises ValueError without a text of the target (with the nearest), and naming both files for two
    that have not the same keys.
    """
    folder = documents[0].parent
    if target not in texts:
        near = suggest.hint(target, texts, 3, cutoff=0.0)
        raise ValueError(f"{folder}: no {target} to translate into{near}")
    path, references = texts[target]
    for other, lines in (*texts.values(), *([documents] if documents[1] else [])):
        if len(lines) != len(references):
            raise ValueError(
                f"{other} has {len(lines)} lines, {path} has {len(references)}: "
                "they must be parallel"
            )
        if odd := lines.keys() - references.keys():
            raise ValueError(f"{other}: no {min(map(str, odd))} in {path}: they must be parallel")
    order = list(references)
    ids = tuple(documents[1][key] for key in order if documents[1])
    return {
        code: Sentences(tuple(lines[key] for key in order), tuple(references.values()), ids)
        for code, (_, lines) in sorted(texts.items())
        if code != target
    }


def texts(paths: Mapping[str, Path]) -> dict[str, tuple[Path, dict[int, str]]]:
    """The file and the lines of every language, for `to_target`."""
    return {code: (path, numbered(path)) for code, path in paths.items()}


def by_language(names: Mapping[Path, str], *, varieties: bool = False) -> dict[str, Path]:
    """The file of each language, by its name in `names`; where it may have varieties the one with
    the shortest file name, then the first. ValueError for an unknown name and two of a language.
    """
    paths: dict[str, Path] = {}
    for path, name in sorted(names.items(), key=lambda item: (len(item[0].name), item[0])):
        code = code_of(name, path)
        if code not in paths:
            paths[code] = path
        elif not varieties or _base(name) != _base(names[paths[code]]):
            raise ValueError(f"{paths[code]} and {path} are both {code}; leave one")
    return paths


def once(names: Mapping[Path, str]) -> Mapping[Path, str]:
    """The same. ValueError for two files of one name."""
    paths: dict[str, Path] = {}
    for path, name in names.items():
        if paths.setdefault(name, path) is not path:
            raise ValueError(f"{paths[name]} and {path} are both {name}; leave one")
    return names


def _base(name: str) -> str:
    return re.split("[-_]", name)[0]


def code_of(name: str, where: object) -> str:
    """The FLORES code of a language by any name. ValueError, with `where`, for an unknown one."""
    try:
        return languages.find(name).code
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def numbered(path: Path) -> dict[int, str]:
    """The lines of a file by their numbers, from 1. ValueError for none and for an empty one."""
    lines = dict(enumerate(text_lines.read(path), 1))
    if not lines:
        raise ValueError(f"{path}: empty file")
    for number, line in lines.items():
        if not line.strip():
            raise ValueError(f"{path}:{number}: empty line")
    return lines


def pairs(path: Path) -> Sentences:
    """Lines `source<TAB>reference`. ValueError, with the line, for others and for an empty side."""
    rows = [line.split("\t") for line in numbered(path).values()]
    for number, row in enumerate(rows, 1):
        if len(row) != 2:
            raise ValueError(f"{path}:{number}: {len(row)} columns; a line is source<TAB>reference")
        if not all(side.strip() for side in row):
            raise ValueError(f"{path}:{number}: an empty side")
    return Sentences(*zip(*rows, strict=True))


def columns(path: Path, *names: str) -> list[tuple[str, ...]]:
    """The named columns of a TSV with a header, as rows. ValueError without one of them, and for a
    row of another length than the header.

    A quotation mark is text: TICO-19's English has lines that start with one and go on after its
    end, unescaped, which a CSV reader would change or join to the next.
    """
    header, *rows = [line.split("\t") for line in numbered(path).values()]
    for name in names:
        if name not in header:
            raise ValueError(f"{path}:1: no column {name!r}; it has: {', '.join(header)}")
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise ValueError(f"{path}:{number}: {len(row)} columns, the header has {len(header)}")
    return [tuple(row[header.index(name)] for name in names) for row in rows]


def records(path: Path) -> dict[Any, dict[str, Any]]:
    """The rows of a JSON Lines or a Parquet file by their `id`.

    Raises ValueError, with the row, for one without `id` or `text`, for an id that is there twice,
    and a `url` or `domain` that is no text on one line; and for a broken file.
    """
    by_id: dict[Any, dict[str, Any]] = {}
    for at, row in _parquet(path) if path.suffix == ".parquet" else _jsonl(path):
        for name in ("url", "domain"):
            if not isinstance(text := row.get(name) or "", str) or not text_lines.one_line(text):
                raise ValueError(f"{at}: {name} is {text!r}; expected text on one line")
        if not isinstance(row.get("id"), int | str):
            raise ValueError(f"{at}: a row has an id")
        if not isinstance(row.get("text"), str) or not row["text"].strip():
            raise ValueError(f"{at}: text is {row.get('text')!r}; expected a sentence")
        if row["id"] in by_id:
            raise ValueError(f"{at}: id {row['id']!r} is there already")
        by_id[row["id"]] = row
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
