"""Finds the files of an entry of a corpus description: one file, two, a glob, a folder, a data set.

`readers` reads the files. `corpora` adds the entry's line to errors.
"""

import glob
import itertools
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from mmt import suggest
from mmt.data import readers
from mmt.data.readers import catalogues, locales, mtdata
from mmt.data.readers import records as readers_records
from mmt.data.readers.files import Files, code_of
from mmt.system import compression

_KEYS = (
    "source", "target", "pairs", "mtdata", "join", "sample", "columns", "name", "back_translated",
    "locales", "markup", "documents",
)  # fmt: skip
_TEXT_KEYS = ("text", "column", "sample", "name")
_RECORDS = (".jsonl", ".ndjson", ".json", ".parquet")


MONOLINGUAL = "monolingual"  # the table of monolingual text


class EntryContext(NamedTuple):
    """The context of an entry: the description's folder, the split, both languages' FLORES codes.
    """

    root: Path
    split: str
    languages: tuple[str, str]


def read_all(listed_entries: Iterable[object], context: EntryContext) -> tuple[Files, ...]:
    """Returns the files of all entries of a language.

    Raises:
      ValueError: as `read`; and for entries that share a name or repeat each other. (Mixing rates,
        not repetition, give an entry more weight.)
    """
    read_entry = read_text if context.split == MONOLINGUAL else read
    files = [file for entry in listed_entries for file in read_entry(entry, context)]
    named: dict[str, Path] = {}
    first_files: dict[tuple[object, ...], Path] = {}
    for file in files:
        sides = _real(file.source), _real(file.target), file.columns
        if sides in first_files:
            earlier_file = "" if first_files[sides] == file.source else f" ({first_files[sides]})"
            raise ValueError(
                f"{file.source}{earlier_file} is listed twice; an entry may not repeat another"
            )
        first_files[sides] = file.source
        if named.setdefault(file.name, file.source) != file.source:
            raise ValueError(f"{named[file.name]} and {file.source} are both named {file.name!r}")
    return tuple(files)


def _real(path: Path | None) -> Path | None:
    return path and path.resolve()


def read(entry: object, context: EntryContext) -> tuple[Files, ...]:
    """Returns the files of an entry, each with the name for its pairs.

    Raises:
      ValueError: an unknown key, an invalid value, a missing file.
      UntranslatedError: no file of `locales` has a translated entry.

    >>> read("parts/*.tsv.gz", context)    # doctest: +SKIP
    (Files(source=.../parts/1.tsv.gz, ..., name='parts/1.tsv.gz'), ...)
    """
    table = entry if isinstance(entry, dict) else {"pairs": entry}
    for key in table:
        if key not in _KEYS:
            raise ValueError(f"unknown key {key!r}; {suggest.choices(key, _KEYS)}")
    single = [key for key in ("pairs", "mtdata", "locales") if key in table]
    for side in ("source", "target"):
        if (side in table) == bool(single):
            problem = f"cannot be combined with `{single[0]}`" if single else "is missing"
            raise ValueError(f"{side} {problem} in {entry}")
    if len(single) > 1:
        raise ValueError(f"{single[0]} cannot be combined with `{single[1]}` in {entry}")
    options = _options(table, two=not single)
    if "mtdata" in table:
        files_of_entry = mtdata.find(
            _text(table["mtdata"], "mtdata"), context.split, context.languages
        )
    elif "locales" in table:
        folder = context.root / _text(table["locales"], "folder")
        files_of_entry = [Files(*paths) for paths in locales.pairs(folder, *context.languages)]
    elif single:
        files_of_entry = [Files(*paths) for paths in _matches(_text(table["pairs"]), context)]
    else:
        files_of_entry = _two_sides(_text(table["source"]), _text(table["target"]), context.root)
    if options.sample and len(files_of_entry) > 1:
        raise ValueError(f"sample needs one file; {entry} matches {len(files_of_entry)}")
    named = [_named(files, options, context, len(files_of_entry)) for files in files_of_entry]
    return tuple(locales.translated(named) if "locales" in table else named)


