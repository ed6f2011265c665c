"""Packs of parallel text beside the repository: manifests, versions, and descriptions of parts.

A pack is a folder of `CODE.tsv.gz` files with lines `id<TAB>text`, CODE as in FLORES. The English
of all languages is `eng_Latn.tsv.gz`; lines with the same id are a pair.
"""

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from mmt import languages

ENGLISH = "eng_Latn"


def manifest(file: Path, columns: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Returns code -> the numbers in `columns` of a manifest, in the manifest's order.

    Raises:
      ValueError: no file, a missing column, an unknown or repeated language, a number below 1; with
        file and line.
    """
    if not file.is_file():
        raise ValueError(f"no {file}: DATA is a folder with the packs and their manifest")
    sizes: dict[str, tuple[int, ...]] = {}
    try:
        with open(file, encoding="utf-8-sig", newline="") as lines:
            rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
            missing = [name for name in ("code", *columns) if name not in (rows.fieldnames or ())]
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
                for name in columns:
                    if not (row[name] or "").isdecimal() or int(row[name]) < 1:
                        raise ValueError(f"{where}: {name} is {row[name]!r}; expected 1 or more")
                sizes[code] = tuple(int(row[name]) for name in columns)
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: no UTF-8: {error}") from error
    if not sizes:
        raise ValueError(f"{file}: no languages")
    return sizes


def check_versions(data: Path, sums: Path) -> None:
    """Compares files of DATA with a list in the format of sha256sum.

    Raises:
      ValueError: a file is missing, or has another hash: the pack is of another version.
    """
    for line in sums.read_text(encoding="utf-8").splitlines():
        expected, name = line.split(maxsplit=1)
        file = data / name
        if not file.is_file():
            raise ValueError(f"no {file}: the pack {Path(name).parts[0]} is not in {data}")
        actual = hashlib.sha256(file.read_bytes()).hexdigest()
        if actual != expected:
            raise ValueError(
                f"{file}: the pack {Path(name).parts[0]} is of another version: sha256 "
                f"{actual[:12]}…, expected {expected[:12]}… ({sums}); scores on other versions "
                "cannot be compared with the committed ones"
            )


def check_files(files: Iterable[Path]) -> None:
    """Raises ValueError where files that the manifest names are missing."""
    if missing := [file for file in files if not file.is_file()]:
        more = f" and {len(missing) - 1} others" if missing[1:] else ""
        raise ValueError(f"no {missing[0]}{more}; the manifest names it")


def files_of_test(folder: Path, codes: Iterable[str]) -> list[Path]:
    """Returns the files that a pack of test sets must have: English, and one of the languages."""
    files = [path(folder, code) for code in codes]
    return [path(folder, ENGLISH), *([] if any(map(Path.is_file, files)) else files[:1])]


def path(folder: Path, code: str) -> Path:
    """Returns a language's file in the folder of a pack."""
    return folder / f"{code}.tsv.gz"


def entry(source: Path, english: Path, name: str, *, sample: int = 0) -> str:
    """Returns the value of a language in a corpus.toml: two files joined by id.

    name: the entry's, which rows of scores have: no path of a machine. sample: a number of pairs;
    0: all.
    """
    files = (json.dumps(str(file.resolve()), ensure_ascii=False) for file in (source, english))
    source_file, target_file = files
    sampled = f", sample = {sample}" if sample else ""
    about = f'join = "id", name = "{name}"{sampled}'
    return f"{{ source = {source_file}, target = {target_file}, {about} }}"


def split(name: str, data: Path, part: str, sizes: Mapping[str, int]) -> Iterator[str]:
    """Yields the lines of a split with those languages of `sizes` that a pack has.

    part: the folder below `data`, such as "mix/train". sizes: code -> a sample's number of pairs;
    0: all.
    """
    yield f"[{name}]"
    english = path(data / part, ENGLISH)
    for code, size in sizes.items():
        if (file := path(data / part, code)).is_file():
            yield f"{code} = {entry(file, english, f'{part}/{file.name}', sample=size)}"


def write(folder: Path, name: str, about: tuple[str, str], lines: Iterable[str]) -> Path:
    """Writes the corpus.toml of a folder and returns its path; `about`: domain and licence."""
    file = folder / "corpus.toml"
    folder.mkdir(parents=True, exist_ok=True)
    domain, licence = about
    head = {"name": name, "target": ENGLISH, "domain": domain, "licence": licence}
    text = [f'{key} = "{value}"' for key, value in head.items()]
    file.write_text("\n".join([*text, *lines, ""]), encoding="utf-8")
    return file
