"""A corpus folder: parallel text, described by one small `corpus.toml`, read as a stream of pairs.

    name = "my_corpus"                                            # default: the folder's name
    target = "eng"                                                # default: English
    domain = "news"                                               # in words, for reports;
    licence = "CC BY-SA 4.0"                                      # nothing is made of it
    [train]
    deu = { source = "corpus.de.gz", target = "corpus.en.gz" }    # two files, line by line
    swh = "swh.tsv"                                               # source<TAB>target
    fra = ["a.tsv.zst", { source = "b.fr", target = "b.en" }]     # several
    yor = { source = "yor.tsv", target = "eng.tsv", join = "id" } # id<TAB>text each: multi-way
    zul = { pairs = "zul.tsv", sample = 500 }                     # so many, drawn once for all
    ibo = { pairs = "ibo.jsonl", columns = ["ig", "en"] }         # which is source, which is target
    hau = { pairs = "news/*.tmx.gz", name = "news" }              # a glob, and the entry's own name
    twi = { pairs = "twi.tsv", back_translated = true }           # a model made the sources
    [validation]                                                  # as [train]; also [test]
    [monolingual]                                                 # text without a translation
    deu = "news.de.gz"                                            # lines; also of the target
    swh = { text = "web.jsonl", column = "body" }
    [clean]                                                       # rules of cleaning: rulebook.py

A description without [train] is a test set, or monolingual text.  Languages go by any name
`mmt.languages.find` knows, paths are relative to the file.  What a file holds is told by its suffix
(readers.py: TSV, JSONL, TMX, XLIFF, PO, MO, Parquet; anything else is TSV, or lines of text),
`.gz`, `.bz2`, `.xz`, `.zst` and `.zip` are unpacked on the way (packed.py), and an entry may be a
glob, a folder, a saved Hugging Face data set (entries.py) or `{ mtdata = "ID" }` (mtdata.py).
Nothing is repaired or skipped here: a fault is a ValueError that names the file and the line (from
1; only a line feed ends a line) or unit.
"""

import functools
import hashlib
import itertools
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mmt import languages, suggest
from mmt.data import entries, readers
from mmt.data.entries import MONOLINGUAL
from mmt.data.entries import misplaced as _misplaced
from mmt.data.pair import SPLITS, Pair
from mmt.data.readers.files import Files
from mmt.system import text_lines, toml_place

if TYPE_CHECKING:
    from mmt.data.cleaning.rulebook import Rulebook

_SAID = ("domain", "licence")
EMBEDDED = "cldr"  # what `load` takes for the corpus that needs no files