def read_text(entry: object, context: EntryContext) -> tuple[Files, ...]:
    """Returns the files of an entry of monolingual text; ValueError as for `read`.

    >>> read_text({"text": "news.jsonl", "column": "body"}, context)    # doctest: +SKIP
    (Files(source=.../news.jsonl, ..., columns=('body', 'body'), ..., text=True, ...),)
    """
    table = entry if isinstance(entry, dict) else {"text": entry}
    for key in table:
        if key not in _TEXT_KEYS:
            raise ValueError(f"unknown key {key!r}; {suggest.choices(key, _TEXT_KEYS)}")
    if "text" not in table:
        raise ValueError(f"text is missing in {entry}")
    column = table.get("column", "")
    if type(column) not in (str, int) or ("column" in table and not column):
        raise ValueError(f"column is {column!r}; allowed: a column's number, or a key")
    options = _options({key: table[key] for key in ("sample", "name") if key in table}, two=True)
    paths = _texts(_text(table["text"], "text"), context)
    if options.sample and len(paths) > 1:
        raise ValueError(f"sample needs one file; {entry} matches {len(paths)}")
    named = []
    for path in paths:
        text_options = options._replace(columns=_column(path, str(column)), text=True)
        named.append(_named(Files(path), text_options, context, len(paths)))
    return tuple(named)


def _column(path: Path, column: str) -> tuple[str, str] | tuple[()]:
    """Returns the column of a text, for both sides: by default `text` in records, () in plain text.
    """
    suffix = catalogues.suffix(path)
    records = path.is_dir() or suffix in _RECORDS
    if suffix in readers.READERS and suffix != ".tsv" and not records:
        raise ValueError(f"{path}: a {suffix} file has pairs; allowed: plain text, TSV, records")
    if records:
        return column or "text", column or "text"
    return (column, column) if column else ()


def _texts(name: str, context: EntryContext) -> list[Path]:
    path = context.root / name
    if compression.exists(path):
        return [path]
    matches = [path] if path.is_dir() or not glob.has_magic(name) else _glob(name, context.root)
    paths: list[Path] = []
    for match in matches:
        if not match.exists():
            raise _missing(match)
        if readers_records.is_dataset(match):
            paths.append(readers_records.dataset_of(match, "train"))
        elif match.is_dir():
            paths += _inside(match)
        else:
            paths.append(match)
    if not paths:
        raise ValueError(f"{path} is empty: it has no text files")
    return paths


def _options(table: Mapping[str, object], *, two: bool) -> Files:
    """Checks join, sample, columns, name, back_translated, markup and documents."""
    join, sample = table.get("join"), table.get("sample", 0)
    if join not in (None, "id") or (join and not two):
        raise ValueError(f"join is {join!r}; allowed: 'id', of `source` and `target`")
    if type(sample) is not int or sample < ("sample" in table):
        raise ValueError(f"sample is {sample!r}; allowed: a number of pairs, 1 or more")
    name = table.get("name", "")
    if not isinstance(name, str) or not name.isprintable() or ("name" in table and not name):
        raise ValueError(f"name is {name!r}; allowed: a text of one line")
    columns = _columns(table, two=two) if "columns" in table else ()
    back_translated = table.get("back_translated", False)
    if type(back_translated) is not bool:
        raise ValueError(f"back_translated is {back_translated!r}; allowed: true, false")
    markup = table.get("markup", "keep")
    if markup not in catalogues.MARKUP:
        raise ValueError(f"markup is {markup!r}; allowed: {', '.join(catalogues.MARKUP)}")
    documents = table.get("documents", False)
    if type(documents) is not bool or (documents and sample):
        with_sample = f" with sample = {sample}" if sample else ""
        raise ValueError(
            f"documents is {documents!r}{with_sample}; allowed: true, false; true without `sample`"
        )
    return Files(
        Path(), join=join == "id", sample=sample, columns=columns, name=name,
        back_translated=back_translated, markup=str(markup), documents=documents,
    )  # fmt: skip


def _columns(table: Mapping[str, object], *, two: bool) -> tuple[str, str]:
    value = table["columns"]
    if isinstance(value, list) and all(type(column) in (str, int) for column in value):
        columns = tuple(map(str, value))
        if len(columns) == len(set(columns)) == 2 and not two:
            return columns[0], columns[1]
    raise ValueError(
        f"columns is {value!r}; allowed: those of source and target in one file, as [2, 1] or "
        '["text_de", "text_en"]'
    )


