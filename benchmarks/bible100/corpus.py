"""Writes the descriptions of the parallel packs that the benchmark trains and judges on.

    python -m benchmarks.bible100.corpus DATA OUT

DATA holds the packs: `manifest.tsv`, and `bible/` and `ntrex/` of `id<TAB>text` files, one a
language. OUT gets a folder with a corpus.toml for each corpus.

    bible100      108 languages, the sizes of the manifest's power law: 29,578 pairs down to 500
    bible100all   the same languages with all there is
    ntrex100      news of the languages that both packs have

and, for two CPU cores, which have no time for all lines of a test,

    bible100few   at most 200 verses of each language's test
    bible12few    of every ninth language, by size
    ntrex100few   100 lines of news

The text stays where it is, under its licences. The benchmark's result is about these texts: no
other is described here.
"""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

SPLITS = {"train": "train", "validation": "dev", "test": "test"}
FEW, FEW_NEWS = 200, 100  # lines of a test
BIBLE = ("Bible verses", "each text its own")  # domain and licence
NEWS = ("news", "CC BY-SA 4.0")


def describe(data: Path, out: Path) -> list[Path]:
    """Writes the descriptions; returns their files. ValueError where a pack is not there."""
    manifest = data / "manifest.tsv"
    if not manifest.is_file():
        raise ValueError(f"no {manifest}: DATA is a folder with the packs and their manifest")
    with open(manifest, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    sizes = {row["code"]: int(row["suggested_subsample"]) for row in rows}
    few = {row["code"]: min(int(row["test"]), FEW) for row in rows}  # some tests are smaller
    texts = {
        "bible100": (BIBLE, _bible(data / "bible", sizes)),
        "bible100all": (BIBLE, _bible(data / "bible", dict.fromkeys(sizes, 0))),
        "ntrex100": (NEWS, _tests(data / "ntrex", dict.fromkeys(sizes, 0))),
        "bible100few": (BIBLE, _tests(data / "bible/test", few)),
        "bible12few": (
            BIBLE,
            _tests(data / "bible/test", {code: few[code] for code in _spread(sizes, 12)}),
        ),
        "ntrex100few": (NEWS, _tests(data / "ntrex", dict.fromkeys(sizes, FEW_NEWS))),
    }
    written = []
    for name, ((domain, licence), lines) in texts.items():
        file = out / name / "corpus.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        about = {"name": name, "target": "eng_Latn", "domain": domain, "licence": licence}
        head = [f'{key} = "{value}"' for key, value in about.items()]
        file.write_text("\n".join([*head, *lines, ""]))
        written.append(file)
    return written


def _bible(folder: Path, sizes: dict[str, int]) -> Iterator[str]:
    for split, part in SPLITS.items():
        yield f"[{split}]"
        for code, size in sizes.items():
            yield _entry(folder / part, code, size if split == "train" else 0)


def _tests(folder: Path, sizes: dict[str, int]) -> Iterator[str]:
    """Those of the languages that the folder has."""
    yield "[test]"
    for code, size in sizes.items():
        if (folder / f"{code}.tsv.gz").is_file():
            yield _entry(folder, code, size)


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