@dataclass(frozen=True)
class Corpus:
    """A described corpus.  Made by `load`; nothing is read before `pairs`, `count` or `hash`.

    Attributes:
      name: what tasks, caches and results call it.
      target: FLORES code of the side that is translated into.
      root: the folder of the description.
      reverse: read the other way, from the target into all languages: `reversed`.
      domain, licence: in words, '' where the description has none.
      files: split -> FLORES code of the source -> its files, in the order they are read; beside
        the splits there may be 'monolingual', the text that has no translation.
      clean: the rules by which the training pairs are to be cleaned, where it has such.
    """

    name: str
    target: str
    root: Path
    files: Mapping[str, Mapping[str, tuple[Files, ...]]] = field(repr=False, hash=False)
    clean: "Rulebook | None" = field(default=None, repr=False, hash=False)
    reverse: bool = False
    domain: str = ""
    licence: str = ""

    def reversed(self) -> "Corpus":
        """The corpus for translating out of its target: a pair's source is its target, `language`
        says into what. Pairs whose sources a model made are not in it.
        """
        return replace(self, reverse=not self.reverse)

    @property
    def languages(self) -> tuple[str, ...]:
        """The source languages as sorted FLORES codes: those with a train split, where one has."""
        codes = set(self.files["train"]).union(
            *(() if self.files["train"] else (self.files[split] for split in SPLITS))
        )
        if self.reverse:  # a language may have nothing but back-translated pairs
            codes = {code for code in codes if self.entries(code, "train")}
        return tuple(sorted(codes))

    @property
    def monolingual(self) -> tuple[str, ...]:
        """The languages of which there is monolingual text, as sorted FLORES codes."""
        return tuple(sorted(self.files.get(MONOLINGUAL, ())))

    @property
    def back_translated(self) -> bool:
        """Whether a model made the sources of some training pairs."""
        files = self.files.get("train", {}).values()  # a corpus of TFDS has none
        return any(entry.back_translated for of_language in files for entry in of_language)

    def pairs(self, language: str, split: str) -> Iterator[Pair]:
        """Streams the pairs of a language (any name of it) and split, in the files' order. Those of
        'monolingual' are texts with an empty source.

        Raises:
          ValueError: before the first pair, for a language or split that is not there; on the way,
            with file and line, for files of different length, no lines at all, broken UTF-8, an
            empty side, a TSV line that has not two columns, and a damaged archive.
        """
        files, code = self._files(language, split)
        if not files:
            raise ValueError(
                f"corpus {self.name} has no {split} pairs of {code}; it has those of: "
                f"{', '.join(sorted(self.files.get(split, ()))) or 'no language'}"
            )
        return itertools.chain.from_iterable(self._read(entry, code) for entry in files)

    def entries(self, language: str, split: str) -> tuple[str, ...]:
        """The names of what a language and split is read from, in order; `Pair.corpus` is one.

        A glob or folder is an entry for each file that it matches.
        """
        return tuple(dict.fromkeys(entry.name for entry in self._files(language, split)[0]))

    def part(self, index: int, of: int) -> "Corpus":
        """The corpus of each language's every `of`-th entry, from the `index`-th."""
        files = {
            split: {code: entries[index::of] for code, entries in by_language.items()}
            for split, by_language in self.files.items()
        }
        return replace(self, files=files)

    def count(self, language: str, split: str) -> int:
        """The number of pairs, as `pairs` finds them; 0 where no file is described.

        Files of lines and of rows are counted without being decoded, the others are read.
        """
        return sum(readers.count(entry) for entry in self._files(language, split)[0])

    def hash(self) -> str:
        """16 hex digits of what the corpus holds: name, languages, contents; not where it lies."""
        content: dict[str, object] = {"name": self.name, "target": self.target}
        digest = functools.cache(_digest)  # languages often share the English file
        for split, by_language in self.files.items():
            content[split] = {
                code: [
                    [*map(digest, entry.paths), *([entry.reading] if entry.reading else [])]
                    for entry in entries
                ]
                for code, entries in sorted(by_language.items())
            }
        if self.clean:
            content["clean"] = self.clean.hash()
        if self.reverse:
            content["reverse"] = True
        return hashlib.blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()

    def validate(self) -> None:
        """Reads everything once; raises the ValueError of the first fault."""
        for split, by_language in self.files.items():
            for code in by_language:
                for _ in self.pairs(code, split):
                    pass

    def _files(self, language: str, split: str) -> tuple[tuple[Files, ...], str]:
        if split not in (*SPLITS, MONOLINGUAL):
            raise ValueError(f"unknown split {split!r}; {suggest.choices(split, SPLITS)}")
        code = languages.find(language).code
        files = self.files.get(split, {}).get(code, ())
        return tuple(entry for entry in files if not (self.reverse and entry.back_translated)), code

    def _read(self, files: Files, language: str) -> Iterator[Pair]:
        for line, source, target, name in readers.read(files):
            source = "" if files.text else source
            if self.reverse and not files.text:
                source, target = target, source
            yield Pair(source, target, language, files.name, line, name, files.back_translated)


def load(path: str | Path) -> Corpus:
    """The corpus of a folder with a `corpus.toml`, of such a file, or 'cldr', the embedded one.

    Raises:
      ValueError: naming file, key and (where it can be told) line, for a description that is not
        TOML, an unknown key or language, a missing file, a language given twice, a language
        without training pairs, and no language at all.
    """
    if path == EMBEDDED:
        from mmt.data import cldr  # late: it loads Babel

        path = cldr.ensure()
    return _Description(check_place(path)).corpus()


def check_place(path: str | Path) -> Path:
    """Returns the description of the corpus at `path`, unread; ValueError where there is none."""
    given = Path(path)
    file = given / "corpus.toml" if given.is_dir() else given
    if path != EMBEDDED and not file.is_file():
        what = _misplaced(file) or f"no corpus at {str(path)!r}{_near(given, EMBEDDED)}"
        raise ValueError(
            f"{what}; a corpus is a folder with a corpus.toml, such a file, or {EMBEDDED!r}, the "
            "embedded one"
        )
    return file