def _named(files: Files, options: Files, context: EntryContext, count: int) -> Files:
    default_name = files.name or str(files.source).removeprefix(f"{context.root}{os.sep}")
    name = options.name or default_name
    if options.name and count > 1:
        name = f"{options.name}/{files.name or files.source.name}"
    if options.markup != "keep" and not catalogues.paired(files):
        bilingual = (*locales.BILINGUAL, *locales.MULTILINGUAL)
        if catalogues.suffix(files.source) not in bilingual or files.target:
            raise ValueError(f"{files.source}: it is no catalogue; markup must be 'keep'")
    return files._replace(
        join=options.join, sample=options.sample, columns=options.columns or files.columns,
        languages=context.languages, name=name, text=options.text,
        back_translated=options.back_translated, markup=options.markup,
        documents=options.documents,
    )  # fmt: skip


def _text(value: object, kind: str = "") -> str:
    if isinstance(value, str) and value and value.isprintable():
        return value
    raise ValueError(
        f'{value!r} is no {kind or "file"}; write "pairs.tsv" or {{ source = "…", target = "…" }}'
    )


def _matches(name: str, context: EntryContext) -> list[tuple[Path, Path | None]]:
    """Returns the files of a file name, folder, data set or glob, sorted."""
    path = context.root / name
    if compression.exists(path):
        return [(path, None)]
    if path.is_dir():
        return _folder(path, context)
    if not glob.has_magic(name):
        raise _missing(path)
    pairs = [
        files
        for match in _glob(name, context.root)
        for files in (_folder(match, context) if match.is_dir() else [(match, None)])
    ]
    return pairs


def _glob(name: str, root: Path) -> list[Path]:
    """Returns the matches of a glob; one with `**` descends into folders and matches only files."""
    matches = sorted(root / match for match in glob.glob(name, root_dir=root, recursive=True))
    if "**" in Path(name).parts:
        matches = [match for match in matches if not match.is_dir()]
    if not matches:
        path = root / name
        folder = path.parent if path.parent.is_dir() else path
        raise ValueError(f"{path} matches nothing{_content_of(folder)}")
    return matches


def _two_sides(source: str, target: str, root: Path) -> list[Files]:
    """Returns two files, or the matches of two globs, paired where their wildcards match alike."""
    sides = []
    for name in (source, target):
        path = root / name
        matched: dict[tuple[str, ...], Path] = {(): path}
        if not compression.exists(path):
            if not glob.has_magic(name):
                raise _missing(path)
            matched = {_stars(name, root, match): match for match in _glob(name, root)}
        sides.append(matched)
        for match in matched.values():
            suffix = catalogues.suffix(match)
            one_side = suffix in (".tsv", *catalogues.MONOLINGUAL)
            if suffix in readers.READERS and not one_side:
                raise ValueError(f"{match}: a {suffix} file has both sides; write pairs = …")
    for side, counterpart in (sides, sides[::-1]):
        for stars in side:
            if stars not in counterpart:
                raise ValueError(
                    f"{side[stars]} has no counterpart: {source} and {target} must match in pairs"
                )
    pairs = [Files(sides[0][stars], sides[1][stars]) for stars in sides[0]]
    for files in pairs:
        if _real(files.source) == _real(files.target):
            raise ValueError(f"{files.source} is the source and the target, {source} and {target}")
    return pairs


def _stars(name: str, root: Path, match: Path) -> tuple[str, ...]:
    """Returns the text that each wildcard of a glob in the folder `root` matches."""
    pattern = str(Path(name))
    folder = str(root / name).removesuffix(pattern)
    groups = {"*": "([^/]*)", "?": "([^/])", "**/": "((?:[^/]+/)*)", "**": "(.*)"}
    pattern_parts = re.split(r"((?<![^/])\*\*/|(?<![^/])\*\*$|\*|\?|\[[^\]]+\])", pattern)
    expression = re.escape(folder) + "".join(
        groups.get(part)
        or (f"({part.replace('[!', '[^')})" if part[:1] == "[" else re.escape(part))
        for part in pattern_parts
    )
    matched = re.fullmatch(expression, str(match))
    assert matched, (pattern, match)
    return matched.groups()


