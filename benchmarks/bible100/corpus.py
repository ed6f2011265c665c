"""Writes the descriptions of the parallel packs that the benchmark trains and judges on.

    python -m benchmarks.bible100.corpus DATA OUT

DATA holds the packs: `manifest.tsv`, and `bible/` and `ntrex/` of `id<TAB>text` files, one a
language. OUT gets a folder with a corpus.toml for each corpus.

    bible100      108 languages, the sizes of the manifest's power law: 29,578 pairs down to 500
    bible100all   the same languages with all there is
    ntrex100      news of the languages that both packs have

and for two CPU cores, which read short lines alone: English of at most 120 characters.

    bible100short the sizes of the power law where so many verses are short: 15,054 down to 500
    bible12short  the tests of every ninth of them, by size
    ntrex100short short news, 200 lines of each

The text stays where it is; the lines that are short are copied, unchanged, to OUT/short.

The result of the benchmark is about these texts: no other corpus is described here.
"""

import csv
import gzip
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

SPLITS = {"train": "train", "validation": "dev", "test": "test"}
SHORT = 120  # characters of English


def describe(data: Path, out: Path) -> list[Path]:
    """Writes the descriptions; returns their files. ValueError where a pack is not there."""
    manifest = data / "manifest.tsv"
    if not manifest.is_file():
        raise ValueError(f"no {manifest}: DATA is a folder with the packs and their manifest")
    with open(manifest, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    sizes = {row["code"]: int(row["suggested_subsample"]) for row in rows}
    short = out / "short"
    there = _shorten(data / "bible/train", short / "bible/train", sizes)
    for folder in ("bible/dev", "bible/test", "ntrex"):
        _shorten(data / folder, short / folder, sizes)
    texts = {
        "bible100": _bible(data / "bible", sizes),
        "bible100all": _bible(data / "bible", dict.fromkeys(sizes, 0)),
        "ntrex100": _tests(data / "ntrex", sizes),
        "bible100short": _bible(short / "bible", {c: min(n, there[c]) for c, n in sizes.items()}),
        "bible12short": _tests(short / "bible/test", _spread(sizes, 12)),
        "ntrex100short": _tests(short / "ntrex", sizes, 200),
    }
    written = []
    for name, lines in texts.items():
        file = out / name / "corpus.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join([f'name = "{name}"', 'target = "eng_Latn"', *lines, ""]))
        written.append(file)
    return written


def _bible(folder: Path, sizes: dict[str, int]) -> Iterator[str]:
    for split, part in SPLITS.items():
        yield f"[{split}]"
        for code, size in sizes.items():
            yield _entry(folder / part, code, size if split == "train" else 0)


def _tests(folder: Path, codes: Iterable[str], size: int = 0) -> Iterator[str]:
    """Those of the languages that the folder has."""
    yield "[test]"
    for code in codes:
        if (folder / f"{code}.tsv.gz").is_file():
            yield _entry(folder, code, size)


def _shorten(folder: Path, out: Path, codes: Iterable[str]) -> dict[str, int]:
    """Writes the lines of short English; returns how many of each language that is there."""
    out.mkdir(parents=True, exist_ok=True)
    english = [line for line in _lines(folder, "eng_Latn") if len(line[1].rstrip("\n")) <= SHORT]
    ids = {name for name, _ in english}
    _write(out, "eng_Latn", english)
    written = {}
    for code in codes:
        if (folder / f"{code}.tsv.gz").is_file():
            lines = [line for line in _lines(folder, code) if line[0] in ids]
            _write(out, code, lines)
            written[code] = len(lines)
    return written


def _lines(folder: Path, code: str) -> list[tuple[str, str]]:
    """Ids, and texts with their line ends."""
    with gzip.open(folder / f"{code}.tsv.gz", "rt", encoding="utf-8", newline="\n") as file:
        parts = [line.partition("\t") for line in file]
    return [(name, text) for name, _, text in parts]


def _write(folder: Path, code: str, lines: list[tuple[str, str]]) -> None:
    text = "".join(f"{name}\t{text}" for name, text in lines).encode()
    (folder / f"{code}.tsv.gz").write_bytes(gzip.compress(text, compresslevel=6, mtime=0))


def _spread(sizes: dict[str, int], number: int) -> list[str]:
    by_size = sorted(sizes, key=lambda code: -sizes[code])
    places = [round(place * (len(by_size) - 1) / (number - 1)) for place in range(number)]
    return [by_size[place] for place in places]


def _entry(folder: Path, code: str, size: int) -> str:
    source, target = (folder.resolve() / f"{name}.tsv.gz" for name in (code, "eng_Latn"))
    sample = f", sample = {size}" if size else ""
    return f"{code} = {{ source = '{source}', target = '{target}', join = \"id\"{sample} }}"


if __name__ == "__main__":
    for path in describe(Path(sys.argv[1]), Path(sys.argv[2])):
        print(path)
