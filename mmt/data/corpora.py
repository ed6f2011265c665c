"""A corpus folder: parallel text, described by one small `corpus.toml`, read as a stream of pairs.

    name = "my_corpus"                                            # default: the folder's name
    target = "eng"                                                # default: English
    domain = "news"                                               # free text for reports
    licence = "CC BY-SA 4.0"                                      # free text for reports
    [train]
    deu = { source = "corpus.de.gz", target = "corpus.en.gz" }    # two files, line by line
    swh = "swh.tsv"                                               # source<TAB>target
    fra = ["a.tsv.zst", { source = "b.fr", target = "b.en" }]     # several entries
    yor = { source = "yor.tsv", target = "eng.tsv", join = "id" } # id<TAB>text each: multi-way
    zul = { pairs = "zul.tsv", sample = 500 }                     # a fixed random sample
    ibo = { pairs = "ibo.jsonl", columns = ["ig", "en"] }         # source and target column
    hau = { pairs = "news/*.tmx.gz", name = "news" }              # a glob; the entry's name
    twi = { pairs = "twi.tsv", back_translated = true }           # sources are made by a model
    ita = { pairs = "ita.tsv", documents = true }                 # an empty line ends a document
    "*" = { locales = "app/locales" }                             # each language of a folder
    [validation]                                                  # as [train]; also [test]
    [monolingual]                                                 # text without a translation
    deu = "news.de.gz"                                            # lines; also of the target
    swh = { text = "web.jsonl", column = "body" }
    [clean]                                                       # cleaning rules: rulebook.py

A description without [train] is a test set, or monolingual text. Languages have any name that
`mmt.languages.find` knows; paths are relative to the file. The suffix of a file says its format
(`readers`: TSV, JSONL, TMX, XLIFF, PO, MO, Parquet; anything else is TSV, or lines of text). Files
may be compressed (`.gz`, `.bz2`, `.xz`, `.zst`, `.zip`). An entry may also be a glob, a folder, a
saved Hugging Face data set (entries.py) or `{ mtdata = "ID" }` (readers/mtdata.py). Nothing is
repaired or skipped: a fault is a ValueError with the file and the line (from 1; only a line feed
ends a line) or unit.
"""

import functools
import hashlib
import itertools
import json
import os
import re
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmt import languages, suggest
from mmt.data import entries, readers
from mmt.data.entries import MONOLINGUAL, describe_misplaced
from mmt.data.pair import SPLITS, Pair
from mmt.data.readers import locales
from mmt.data.readers.files import Files
from mmt.system import text_lines, toml_place

if TYPE_CHECKING:
    from mmt.data.cleaning.rulebook import Rulebook

_ALL_LOCALES = "*"  # in place of a language: each one of a folder of locales
_TEXTS = ("domain", "licence")
EMBEDDED = "cldr"  # the name of the embedded corpus for `load`