def _folder(folder: Path, context: EntryContext) -> list[tuple[Path, Path | None]]:
    """Returns the pairs of files in a folder: a data set, mtdata's output, or files by suffix.

    A warning lists other files, except those of other languages.
    """
    if readers_records.is_dataset(folder):
        return [(readers_records.dataset_of(folder, context.split), None)]
    if mtdata.is_output(folder):
        return list(_by_language(mtdata.output(folder, context.split), folder, context))
    names = _inside(folder)
    single = [path for path in names if catalogues.suffix(path) in readers.READERS]
    others = [path for path in names if path not in single]
    pairs: list[tuple[Path, Path | None]] = [(path, None) for path in single]
    pairs += _by_language(others, folder, context, needed=not single)
    paired = {path for files in pairs for path in files}
    unread = [path for path in others if path not in paired]
    _warn_unread([path for path in unread if not code_of(catalogues.suffix(path)[1:])], folder)
    return sorted(pairs)


def _inside(folder: Path) -> list[Path]:
    """Returns the files of a folder except the description; a warning lists its subfolders."""
    visible = [path for path in sorted(folder.iterdir()) if path.name != "corpus.toml"]
    visible = [path for path in visible if path.name[0] != "."]
    _warn_unread([path for path in visible if path.is_dir()], folder)
    return [path for path in visible if path.is_file()]


def _warn_unread(unread: list[Path], folder: Path) -> None:
    if unread:
        names = ", ".join(path.name for path in unread[:8]) + (", …" if len(unread) > 8 else "")
        warnings.warn(
            f"{folder}: not read: {names}; only files with a known suffix are read in a folder; "
            "use a glob for others, and `**` for subfolders",
            stacklevel=2,
        )


def _by_language(
    paths: Iterable[Path], folder: Path, context: EntryContext, *, needed: bool = True
) -> Iterable[tuple[Path, Path | None]]:
    """Pairs files whose names differ in a language suffix: x.de.gz and x.en.gz."""
    sides: dict[tuple[str, str], Path] = {}
    for path in paths:
        stem, _, suffix = compression.name(path).rpartition(".")
        code = code_of(suffix)
        if stem and code in context.languages:
            if (stem, code) in sides:
                raise ValueError(f"{sides[stem, code]} and {path} are both {stem} in {code}")
            sides[stem, code] = path
    if needed and not any(code == context.languages[0] for _, code in sides):
        raise ValueError(
            f"{folder} has no files of pairs ({', '.join(readers.READERS)}) and none that end in "
            f"{' and '.join(context.languages)}{_content_of(folder)}"
        )
    source, target = context.languages
    by_stem = {stem: path for (stem, code), path in sides.items() if code == source}
    for stem, path in by_stem.items():
        if (stem, target) not in sides:
            raise ValueError(f"{path} has no counterpart in {target}{_content_of(folder)}")
    return [(path, sides[stem, target]) for stem, path in by_stem.items()]


def describe_misplaced(path: Path) -> str:
    """Returns '…/a.tsv is a folder, no file' or 'is a link that leads nowhere'; '' for neither."""
    kind = "a folder, no file" if path.is_dir() else "a link that leads nowhere"
    return f"{path} is {kind}" if path.is_dir() or path.is_symlink() else ""


def _missing(path: Path) -> ValueError:
    return ValueError(describe_misplaced(path) or f"no file {path}{_hint(path)}")


def _hint(path: Path) -> str:
    names = os.listdir(path.parent) if path.parent.is_dir() else []
    zip_file = compression.file(path)
    if zip_file != path:
        names = [name.rpartition("/")[2] for name in compression.members(zip_file)]
    return suggest.hint(path.name, names, 2)


def _content_of(folder: Path) -> str:
    if not folder.is_dir():
        return f"; there is no folder {folder}"
    names = list(itertools.islice(sorted(os.listdir(folder)), 8))
    return f"; in {folder}: {', '.join(names) or 'nothing'}"
