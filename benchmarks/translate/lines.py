"""Lines of a pack of parallel text and their English, for the measurements of this folder.

A pack is described in `benchmarks.packs`. Its text is read where it lies and never written.
"""

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.packs import ENGLISH
from mmt.translate import Translator

MODEL = "benchmarks/mix150/model"
EVERYDAY, NEWS = ("tatoeba", "laser"), ("newstest", "lafand", "xquad")


class Line(NamedTuple):
    """A line of a test set, its English, and its language."""

    source: str
    english: str
    language: str


def arguments(about: str | None, *, languages: str) -> argparse.Namespace:
    """Returns the arguments of a benchmark: folder of the packs, model, languages, lines of each.
    """
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder that holds mix/")
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--languages", default=languages, help="comma-separated codes")
    parser.add_argument("--lines", type=int, default=30, help="of each language")
    return parser.parse_args()


def read(folder: Path, language: str, kinds: tuple[str, ...] = ("",)) -> Iterator[Line]:
    """Yields the lines of a language whose ids begin with one of `kinds`, in order."""
    english = dict(_table(folder / f"{ENGLISH}.tsv.gz"))
    for name, text in _table(folder / f"{language}.tsv.gz"):
        if name.startswith(kinds) and text.strip() and name in english:
            yield Line(text.strip(), english[name], language)


def source_tokens(translator: Translator, text: str) -> int:
    """Returns the number of tokens of a source text."""
    return len(translator.vocabularies["source"].encode(text))


def _table(file: Path) -> Iterator[tuple[str, str]]:
    with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            name, text = line.rstrip("\n").split("\t", 1)
            yield name, text
