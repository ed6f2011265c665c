"""A corpus folder: parallel text, described by one small `corpus.toml`, read as a stream of pairs.

    name = "my_corpus"                                            # default: the folder's name
    target = "eng"                                                # default: English
    [train]
    deu = { source = "corpus.de.gz", target = "corpus.en.gz" }    # two files, line by line
    swh = "swh.tsv"                                               # source<TAB>target
    fra = ["a.tsv.zst", { source = "b.fr", target = "b.en" }]     # several
    [validation]                                                  # as [train]; also [test]

Languages go by any name `mmt.languages.find` knows, paths are relative to the file, and `.gz`,
`.xz` and `.zst` are unpacked on the way.  Nothing is repaired or skipped here: a fault is a
ValueError that names the file and the line (from 1; only a line feed ends a line).
"""

import difflib
import functools
import hashlib
import itertools
import json
import os
import re
import tomllib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mmt import languages
from mmt.data import lines, mixing

SPLITS = ("train", "validation", "test")
EMBEDDED = "cldr"  # what `load` takes for the corpus that needs no files


class Pair(NamedTuple):
    """One sentence and its translation; `language` is the FLORES code of the source."""

    source: str
    target: str
    language: str
    corpus: str
    line: int


class Files(NamedTuple):
    """Where pairs are: two files of equally many lines, or (`target` is None) one TSV."""

    source: Path
    target: Path | None = None


@dataclass(frozen=True)
class Corpus:
    """A described corpus.  Made by `load`; nothing is read before `pairs`, `count` or `hash`.

    Attributes:
      name: what tasks, caches and results call it.
      target: FLORES code of the side that is translated into.
      root: the folder of the description.
      files: split -> FLORES code of the source -> its files, in the order they are read.
    """

    name: str
    target: str
    root: Path
    files: Mapping[str, Mapping[str, tuple[Files, ...]]] = field(repr=False, hash=False)

    @property
    def languages(self) -> tuple[str, ...]:
        """The source languages, those with a train split, as sorted FLORES codes."""
        return tuple(sorted(self.files["train"]))

    def pairs(self, language: str, split: str) -> Iterator[Pair]:
        """Streams the pairs of a language (any name of it) and split, in the files' order.

        Raises:
          ValueError: before the first pair, for a language or split that is not there; on the way,
            with file and line, for files of different length, no lines at all, broken UTF-8, an
            empty side, a TSV line that has not two columns, and a damaged archive.
        """
        files, code = self._files(language, split)
        if not files:
            raise ValueError(
                f"corpus {self.name} has no {split} pairs of {code}; it has those of: "
                f"{', '.join(sorted(self.files[split])) or 'no language'}"
            )
        return itertools.chain.from_iterable(self._read(entry, code) for entry in files)

    def count(self, language: str, split: str) -> int:
        """The number of pairs, found by counting line feeds; 0 where no file is described."""
        return sum(_count(entry.source) for entry in self._files(language, split)[0])

    def hash(self) -> str:
        """16 hex digits of what the corpus holds: name, languages, contents; not where it lies."""
        content: dict[str, object] = {"name": self.name, "target": self.target}
        digest = functools.cache(_digest)  # languages often share the English file
        for split, by_language in self.files.items():
            content[split] = {
                code: [[digest(path) for path in entry if path] for entry in entries]
                for code, entries in sorted(by_language.items())
            }
        return hashlib.blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()

    def validate(self) -> None:
        """Reads everything once; raises the ValueError of the first fault."""
        for split, by_language in self.files.items():
            for code in by_language:
                for _ in self.pairs(code, split):
                    pass

    def _files(self, language: str, split: str) -> tuple[tuple[Files, ...], str]:
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r}; {_choices(split, SPLITS)}")
        code = languages.find(language).code
        return self.files[split].get(code, ()), code

    def _read(self, files: Files, language: str) -> Iterator[Pair]:
        number = 0
        for number, (source, target) in enumerate(_sides(files), 1):
            if not source.strip():
                raise ValueError(f"{files.source}:{number}: the source side is empty")
            if not target.strip():
                at = files.target or files.source
                raise ValueError(f"{at}:{number}: the target side is empty")
            yield Pair(source, target, language, self.name, number)
        if not number:
            raise ValueError(f"{files.source}: no lines")