@dataclass(frozen=True)
class Corpus:
    """A described corpus; `load` returns one. `pairs`, `count` and `hash` read its files.

    Attributes:
      name: the corpus's name in tasks, caches and results.
      target: FLORES code of the target language.
      root: the folder of the description.
      files: split -> FLORES code of the source -> its files, in reading order; 'monolingual', text
        without translation, counts as a split.
      clean: the cleaning rules of the training pairs, where it has any.
      reverse: whether pairs are from the target into all languages, see `reversed`.
      domain, licence: free text, '' where the description has none.
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
        """Returns the corpus for translating from its target.

        The sides of pairs are swapped, and `Pair.language` is the target's. Back-translated pairs
        are omitted.
        """
        return replace(self, reverse=not self.reverse)

    @property
    def languages(self) -> tuple[str, ...]:
        """Returns the source languages as sorted FLORES codes: those to train on, if any."""
        splits = ("train",) if self.files["train"] else SPLITS
        codes = {code for split in splits for code in self.files[split]}
        if self.reverse:  # a language may have nothing but back-translated pairs
            codes = {c for c in codes if any(self.entries(c, split) for split in splits)}
        return tuple(sorted(codes))

    @property
    def monolingual(self) -> tuple[str, ...]:
        """Returns the languages with monolingual text, as sorted FLORES codes."""
        return tuple(sorted(self.files.get(MONOLINGUAL, ())))

    @property
    def back_translated(self) -> bool:
        """Returns whether some training pairs are back-translated."""
        files = self.files.get("train", {}).values()  # a TFDS corpus has no files
        return any(entry.back_translated for of_language in files for entry in of_language)

    def pairs(self, language: str, split: str) -> Iterator[Pair]:
        """Yields the pairs of a language (by any name) and split, in the files' order.

        Pairs of 'monolingual' have an empty source.

        Raises:
          ValueError: before the first pair, for a missing language or split; while reading, with
            file and line, for files of different length, empty files, broken UTF-8, an empty side,
            a TSV line without exactly two columns, and a damaged archive.
        """
        files, code = self._files(language, split)
        if not files:
            raise ValueError(
                f"corpus {self.name} has no {split} pairs of {code}; available: "
                f"{', '.join(sorted(self.files.get(split, ()))) or 'no language'}"
            )
        return itertools.chain.from_iterable(self._read(entry, code) for entry in files)

    def entries(self, language: str, split: str) -> tuple[str, ...]:
        """Returns the names of the entries of a language and split, in order; `Pair.corpus` is one.

        A glob or folder gives an entry per file.
        """
        return tuple(dict.fromkeys(entry.name for entry in self._files(language, split)[0]))

    def part(self, index: int, of: int) -> "Corpus":
        """Returns the corpus with every `of`-th entry of each language, from the `index`-th.

        Entries that `pairs` does not read do not count.
        """
        files = {
            split: {code: self._files(code, split)[0][index::of] for code in by_language}
            for split, by_language in self.files.items()
        }
        return replace(self, files=files)

    def only(self, names: Iterable[str]) -> "Corpus":
        """Returns the corpus restricted to some source languages, given by any names.

        Raises ValueError for a language that it does not have; the message has the nearest.
        """
        codes = {languages.find(name).code for name in names}
        for code in sorted(codes - set(self.languages)):
            near = suggest.hint(code, self.languages, 3, cutoff=0.0)
            raise ValueError(
                f"corpus {self.name} has no {code} among its {len(self.languages)} languages{near}"
            )
        files = {
            split: {code: entries for code, entries in by_language.items() if code in codes}
            for split, by_language in self.files.items()
        }
        return replace(self, files=files)

    def count(self, language: str, split: str) -> int:
        """Returns the number of pairs that `pairs` yields; 0 without files.

        Files of lines and of rows are counted without decoding; others are read.
        """
        return sum(pairs for _, pairs in self.counts(language, split))

    def counts(self, language: str, split: str) -> list[tuple[str, int]]:
        """Returns the name and the number of pairs of each entry, in order."""
        files, _ = self._files(language, split)
        return [(entry.name, readers.count(entry)) for entry in files]

    def hash(self) -> str:
        """Returns 16 hex digits of the corpus's name, languages and contents, not of its path."""
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
        """Reads all pairs once; raises the ValueError of the first fault."""
        for split, by_language in self.files.items():
            for code in by_language:
                for _ in self.pairs(code, split) if self.entries(code, split) else ():
                    pass

    def _files(self, language: str, split: str) -> tuple[tuple[Files, ...], str]:
        if split not in (*SPLITS, MONOLINGUAL):
            raise ValueError(f"unknown split {split!r}; {suggest.choices(split, SPLITS)}")
        code = languages.find(language).code
        files = self.files.get(split, {}).get(code, ())
        return tuple(entry for entry in files if not (self.reverse and entry.back_translated)), code

    def _read(self, files: Files, language: str) -> Iterator[Pair]:
        last_line = 0
        for line, source, target, name in readers.read(files):
            source = "" if files.text else source
            if self.reverse and not files.text:
                source, target = target, source
            follows = files.documents and last_line > 0 and line == last_line + 1
            last_line = line
            yield Pair(
                source, target, language, files.name, line, name, files.back_translated, follows
            )


def load(path: str | Path) -> Corpus:
    """Returns the corpus of a folder with a `corpus.toml`, of such a file, or of 'cldr'.

    'cldr' is the embedded corpus.

    Raises:
      ValueError: with file, key and (where known) line, for a description that is not TOML, an
        unknown key or language, a missing file, a repeated language, a language without training
        pairs, and no language at all.
    """
    if path == EMBEDDED:
        from mmt.data import cldr  # imported late: loads Babel

        path = cldr.ensure()
    return _Description(check_place(path)).corpus()


