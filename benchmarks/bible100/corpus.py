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

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from mmt import languages

COLUMNS = ("code", "suggested_subsample", "test")  # columns of the manifest
SPLITS = {"train": "train", "validation": "dev", "test": "test"}
FEW, FEW_NEWS = 200, 100  # lines per test
BIBLE = ("Bible verses", "each text its own")  # domain and licence
NEWS = ("news", "CC BY-SA 4.0")
HEALTH = ("health", "CC0")


def describe(data: Path, out: Path) -> list[Path]:
    """Writes the descriptions; returns their files.

    Raises ValueError for a missing pack or a broken manifest.
    """
    manifest = _manifest(data / "manifest.tsv")
    sizes = {code: size for code, (size, _) in manifest.items()}
    few = {code: min(test, FEW) for code, (_, test) in manifest.items()}  # some tests are smaller
    _check_packs(data, list(sizes))
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
    if (data / "tico19").is_dir():
        lines = _tests(data / "tico19", dict.fromkeys(sizes, 0))
        texts["tico100"] = (HEALTH, lines)
    written = []
    for name, ((domain, licence), lines) in texts.items():
        file = out / name / "corpus.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        about = {"name": name, "target": "eng_Latn", "domain": domain, "licence": licence}
        head = [f'{key} = "{value}"' for key, value in about.items()]
        file.write_text("\n".join([*head, *lines, ""]))
        written.append(file)
    return written


def _manifest(file: Path) -> dict[str, tuple[int, int]]:
    """Returns code -> (training pairs to use, lines of its test)."""
    if not file.is_file():
        raise ValueError(f"no {file}: DATA is a folder with the packs and their manifest")
    sizes: dict[str, tuple[int, int]] = {}
    try:
        with open(file, encoding="utf-8-sig", newline="") as lines:
            rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
            missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
            if missing:
                raise ValueError(f"{file}:1: no column {', '.join(missing)}")
            for row in rows:
                where = f"{file}:{rows.line_num}"
                try:
                    code = languages.find(row["code"] or "").code
                except ValueError as error:
                    raise ValueError(f"{where}: {error}") from error
                if code in sizes:
                    raise ValueError(f"{where}: {code} is there twice")
                for name in COLUMNS[1:]:
                    if not (row[name] or "").isdecimal() or int(row[name]) < 1:
                        raise ValueError(f"{where}: {name} is {row[name]!r}; expected 1 or more")
                sizes[code] = int(row["suggested_subsample"]), int(row["test"])
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: no UTF-8: {error}") from error
    if not sizes:
        raise ValueError(f"{file}: no languages")
    return sizes


def _check_packs(data: Path, codes: list[str]) -> None:
    """Raises ValueError for missing packs; news and health may lack some languages."""
    expected = [data / "bible" / part / f"{code}.tsv.gz"
              for part in SPLITS.values() for code in ("eng_Latn", *codes)]  # fmt: skip
    for pack in ("ntrex", *(["tico19"] if (data / "tico19").is_dir() else [])):
        english, *others = (data / pack / f"{code}.tsv.gz" for code in ("eng_Latn", *codes))
        expected += [english, *([] if any(map(Path.is_file, others)) else others[:1])]
    if missing := [file for file in expected if not file.is_file()]:
        more = f" and {len(missing) - 1} others" if missing[1:] else ""
        raise ValueError(f"no {missing[0]}{more}; the manifest names it")


def _bible(folder: Path, sizes: dict[str, int]) -> Iterator[str]:
    for split, part in SPLITS.items():
        yield f"[{split}]"
        for code, size in sizes.items():
            yield _entry(folder / part, code, size if split == "train" else 0)


def _tests(folder: Path, sizes: dict[str, int]) -> Iterator[str]:
    """Yields the entries of the languages in the folder."""
    yield "[test]"
    for code, size in sizes.items():
        if (folder / f"{code}.tsv.gz").is_file():
            yield _entry(folder, code, size)


def _spread(sizes: dict[str, int], number: int) -> list[str]:
    by_size = sorted(sizes, key=lambda code: -sizes[code])
    places = [round(place * (len(by_size) - 1) / (number - 1)) for place in range(number)]
    return [by_size[place] for place in places]


def _entry(folder: Path, code: str, size: int) -> str:
    source, target = (
        json.dumps(str(folder.resolve() / f"{name}.tsv.gz"), ensure_ascii=False)
        for name in (code, "eng_Latn")
    )
    sample = f", sample = {size}" if size else ""
    return f'{code} = {{ source = {source}, target = {target}, join = "id"{sample} }}'


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
