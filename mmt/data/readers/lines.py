"""Pairs from files of lines: two columns, two files line by line, or two files joined by an id.

`system.text_lines` splits files into lines.
"""

import functools
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path, PurePosixPath

from mmt.data.readers.files import Files, Sides
from mmt.system import compression, text_lines


def count(files: Files) -> int:
    """Returns the number of lines of the source, by counting line feeds."""
    return text_lines.count(files.source)


def columns(files: Files) -> Iterator[Sides]:
    """Yields pairs of lines source<TAB>target, or of the two numbered columns.

    An empty line between two documents has empty sides.
    """
    path = files.source
    source, target = _column_indices(files)
    for number, line in enumerate(text_lines.read(path), 1):
        if files.documents and not line.strip():
            yield Sides(number, "", "")
            continue
        cells = line.split("\t")
        if files.columns and max(source, target) >= len(cells):
            raise ValueError(
                f"{path}:{number}: {len(cells)} columns; expected columns {files.columns}"
            )
        if not files.columns and len(cells) != 2:
            raise ValueError(f"{path}:{number}: {len(cells)} columns; a line is source<TAB>target")
        yield Sides(number, cells[source], cells[target])


def texts(files: Files) -> Iterator[Sides]:
    """Yields lines of one language; each line is both sides.

    Raises ValueError for a line of a TSV file with several columns, of which the entry names none.
    """
    path = files.source
    is_tsv = PurePosixPath(compression.name(path)).suffix.lower() == ".tsv"
    for number, line in enumerate(text_lines.read(path), 1):
        if is_tsv and "\t" in line:
            raise ValueError(
                f"{path}:{number}: {line.count(chr(9)) + 1} columns; name that of the text in the "
                'entry: { text = "…", column = 1 }'
            )
        yield Sides(number, line, line)


def parallel(files: Files) -> Iterator[Sides]:
    """Yields line n of one file with line n of the other, its translation."""
    source, target = _both_files(files)
    line_pairs = zip_longest(text_lines.read(source), text_lines.read(target))
    for number, (line, translation) in enumerate(line_pairs, 1):
        if line is None or translation is None:
            raise ValueError(
                f"{source} has {text_lines.count(source)} lines, but {target} has "
                f"{text_lines.count(target)}: line n of one must be the translation of line n of "
                "the other"
            )
        yield Sides(number, line, translation)


def joined(files: Files) -> Iterator[Sides]:
    """Yields lines id<TAB>text with the same id in both files, in the order of the source's."""
    source, target = _both_files(files)
    translations = _by_id(target, compression.file(target).stat().st_mtime_ns)
    used_ids: set[str] = set()
    for number, name, text in _lines_with_id(source, documents=files.documents):
        if name in used_ids:
            raise ValueError(f"{source}:{number}: the id {name!r} is repeated")
        if name not in translations:
            raise ValueError(f"{source}:{number}: {target} has no line with id {name!r}")
        used_ids.add(name)
        yield Sides(number, text, translations[name], name)


def _column_indices(files: Files) -> tuple[int, int]:
    if not files.columns:
        return 0, 1
    try:
        source, target = (int(column) - 1 for column in files.columns)
    except ValueError:
        source = target = -1
    if min(source, target) < 0:
        raise ValueError(
            f"{files.source}: columns is {list(files.columns)}; allowed: two numbers, from 1"
        )
    return source, target


def _both_files(files: Files) -> tuple[Path, Path]:
    assert files.target
    return files.source, files.target


@functools.lru_cache(maxsize=4)  # the languages of a multi-way corpus share their target's file
def _by_id(path: Path, changed: int) -> dict[str, str]:
    """Returns id -> text. `changed`, the file's modification time, is part of the cache's key."""
    texts: dict[str, str] = {}
    for number, name, text in _lines_with_id(path):
        if name in texts:
            raise ValueError(f"{path}:{number}: the id {name!r} is repeated")
        texts[name] = text
    return texts


def _lines_with_id(path: Path, *, documents: bool = False) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(text_lines.read(path), 1):
        if documents and not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) != 2 or not columns[0]:
            raise ValueError(f"{path}:{number}: {len(columns)} columns; a line is id<TAB>text")
        yield number, columns[0], columns[1]
