"""Folders of published test sets -> sentences: FLORES, BOUQuET, TICO-19, NTREX-128, plain text.

The files in a folder determine its format, in the order of `FORMATS`. Each format has a small
reader that maps files to languages. multiway.py reads and joins files; testset.py has the other
kinds of test sets.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from eval.testsets import multiway
from eval.testsets.multiway import Sentences
from mmt import languages

_SHARE_ALIKE = "CC BY-SA 4.0"


class Content(NamedTuple):
    """The content of a test set; the fields are those of `testsets.TestSet`."""

    name: str
    target: str
    languages: Mapping[str, Sentences]
    domain: str
    licence: str


class Format(NamedTuple):
    """A layout of folders.

    splits: its possible splits, the default first. patterns: globs of its files, which contain
    `{split}`. example: the name of such a file, for error messages. read: a function of a split's
    files and the target's FLORES code; it returns sentences by FLORES code, and the domain.
    select: picks the set's files among those that the globs match; none if they belong to another
    layout.
    """

    title: str
    name: str
    licence: str
    splits: tuple[str, ...]
    patterns: tuple[str, ...]
    example: str
    read: Callable[[Sequence[Path], str], tuple[dict[str, Sentences], str]]
    select: Callable[[Sequence[Path]], Sequence[Path]] = list

    def files(self, folder: Path, split: str) -> Sequence[Path]:
        """Returns the files of a split in `folder`, sorted; () if the folder has another layout."""
        paths = {path for p in self.patterns for path in folder.glob(p.format(split=split))}
        return self.select(sorted(path for path in paths if path.is_file()))

    def splits_in(self, folder: Path) -> tuple[str, ...]:
        """Returns the splits in `folder`."""
        return tuple(split for split in self.splits if self.files(folder, split))


def read(folder: Path, *, split: str | None, target: str) -> Content:
    """Returns the test set in a folder, from every language to `target` (a FLORES code).

    folder: also a split's own folder, such as `flores200_dataset/dev`, or the stem of Moses files,
    `data/test` for `data/test.de` and `data/test.en`. split: default, `devtest` for FLORES, else
    `test`. If a set has several varieties of a language (NTREX-128: `por`, `por-BR`; FLORES+:
    `twi_Latn_akua1239`, `twi_Latn_asan1239`), the language's own file is read, or else the first by
    name.

    Raises:
      ValueError: the folder has none of the formats, or lacks the split; the message lists what is
        expected or available. Also for an unknown or duplicate language, a missing target or side,
        sides of unequal length, and an empty or undecodable line; the message names the file and,
        if any, the line.
    """
    if is_stem(folder):
        return _of_stem(folder, split, target)
    form, folder, inside = _recognise(folder)
    splits = (inside,) if inside else form.splits_in(folder)
    chosen = split or inside or form.splits[0]
    if chosen not in splits:
        raise ValueError(
            f"{folder}: {form.title} has no {chosen!r} split here, only {', '.join(splits)}"
        )
    files = form.files(folder, chosen)
    sentences, domain = form.read(files, target)
    if not sentences:
        raise ValueError(f"{folder}: no language to translate into {target}")
    name = form.name or folder.resolve().name
    suffix = f"-{chosen}" if len(form.splits) > 1 else ""
    return Content(name + suffix, target, sentences, domain, form.licence)


def is_stem(path: Path) -> bool:
    """Returns whether `path` is the stem of Moses files, `data/test` of `data/test.de`."""
    return not path.exists() and path.name in _moses(path.parent.glob("*.*"))


def document_of(name: str) -> str:
    """Returns the document of a sentence id: `JHN.4.10` -> `JHN.4`, `bbc.381790:1` -> `bbc.381790`.

    It is the part before the last colon, or else before the last full stop; '' without either.
    """
    return name.rpartition(":" if ":" in name else ".")[0]


def _of_stem(stem: Path, split: str | None, target: str) -> Content:
    if split not in (None, "test"):
        raise ValueError(f"{stem}: Moses files have no {split!r} split; name the stem of the split")
    stems = _moses(stem.parent.glob("*.*"))
    folder = stem.parent.resolve().name
    name = f"{folder}-{stem.name}" if len(stems) > 1 else folder
    return Content(name, target, _plain(list(stems[stem.name]), target)[0], "", "")


def _recognise(folder: Path) -> tuple[Format, Path, str]:
    """Returns the format, its folder, and the split if the folder is a split's own folder."""
    resolved = folder.resolve()
    for form in FORMATS:
        if form.splits_in(folder):
            return form, folder, ""
        if len(form.splits) > 1 and resolved.name in form.splits_in(resolved.parent):
            return form, resolved.parent, resolved.name
    looked = [f"{form.example} ({form.title})" for form in FORMATS]
    raise ValueError(f"{folder}: no test set; looked for corpus.toml, {', '.join(looked)}")


