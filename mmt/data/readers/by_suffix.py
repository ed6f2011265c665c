"""Reads pairs of sentences from files: the reader of each file, and the checks for all formats.

`corpora` and `entries` determine the files of a corpus; each other module here reads a format. The
suffix determines the format, before that of a compression (`.gz`, `.zip`, …: `system.compression`).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from mmt.data.readers import catalogues, gettext, records, xml
from mmt.data.readers import lines as readers_lines
from mmt.data.readers.files import Files, Sides
from mmt.system.text_lines import is_blank


class Reader(NamedTuple):
    """A format.

    Attributes:
      read: yields the pairs in the file's order.
      count: returns the number of pairs that `read` yields.
      unit: the unit that `Sides.line` counts if it is not a line: 'unit 3' in errors.
    """

    read: Callable[[Files], Iterator[Sides]]
    count: Callable[[Files], int]
    unit: str = ""


def _counted(read: Callable[[Files], Iterator[Sides]], unit: str = "unit") -> Reader:
    return Reader(read, lambda files: sum(1 for _ in read(files)), unit)


_TEXT = Reader(readers_lines.texts, readers_lines.count)
_TSV = Reader(readers_lines.columns, readers_lines.count)
_PARALLEL = Reader(readers_lines.parallel, readers_lines.count)
_JOINED = Reader(readers_lines.joined, readers_lines.count)
_JSONL = Reader(records.jsonl, readers_lines.count)
_DATASET = Reader(records.dataset, records.count_dataset, "row")
_CATALOGUES = _counted(catalogues.read_two, "entry")
_BILINGUAL = _counted(catalogues.read_bilingual, "entry")
_XLIFF = _counted(xml.xliff)

READERS = {
    ".tsv": _TSV,
    ".jsonl": _JSONL,
    ".ndjson": _JSONL,
    ".json": _JSONL,
    ".parquet": Reader(records.parquet, records.count_parquet, "row"),
    ".tmx": _counted(xml.tmx),
    ".xlf": _XLIFF,
    ".xliff": _XLIFF,
    ".po": _counted(gettext.po, ""),
    ".ts": _BILINGUAL,
    ".xcstrings": _BILINGUAL,
    ".mo": _counted(gettext.mo),
}


def reader(files: Files) -> Reader:
    """Returns the reader of an entry's files; one file with an unknown suffix is TSV."""
    if files.text and not files.columns:
        return _TEXT
    if catalogues.paired(files) and not files.join:
        return _CATALOGUES
    if files.target:
        return _JOINED if files.join else _PARALLEL
    if files.source.is_dir():
        return _DATASET
    return READERS.get(catalogues.suffix(files.source), _TSV)


def read(files: Files) -> Iterator[Sides]:
    """Yields the pairs in the order of the source's lines, or units.

    A side has no line feed: formats that allow them replace them by spaces (`files.one_line`). A
    tab or carriage return in a line of plain text is text, which writers of TSV replace. Empty
    lines between documents are left out.

    Raises:
      ValueError: with file and line, for files of different lengths, a side without a visible
        character or with a NUL (often UTF-16), an id that is repeated or has no translation, fewer
        pairs than `sample`, and no pairs at all.
    """
    format = reader(files)
    is_sampled, number = _sample_mask(files), 0
    pairs = format.read(files)
    if files.documents:
        pairs = (sides for sides in pairs if not is_blank(sides.source + sides.target))
    for number, sides in enumerate(pairs, 1):
        if not files.empty and (_is_unfit(sides.source) or _is_unfit(sides.target)):
            raise _unfit_error(files, sides, format)
        if is_sampled is None or is_sampled[number]:
            yield sides
    if not number:
        raise _empty_error(files, format)


def count(files: Files) -> int:
    """Returns the number of pairs that `read` yields, without decoding if the format allows it."""
    format = reader(files)
    if files.documents:  # the empty lines between them are no pairs
        number = sum(1 for _ in read(files._replace(empty=True)))
    else:
        number = format.count(files)
    if not number:
        raise _empty_error(files, format)
    if files.sample > number:
        raise ValueError(f"{files.source}: sample is {files.sample}, of {number} lines or units")
    return files.sample or number


def _is_unfit(text: str) -> bool:
    return "\0" in text or is_blank(text)


def _unfit_error(files: Files, sides: Sides, format: Reader) -> ValueError:
    side, path, text = "the target side", files.target or files.source, sides.target
    if _is_unfit(sides.source):
        text = sides.source
        side, path = "the source side", files.source
    if files.text:
        side = "the text"
    line = f": {format.unit} {sides.line}" if format.unit else f":{sides.line}"
    location = f"{path}: {sides.id}" if files.join else f"{path}{line}"
    fault = "has a NUL character; is it UTF-8?" if "\0" in text else "is empty"
    return ValueError(f"{location}: {side} {fault}")


def _empty_error(files: Files, format: Reader) -> ValueError:
    counts_lines = format.count is readers_lines.count
    return ValueError(f"{files.source}: no {'lines' if counts_lines else 'pairs'}")


def _sample_mask(files: Files) -> np.ndarray | None:
    """Returns a mask of the pairs in the sample, the start of a shuffle of all pairs."""
    if not files.sample:
        return None
    total = reader(files).count(files)
    count(files)
    is_sampled = np.zeros(total + 1, bool)
    is_sampled[np.random.default_rng(0).permutation(total)[: files.sample] + 1] = True
    return is_sampled
