"""Writes a corpus of documents: Bible chapters in the order of their verses.

    python -m benchmarks.mix150.verses DATA OUT

mix has single lines, so a model cannot learn from it what the line before says. DATA holds the pack
`bible/` with its `manifest.tsv`. OUT gets `verses150`: 24 languages of mix150, from the largest
Bible to the smallest. A chapter, or the part of it that has no gap, is a document. Its test and
validation are the chapters that the pack holds out.

The texts' licences apply. OUT holds text of the pack: keep it out of the repository.
"""

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import packs
from benchmarks.mix150 import corpus

NAME = "verses150"
LANGUAGES = 24
COLUMNS = ("train", "dev", "test")  # of the manifest


def languages_of(data: Path) -> list[str]:
    """Returns the languages: of both packs, evenly by the size of their Bibles."""
    mixed = corpus.languages_of(data / "mix/manifest.tsv")
    sizes = packs.manifest(data / "manifest.tsv", COLUMNS)
    both = sorted((code for code in sizes if code in mixed), key=lambda code: -sizes[code][0])
    step = max(1, len(both) / LANGUAGES)
    return [both[int(place * step)] for place in range(min(LANGUAGES, len(both)))]


def documents(data: Path, part: str, code: str) -> Iterator[str]:
    """Yields the lines of a TSV file: `source<TAB>English` of a verse, '' after a document."""
    english = dict(_verses(packs.path(data / "bible" / part, packs.ENGLISH)))
    before = ("", -1)
    for name, verse in _verses(packs.path(data / "bible" / part, code)):
        chapter, _, number = name.rpartition(".")
        if before[1] >= 0 and (chapter, int(number)) != (before[0], before[1] + 1):
            yield ""
        before = (chapter, int(number))
        yield f"{verse}\t{english[name]}"


def _verses(file: Path) -> Iterator[tuple[str, str]]:
    with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            name, _, text = line.rstrip("\n").partition("\t")
            yield name, text


def write(data: Path, out: Path) -> Path:
    """Writes OUT/verses150; returns its description.

    Raises ValueError for a missing pack.
    """
    codes, folder = languages_of(data), out / NAME
    packs.check_files(
        packs.path(data / "bible" / part, code)
        for part in corpus.SPLITS.values()
        for code in (packs.ENGLISH, *codes)
    )
    described = []
    for split, part in corpus.SPLITS.items():
        described.append(f"[{split}]")
        (folder / split).mkdir(parents=True, exist_ok=True)
        for code in codes:
            name = f"{split}/{code}.tsv"
            text = "".join(f"{line}\n" for line in documents(data, part, code))
            (folder / name).write_text(text, encoding="utf-8")
            described.append(f'{code} = {{ pairs = "{name}", documents = true }}')
    about = ("Bible verses, by chapter", "each text its own")
    return packs.write(folder, NAME, about, described)


def main(arguments: list[str]) -> None:
    """Writes the corpus and prints its path."""
    if len(arguments) != 2:
        raise SystemExit("python -m benchmarks.mix150.verses DATA OUT")
    try:
        print(write(*map(Path, arguments)))
    except (ValueError, OSError) as error:
        raise SystemExit(f"benchmarks.mix150.verses: {error}") from error


if __name__ == "__main__":
    main(sys.argv[1:])