def _flores101(files: Sequence[Path], target: str) -> tuple[dict[str, Sentences], str]:
    names = {path: _FLORES_101.get(path.stem, path.stem) for path in files}
    return _flores_lines(multiway.by_language(names), files[0].parent, target)


_NO_SCRIPT = "[a-z]{3}|zho_simpl|zho_trad"
# Codes that FLORES-200 maps differently from their usual meaning, by its table.
_FLORES_101 = {"zho_simpl": "zho_Hans", "zho_trad": "zho_Hant", "ful": "fuv_Latn"}


def _flores200(files: Sequence[Path], target: str) -> tuple[dict[str, Sentences], str]:
    paths = multiway.by_language({path: path.stem for path in files})
    return _flores_lines(paths, files[0].parent, target)


def _flores_lines(
    paths: Mapping[str, Path], folder: Path, target: str
) -> tuple[dict[str, Sentences], str]:
    """Reads the files of a split, line by line; another file has documents and domains."""
    metadata = folder.parent / f"metadata_{folder.name}.tsv"
    rows = multiway.columns(metadata, "URL", "domain") if metadata.is_file() else []
    documents = {number: row[0] for number, row in enumerate(rows, 1)}
    domain = ", ".join(dict.fromkeys(row[1] for row in rows if row[1].strip()))
    return multiway.to_target(multiway.texts(paths), target, (metadata, documents)), domain


def _flores_plus(files: Sequence[Path], target: str) -> tuple[dict[str, Sentences], str]:
    """Reads FLORES+; a name may end with a variety after the script: `twi_Latn_akua1239`."""
    kinds = {path.suffix if path.suffix in _RECORDS else "": path for path in files}
    if len(kinds) > 1:
        first, second, *_ = sorted(kinds.values())
        raise ValueError(f"{first} and {second} are of two releases of FLORES+; remove one release")
    names = {path: path.suffix[1:] if "" in kinds else path.stem for path in files}
    paths = multiway.by_language(
        {path: _without_variety(name) for path, name in names.items()}, varieties=True
    )
    if "" in kinds:
        return _flores_lines(paths, files[0].parent, target)
    return _record_files(paths, target, text="text", document="url")


def _record_files(
    paths: Mapping[str, Path], target: str, *, text: str, document: str, key: str = "id"
) -> tuple[dict[str, Sentences], str]:
    """Reads files with one row per sentence, whose columns have these names."""
    rows = {
        code: (path, multiway.records(path, key=key, text=text, document=document))
        for code, path in paths.items()
    }
    texts = {
        code: (path, {name: row[text] for name, row in by_key.items()})
        for code, (path, by_key) in rows.items()
    }
    path, by_key = rows.get(target, (next(iter(paths.values())), {}))
    documents = {name: str(row.get(document) or "") for name, row in by_key.items()}
    domains = (str(row["domain"]) for row in by_key.values() if row.get("domain"))
    if not all(documents.values()):
        documents = {}
    return multiway.to_target(texts, target, (path, documents)), ", ".join(dict.fromkeys(domains))


def _bouquet(files: Sequence[Path], target: str) -> tuple[dict[str, Sentences], str]:
    """Reads BOUQuET's sentences; languages that the table of languages lacks are left out."""
    names = {path: _without_variety(path.stem) for path in files}
    unknown = [path.stem for path, name in names.items() if not _known(name)]
    if unknown:
        warnings.warn(
            f"{files[0].parent}: {len(unknown)} languages are unknown and left out: "
            f"{', '.join(unknown[:10])}{', …' if unknown[10:] else ''}",
            stacklevel=2,
        )
    known = {path: name for path, name in names.items() if path.stem not in unknown}
    paths = multiway.by_language(known, varieties=True)
    return _record_files(paths, target, key="uniq_id", text="src_text", document="par_id")