def load(path: str | Path) -> Corpus:
    """The corpus of a folder with a `corpus.toml`, of such a file, or 'cldr', the embedded one.

    Raises:
      ValueError: naming file, key and (where it can be told) line, for a description that is not
        TOML, an unknown key or language, a missing file, a language given twice, a language
        without training pairs, and no language at all.
    """
    if path == EMBEDDED:
        from mmt.data import cldr  # which needs `data_root` from here

        path = cldr.ensure()
    given = Path(path)
    file = given / "corpus.toml" if given.is_dir() else given
    if not file.is_file():
        raise ValueError(
            f"no corpus at {str(path)!r}{_near(given, EMBEDDED)}; a corpus is a folder with a "
            f"corpus.toml, such a file, or {EMBEDDED!r}, the embedded one"
        )
    return _Description(file).corpus()


def data_root() -> Path:
    """Where what is made on first use is kept: $MMT_DATA, or ~/.cache/mmt."""
    return Path(os.environ.get("MMT_DATA") or "~/.cache/mmt").expanduser()


def stats(corpus: Corpus, temperature: float = 5.0) -> list[dict[str, str | int | float]]:
    """What `mmt data stats` shows, a row per language; reads everything, so it also validates.

    A row has `language`, `name`, the number of pairs in `train`, `validation` and `test`; of the
    training pairs `source_words` and `target_words` (by white space), `source_characters` and
    `target_characters` (code points) and `length_ratio`, the median of target / source characters;
    and `share`, the part of the training examples drawn from the language at this temperature.
    """
    rows: list[dict[str, str | int | float]] = []
    counts: dict[str, int] = {}
    for code in corpus.languages:
        counts[code], sizes = _sizes(corpus.pairs(code, "train"))
        row: dict[str, str | int | float] = {"language": code, "name": languages.find(code).name}
        row["train"] = counts[code]
        for split in SPLITS[1:]:
            there = corpus.count(code, split)
            row[split] = sum(1 for _ in corpus.pairs(code, split)) if there else 0
        rows.append(row | sizes)
    shares = mixing.shares(counts, temperature)
    return [row | {"share": shares[str(row["language"])]} for row in rows]


def table(rows: Iterable[Mapping[str, str | int | float]]) -> str:
    """The rows of `stats` for people: columns aligned, the largest language first, a total."""
    ordered = sorted(rows, key=lambda row: (-int(row["train"]), row["language"]))
    counted = [key for key, value in ordered[0].items() if isinstance(value, int)]
    total = {key: sum(int(row[key]) for row in ordered) for key in counted}
    last = dict.fromkeys(ordered[0], "") | total | {"language": "all", "name": len(ordered)}
    cells = [[_cell(key, value) for key, value in row.items()] for row in [*ordered, last]]
    cells.insert(0, [key.replace("_", " ").replace("character", "char") for key in ordered[0]])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    align = [str.ljust, str.ljust, *[str.rjust] * (len(widths) - 2)]
    return "\n".join(
        "  ".join(pad(cell, width) for pad, cell, width in zip(align, line, widths, strict=True))
        for line in cells
    )