class _Description:
    """A `corpus.toml` being checked."""

    def __init__(self, file: Path):
        self.file = file
        try:
            self.text = file.read_bytes().decode()
            self.content = tomllib.loads(self.text)
        except UnicodeDecodeError as error:
            raise ValueError(f"{file}: it must be UTF-8: {error}") from None
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{file}: {error}") from None

    def corpus(self) -> Corpus:
        allowed = ("name", "target", *_SAID, *SPLITS, MONOLINGUAL, "clean")
        for key in self.content:
            if key not in allowed:
                choices = suggest.choices(key, allowed)
                raise ValueError(f"{self._at(key)}: unknown key {key!r}; {choices}")
        name = self.content.get("name", re.sub(r"\W", "_", self.file.absolute().parent.name))
        if not isinstance(name, str) or not re.fullmatch(r"[\w.]+", name):
            raise ValueError(
                f"{self._at('name')}: name is {name!r}; allowed are letters, digits, '_' and '.'"
            )
        target = self._language("target", self.content.get("target", "eng"), self._at("target"))
        files = {split: self._split(split, target) for split in SPLITS}
        if MONOLINGUAL in self.content:
            files[MONOLINGUAL] = self._split(MONOLINGUAL, target)
        if not files["train"] and ("train" in self.content or not any(files.values())):
            raise ValueError(f"{self._at('train')}: no languages: [train] names none")
        for split in SPLITS[1:] if files["train"] else ():
            for key, code in zip(self.content.get(split, {}), files[split], strict=True):
                if code not in files["train"]:
                    raise ValueError(
                        f"{self._at(key, split)}: {key} ({code}) has no [train] pairs; "
                        f"{suggest.choices(code, sorted(files['train']))}"
                    )
        domain, licence = map(self._said, _SAID)
        corpus = Corpus(
            name, target, self.file.parent, files, self._clean(), domain=domain, licence=licence
        )
        if corpus.clean:
            named = [(code, corpus.entries(code, "train")) for code in files["train"]]
            names = [name for _, names in named for name in names]
            for fault in corpus.clean.check(dict(named), names):
                raise ValueError(fault)
        return corpus

    def _said(self, key: str) -> str:
        text = self.content.get(key, "")
        if not isinstance(text, str) or not text_lines.one_line(text):
            raise ValueError(f"{self._at(key)}: {key} is {text!r}; expected text on one line")
        return text

    def _clean(self) -> "Rulebook | None":
        if "clean" not in self.content:
            return None
        from mmt.data.cleaning import rulebook  # late: it loads ftfy, and few corpora have rules

        return rulebook.parse(self.content["clean"], self._at, folder=self.file.parent)

    def _split(self, split: str, target: str) -> dict[str, tuple[Files, ...]]:
        table = self.content.get(split, {})
        if not isinstance(table, dict):
            raise ValueError(f"{self._at(split)}: {split} must be a table, [{split}]")
        files: dict[str, tuple[Files, ...]] = {}
        for key, value in table.items():
            at = self._at(key, split)
            code = self._language("language", key, at)
            if code == target and split != MONOLINGUAL:
                raise ValueError(f"{at}: {key} ({code}) is the target, it cannot be a source")
            if code in files:
                raise ValueError(f"{at}: {key} ({code}) is there already under another name")
            written = value if isinstance(value, list) else [value]
            if not written:
                raise ValueError(f"{at}: {key} has no files")
            place = entries.Place(self.file.parent, split, (code, target))
            try:
                files[code] = entries.read_all(written, place)
            except (ValueError, OSError) as error:
                raise ValueError(f"{at}: {error}") from None
        return files

    def _language(self, what: str, name: object, at: str) -> str:
        try:
            return languages.find(str(name)).code
        except ValueError as error:
            raise ValueError(f"{at}: {what}: {error}") from None

    def _at(self, key: str, table: str = "") -> str:
        return toml_place.located(self.text, self.file, key, table)


def _near(path: Path, *others: str) -> str:
    names = [*(os.listdir(path.parent) if path.parent.is_dir() else []), *others]
    return suggest.hint(path.name, [name for name in names if name != path.name], 2)


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()
