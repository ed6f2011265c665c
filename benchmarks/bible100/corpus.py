"""Writes corpus descriptions of the parallel packs that the benchmark trains and evaluates on.

    python -m benchmarks.bible100.corpus DATA OUT

DATA has the packs: `manifest.tsv`, and the folders `bible/`, `ntrex/` and optionally `tico19/` with
`id<TAB>text` files, one per language. OUT gets a folder with a corpus.toml for each corpus:

    bible100      108 languages, with sizes by the manifest's power law: 29,578 to 500 pairs
    bible100all   the same languages with all their pairs
    ntrex100      news, in the languages that both packs have
    tico100       health (TICO-19), likewise; no study here uses this third domain

and smaller test sets, for two CPU cores:

    bible100few   at most 200 verses of each language's test
    bible12few    the same for every ninth language, by size
    ntrex100few   100 lines of news

The texts are not copied; their licences apply. The benchmark's result is about verses and news.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import packs

COLUMNS = ("suggested_subsample", "test")  # of the manifest
SPLITS = {"train": "train", "validation": "dev", "test": "test"}
FEW, FEW_NEWS = 200, 100  # lines per test
BIBLE = ("Bible verses", "each text its own")  # domain and licence
NEWS = ("news", "CC BY-SA 4.0")
HEALTH = ("health", "CC0")


def describe(data: Path, out: Path) -> list[Path]:
    """Writes the descriptions; returns their files.

    Raises ValueError for a missing pack or a broken manifest.
    """
    manifest = packs.manifest(data / "manifest.tsv", COLUMNS)
    sizes = {code: size for code, (size, _) in manifest.items()}
    few = {code: min(test, FEW) for code, (_, test) in manifest.items()}  # some tests are smaller
    _check_packs(data, list(sizes))
    every = dict.fromkeys(sizes, 0)
    twelve = {code: few[code] for code in _spread(sizes, 12)}
    texts = {
        "bible100": (BIBLE, _bible(data, sizes)),
        "bible100all": (BIBLE, _bible(data, every)),
        "ntrex100": (NEWS, packs.split("test", data, "ntrex", every)),
        "bible100few": (BIBLE, packs.split("test", data, "bible/test", few)),
        "bible12few": (BIBLE, packs.split("test", data, "bible/test", twelve)),
        "ntrex100few": (
            NEWS, packs.split("test", data, "ntrex", dict.fromkeys(sizes, FEW_NEWS)),
        ),
    }  # fmt: skip
    if (data / "tico19").is_dir():
        texts["tico100"] = (HEALTH, packs.split("test", data, "tico19", every))
    return [packs.write(out / name, name, about, lines) for name, (about, lines) in texts.items()]


def _check_packs(data: Path, codes: list[str]) -> None:
    """Raises ValueError for missing packs; news and health may lack some languages."""
    expected = [packs.path(data / "bible" / part, code)
                for part in SPLITS.values() for code in (packs.ENGLISH, *codes)]  # fmt: skip
    for pack in ("ntrex", *(["tico19"] if (data / "tico19").is_dir() else [])):
        expected += packs.files_of_test(data / pack, codes)
    packs.check_files(expected)


def _bible(data: Path, sizes: dict[str, int]) -> Iterator[str]:
    every = dict.fromkeys(sizes, 0)
    for split, part in SPLITS.items():
        yield from packs.split(split, data, f"bible/{part}", sizes if split == "train" else every)


def _spread(sizes: dict[str, int], number: int) -> list[str]:
    by_size = sorted(sizes, key=lambda code: -sizes[code])
    places = [round(place * (len(by_size) - 1) / (number - 1)) for place in range(number)]
    return [by_size[place] for place in places]


def main(arguments: list[str]) -> None:
    """Writes the descriptions of the packs in DATA to OUT and prints their paths."""
    if len(arguments) != 2:
        raise SystemExit("python -m benchmarks.bible100.corpus DATA OUT")
    try:
        for path in describe(*map(Path, arguments)):
            print(path)
    except (ValueError, OSError) as error:
        raise SystemExit(f"benchmarks.bible100.corpus: {error}") from error


if __name__ == "__main__":
    main(sys.argv[1:])