def _without_variety(name: str) -> str:
    """Returns language and script of a file's name: 'twi_Latn' for 'twi_Latn_akua1239'."""
    return "_".join(name.split("_")[:2])


_RECORDS = (".jsonl", ".parquet")  # suffixes of releases with one row per sentence
_PLAIN_FLORES = r"\.[a-z]{3}_[A-Z][a-z]{3}\w*"  # and of those with one file per language


def _ntrex(files: Sequence[Path], target: str) -> tuple[dict[str, Sentences], str]:
    names = {path: match[1] for path in files if (match := _NTREX.fullmatch(path.name))}
    paths = multiway.by_language(multiway.check_unique(names), varieties=True)
    folder = files[0].parent
    places = [parent / "DOCUMENT_IDS.tsv" for parent in (folder, folder.parent)]
    ids = next((path for path in places if path.is_file()), places[0])
    documents = multiway.numbered(ids) if ids.is_file() else {}
    return multiway.to_target(multiway.texts(paths), target, (ids, documents)), "news"


_NTREX = re.compile(r"newstest2019-(?:src|ref)\.(.+)\.txt")  # `ref-2` is a second translation


def _tico19(files: Sequence[Path], target: str) -> tuple[dict[str, Sentences], str]:
    """Reads TICO-19; rows with an empty side, which the release has, are skipped."""
    source_names: dict[Path, str] = {}
    turned = set()
    for path in files:
        first, _, second = path.stem.partition(".")[2].partition("-")
        codes = multiway.code_of(first, path), multiway.code_of(second, path)
        if target in codes:
            source_names[path] = first if codes[1] == target else second
            turned |= {path} if codes[0] == target else set()
    if not source_names:
        raise ValueError(f"{files[0].parent}: no file has {target}; it has: {files[0].name}, …")
    by_language = {}
    for code, path in sorted(
        multiway.by_language(multiway.check_unique(source_names), varieties=True).items()
    ):
        rows = multiway.columns(path, "sourceString", "targetString", "stringID")
        complete = [row for row in rows if row[0].strip() and row[1].strip()]
        if not complete:
            raise ValueError(f"{path}: no row with both sides")
        first_side, second_side, ids = zip(*complete, strict=True)
        sides = (second_side, first_side) if path in turned else (first_side, second_side)
        by_language[code] = Sentences(*sides, tuple(map(document_of, ids)))
    return by_language, "health (COVID-19)"


def _plain(files: Sequence[Path], target: str) -> tuple[dict[str, Sentences], str]:
    stems, folder = _moses(files), files[0].parent
    if len(stems) > 1:
        several = ", ".join(stems)
        raise ValueError(
            f"{folder}: {several} are separate test sets; name one, such as {folder / min(stems)}"
        )
    for names in stems.values():
        paths = multiway.by_language(names)
        return multiway.to_target(multiway.texts(paths), target, (files[0], {})), ""
    return _by_suffix(files, target), ""


def _by_suffix(files: Sequence[Path], target: str) -> dict[str, Sentences]:
    sources, references, tables = (
        multiway.by_language({path: path.stem for path in files if path.suffix == suffix})
        for suffix in _SUFFIXES
    )
    for code in sorted(sources.keys() ^ references.keys()):
        path, lacking = (sources[code], "ref") if code in sources else (references[code], "src")
        raise ValueError(f"{path}: missing {path.with_suffix('.' + lacking)}")
    by_language = {}
    for code, path in (sources | tables).items():
        if code in sources and code in tables:
            raise ValueError(f"{sources[code]} and {path} are both {code}; remove one")
        if code == target:
            raise ValueError(f"{path}: {code} is the target and cannot be a source")
        if code in tables:
            by_language[code] = multiway.pairs(path)
        else:
            sides = multiway.texts({code: path, target: references[code]})
            by_language |= multiway.to_target(sides, target, (path, {}))
    return dict(sorted(by_language.items()))