class _Description:
    """A `corpus.toml` being checked."""

    def __init__(self, file: Path):
        self.file = file
        try:
            self.text = file.read_bytes().decode()
            self.content = tomllib.loads(self.text)
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ValueError(f"{file}: {error}") from None

    def corpus(self) -> Corpus:
        allowed = ("name", "target", *SPLITS)
        for key in self.content:
            if key not in allowed:
                raise ValueError(f"{self._at(key)}: unknown key {key!r}; {_choices(key, allowed)}")
        name = self.content.get("name", re.sub(r"\W", "_", self.file.absolute().parent.name))
        if not isinstance(name, str) or not re.fullmatch(r"[\w.]+", name):
            raise ValueError(
                f"{self._at('name')}: name is {name!r}; allowed are letters, digits, '_' and '.'"
            )
        target = self._language("target", self.content.get("target", "eng"), self._at("target"))
        files = {split: self._split(split, target) for split in SPLITS}
        if not files["train"]:
            raise ValueError(f"{self._at('train')}: no languages: [train] names none")
        for split in SPLITS[1:]:
            for key, code in zip(self.content.get(split, {}), files[split], strict=True):
                if code not in files["train"]:
                    raise ValueError(
                        f"{self._at(key, split)}: {key} ({code}) has no [train] pairs; "
                        f"{_choices(code, sorted(files['train']))}"
                    )
        return Corpus(name, target, self.file.parent, files)

    def _split(self, split: str, target: str) -> dict[str, tuple[Files, ...]]:
        table = self.content.get(split, {})
        if not isinstance(table, dict):
            raise ValueError(f"{self._at(split)}: {split} must be a table, [{split}]")
        files: dict[str, tuple[Files, ...]] = {}
        for key, value in table.items():
            at = self._at(key, split)
            code = self._language("language", key, at)
            if code == target:
                raise ValueError(f"{at}: {key} ({code}) is the target, it cannot be a source")
            if code in files:
                raise ValueError(f"{at}: {key} ({code}) is there already under another name")
            entries = value if isinstance(value, list) else [value]
            if not entries:
                raise ValueError(f"{at}: {key} has no files")
            files[code] = tuple(self._entry(entry, at) for entry in entries)
        return files

    def _entry(self, entry: object, at: str) -> Files:
        if isinstance(entry, dict):
            sides = ("source", "target")
            for key in entry:
                if key not in sides:
                    raise ValueError(f"{at}: unknown key {key!r}; {_choices(key, sides)}")
            for side in sides:
                if side not in entry:
                    raise ValueError(f"{at}: {side} is missing in {entry}")
            return Files(self._path(entry["source"], at), self._path(entry["target"], at))
        return Files(self._path(entry, at))

    def _path(self, name: object, at: str) -> Path:
        if not isinstance(name, str) or not name:
            raise ValueError(
                f'{at}: {name!r} is no file; write "pairs.tsv" or {{ source = "…", target = "…" }}'
            )
        path = self.file.parent / name
        if not path.is_file():
            raise ValueError(f"{at}: no file {path}{_near(path)}")
        return path

    def _language(self, what: str, name: object, at: str) -> str:
        try:
            return languages.find(str(name)).code
        except ValueError as error:
            raise ValueError(f"{at}: {what}: {error}") from None

    def _at(self, key: str, table: str = "") -> str:
        """'file:line' of a key, or of the table of that name, as people write them; else 'file'."""
        inside = ""
        for number, line in enumerate(self.text.split("\n"), 1):
            if header := re.match(r"\s*\[([^\[\]]+)\]", line):
                inside = re.sub(r"""[\s"']""", "", header[1])
                here = inside == (f"{table}.{key}" if table else key)
            else:
                word = re.match(r"""\s*["']?([^"'=.]*?)["']?\s*[=.]""", line)
                here = inside == table and word is not None and word[1] == key
            if here:
                return f"{self.file}:{number}"
        return str(self.file)


def _choices(word: str, allowed: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(allowed), n=1)
    return (f"nearest: {near[0]}; " if near else "") + f"allowed: {', '.join(allowed)}"


def _near(path: Path, *others: str) -> str:
    there = os.listdir(path.parent) if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, [*there, *others], n=2)
    return f"; nearest: {', '.join(near)}" if near else ""


def _sizes(pairs: Iterable[Pair]) -> tuple[int, dict[str, str | int | float]]:
    """The number of pairs, and what `stats` says of their lengths."""
    words, characters, ratios = [0, 0], [0, 0], array("f")  # 4 bytes a pair, for the median
    for pair in pairs:
        words = [words[0] + len(pair.source.split()), words[1] + len(pair.target.split())]
        characters = [characters[0] + len(pair.source), characters[1] + len(pair.target)]
        ratios.append(len(pair.target) / len(pair.source))
    return len(ratios), {
        "source_words": words[0],
        "target_words": words[1],
        "source_characters": characters[0],
        "target_characters": characters[1],
        "length_ratio": float(np.median(np.frombuffer(ratios, np.float32))),
    }


def _cell(key: str, value: str | int | float) -> str:
    if isinstance(value, float):
        return f"{value:.2%}" if key == "share" else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else value


def _sides(files: Files) -> Iterator[tuple[str, str]]:
    if files.target is None:
        for number, line in enumerate(lines.read(files.source), 1):
            columns = line.split("\t")
            if len(columns) != 2:
                raise ValueError(
                    f"{files.source}:{number}: {len(columns)} columns; a line is source<TAB>target"
                )
            yield columns[0], columns[1]
        return
    for source, target in itertools.zip_longest(lines.read(files.source), lines.read(files.target)):
        if source is None or target is None:
            raise ValueError(
                f"{files.source} has {lines.count(files.source)} lines, but {files.target} has "
                f"{lines.count(files.target)}: line n of one must be the translation of line n of "
                "the other"
            )
        yield source, target


def _count(path: Path) -> int:
    number = lines.count(path)
    if not number:
        raise ValueError(f"{path}: no lines")
    return number


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()