def check_place(path: str | Path) -> Path:
    """Returns the path of a corpus's description, unread. Raises ValueError if there is none."""
    given_path = Path(path)
    file = given_path / "corpus.toml" if given_path.is_dir() else given_path
    if path != EMBEDDED and not file.is_file():
        problem = (
            describe_misplaced(file) or f"no corpus at {str(path)!r}{_hint(given_path, EMBEDDED)}"
        )
        raise ValueError(
            f"{problem}; a corpus is a folder with a corpus.toml, such a file, or {EMBEDDED!r}, "
            "the embedded one"
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
        allowed = ("name", "target", *_TEXTS, *SPLITS, MONOLINGUAL, "clean")
        for key in self.content:
            if key not in allowed:
                choices = suggest.choices(key, allowed)
                raise ValueError(f"{self._location(key)}: unknown key {key!r}; {choices}")
        name = self.content.get("name", re.sub(r"\W", "_", self.file.absolute().parent.name))
        if not isinstance(name, str) or not re.fullmatch(r"[\w.]+", name):
            raise ValueError(
                f"{self._location('name')}: name is {name!r}; allowed are letters, digits, '_' and "
                "'.'"
            )
        target = self._language(
            "target", self.content.get("target", "eng"), self._location("target")
        )
        files = {split: self._split(split, target) for split in SPLITS}
        if MONOLINGUAL in self.content:
            files[MONOLINGUAL] = self._split(MONOLINGUAL, target)
        if not files["train"] and ("train" in self.content or not any(files.values())):
            raise ValueError(f"{self._location('train')}: no languages: [train] names none")
        for split in SPLITS[1:] if files["train"] else ():
            keys = {languages.find(key).code: key for key in self.content.get(split, {})
                    if key != _ALL_LOCALES}  # fmt: skip
            for code in files[split]:
                key = keys.get(code, _ALL_LOCALES)
                if code not in files["train"]:
                    raise ValueError(
                        f"{self._location(key, split)}: {key} ({code}) has no [train] pairs; "
                        f"{suggest.choices(code, sorted(files['train']))}"
                    )
        domain, licence = map(self._text, _TEXTS)
        corpus = Corpus(
            name, target, self.file.parent, files, self._clean(), domain=domain, licence=licence
        )
        if corpus.clean:
            named = [(code, corpus.entries(code, "train")) for code in files["train"]]
            names = [name for _, names in named for name in names]
            for fault in corpus.clean.check(dict(named), names):
                raise ValueError(fault)
        return corpus

    def _text(self, key: str) -> str:
        text = self.content.get(key, "")
        if not isinstance(text, str) or not text_lines.one_line(text):
            raise ValueError(f"{self._location(key)}: {key} is {text!r}; expected text on one line")
        return text

    def _clean(self) -> "Rulebook | None":
        if "clean" not in self.content:
            return None
        from mmt.data.cleaning import rulebook  # imported late: loads ftfy, which few corpora need

        return rulebook.parse(self.content["clean"], self._location, folder=self.file.parent)

    def _split(self, split: str, target: str) -> dict[str, tuple[Files, ...]]:
        table = self.content.get(split, {})
        if not isinstance(table, dict):
            raise ValueError(f"{self._location(split)}: {split} must be a table, [{split}]")
        files: dict[str, tuple[Files, ...]] = {}
        for key, value in self._expand_locales(table, split, target).items():
            location = self._location(key, split)
            code = self._language("language", key, location)
            if code == target and split != MONOLINGUAL:
                raise ValueError(f"{location}: {key} ({code}) is the target and cannot be a source")
            if code in files:
                raise ValueError(f"{location}: {key} ({code}) is listed already under another name")
            listed_entries = value if isinstance(value, list) else [value]
            if not listed_entries:
                raise ValueError(f"{location}: {key} has no files")
            context = entries.EntryContext(self.file.parent, split, (code, target))
            try:
                files[code] = entries.read_all(listed_entries, context)
            except locales.UntranslatedError as error:
                if key in table:
                    raise ValueError(f"{location}: {error}") from None
                warnings.warn(f"{code} is left out: {error}", stacklevel=2)
            except (ValueError, OSError) as error:
                raise ValueError(f"{location}: {error}") from None
        return files

    def _expand_locales(self, table: dict[str, Any], split: str, target: str) -> dict[str, Any]:
        """Returns a table with the languages of a folder of locales in place of `"*"`."""
        if _ALL_LOCALES not in table:
            return table
        location, value = self._location(_ALL_LOCALES, split), table[_ALL_LOCALES]
        if not isinstance(value, dict) or not isinstance(value.get("locales"), str):
            raise ValueError(f'{location}: "*" is {value!r}; expected {{ locales = "folder" }}')
        listed_codes = {
            self._language("language", key, self._location(key, split))
            for key in table
            if key != _ALL_LOCALES
        }
        try:
            codes = locales.languages(self.file.parent / value["locales"], target)
        except (ValueError, OSError) as error:
            raise ValueError(f"{location}: {error}") from None
        other_entries = {key: value for key, value in table.items() if key != _ALL_LOCALES}
        return other_entries | {code: value for code in codes if code not in listed_codes}

    def _language(self, role: str, name: object, location: str) -> str:
        try:
            return languages.find(str(name)).code
        except ValueError as error:
            raise ValueError(f"{location}: {role}: {error}") from None

    def _location(self, key: str, table: str = "") -> str:
        return toml_place.located(self.text, self.file, key, table)


def _hint(path: Path, *others: str) -> str:
    names = [*(os.listdir(path.parent) if path.parent.is_dir() else []), *others]
    return suggest.hint(path.name, [name for name in names if name != path.name], 2)


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()
