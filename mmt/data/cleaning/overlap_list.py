"""The list of the training pairs that cleaning removed because they overlap a test set.

It is a compressed TSV in the cleaned corpus's folder. It has text of test sets: do not publish it.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from mmt.data.cache.origins import OVERLAP
from mmt.data.cleaning.rules import Dropped
from mmt.data.pair import Pair
from mmt.system import text_lines
from mmt.system.atomic import packed

FILE = "overlap.tsv.zst"
COLUMNS = ("language", "corpus", "line", "test sets", "overlap", "source", "target")
_FLAT = str.maketrans("\t\n\r", "   ")  # characters that TSV does not allow
_BREAK = re.compile("[\t\n\r]")


def row(pair: Pair, dropped: Pair | Dropped) -> str:
    """Returns the line of a pair that was dropped for overlap; '' if it was not."""
    if isinstance(dropped, Pair) or not dropped.reason.startswith(OVERLAP):
        return ""
    tests, detail = dropped.reason.removeprefix(OVERLAP), dropped.detail
    cells = pair.language, pair.corpus, str(pair.line), tests, detail, pair.source, pair.target
    return "\t".join(map(cell, cells))


def cell(text: str) -> str:
    """Returns a text as a cell of a TSV: tabs and line breaks become spaces."""
    return text.translate(_FLAT) if _BREAK.search(text) else text


def join(parts: Iterable[Path], folder: Path) -> None:
    """Writes FILE, with COLUMNS as its first line, from the lines of `parts`."""
    with packed(folder / FILE) as write:
        write("\t".join(COLUMNS))
        for part in parts:
            for line in text_lines.read(part):
                write(line)