def _plain_files(files: Sequence[Path]) -> Sequence[Path]:
    """Returns the files named by their language, or else those of Moses stems."""
    named = [path for path in files if path.suffix in _SUFFIXES]
    return named or [path for names in _moses(files).values() for path in names]


def _moses(files: Iterable[Path]) -> dict[str, dict[Path, str]]:
    """Returns stem -> {file: LANGUAGE} of files STEM.LANGUAGE, for stems with two or more
    languages.

    All files of such a stem are included; the reader rejects unknown languages.
    """
    by_stem: dict[str, dict[Path, str]] = {}
    for path in sorted(files):
        stem, _, name = path.name.removesuffix(".gz").rpartition(".")
        if stem and path.suffix not in _SUFFIXES and path.is_file():
            by_stem.setdefault(stem, {})[path] = name
    return {stem: names for stem, names in by_stem.items() if sum(map(_known, names.values())) > 1}


def _known(name: str) -> bool:
    try:
        return bool(languages.find(name))
    except ValueError:
        return False


def _flores101_files(files: Sequence[Path]) -> Sequence[Path]:
    """Returns all files if none has a script in its name, as in FLORES-101."""
    return files if all(re.fullmatch(_NO_SCRIPT, path.stem) for path in files) else []


def _bouquet_files(files: Sequence[Path]) -> Sequence[Path]:
    """Returns the files of the folder `sentence_level`; that of paragraphs is refused."""
    for path in files:
        if path.parent.parent.name == "paragraph_level":
            raise ValueError(
                f"{path.parent.parent}: paragraphs of BOUQuET are not read; name the folder "
                f"{path.parent.parent.with_name('sentence_level')}"
            )
    return [path for path in files if path.parent.parent.name == "sentence_level"]


def _flores_plus_files(files: Sequence[Path]) -> Sequence[Path]:
    """Returns the records, and the plain files of a whole release, which has `devtest`."""
    records = [path for path in files if path.suffix in _RECORDS]
    plain = [path for path in files if re.fullmatch(_PLAIN_FLORES, path.suffix)]
    return [*records, *(path for path in plain if (path.parent.parent / "devtest").is_dir())]


_SUFFIXES = (".src", ".ref", ".tsv")  # suffixes of files named by their language

FORMATS = (
    Format(
        "FLORES-101", "flores101", _SHARE_ALIKE, ("devtest", "dev"),
        ("{split}/*.{split}",), "devtest/deu.devtest", _flores101,
        _flores101_files,
    ),
    Format(
        "FLORES-200", "flores200", _SHARE_ALIKE, ("devtest", "dev"),
        ("{split}/*.{split}",), "devtest/deu_Latn.devtest", _flores200,
    ),
    Format(
        "BOUQuET", "bouquet", _SHARE_ALIKE, ("test", "dev"),
        ("data/sentence_level/{split}/*.parquet", "{split}/*.parquet"),
        "data/sentence_level/test/deu_Latn.parquet", _bouquet, _bouquet_files,
    ),
    Format(
        "FLORES+", "flores_plus", _SHARE_ALIKE, ("devtest", "dev"),
        ("{split}/{split}.*", "{split}/*.jsonl", "{split}/*.parquet"),
        "devtest/deu_Latn.jsonl or devtest/devtest.deu_Latn", _flores_plus,
        _flores_plus_files,
    ),
    Format(
        "TICO-19", "tico19", "CC0 1.0", ("test", "dev"),
        ("{split}/{split}.*-*.tsv",), "test/test.en-sw.tsv", _tico19,
    ),
    Format(
        "NTREX-128", "ntrex128", _SHARE_ALIKE, ("test",),
        ("newstest2019-*.txt", "NTREX-128/newstest2019-*.txt"), "newstest2019-ref.deu.txt", _ntrex,
    ),
    Format(
        "plain text", "", "", ("test",),
        ("*.*",), "test.de and test.en, deu.src and deu.ref, or deu.tsv", _plain, _plain_files,
    ),
)  # fmt: skip
