"""A folder of locales: catalogues whose paths differ in the code of a language.

    de.json, app_de.arb, messages.de.properties, de/common.json, de.lproj/Localizable.strings,
    values-de/strings.xml, de/LC_MESSAGES/app.po

A path without a code, such as `values/strings.xml` or `Base.lproj/…`, has the target language.
The code is that of the innermost folder that has one, else of the file. Folders of sources, such as
`src`, have none.
Of several files of a language one is read, in this order: without a region (`pt`), with the region
of most readers (`pt-BR`), for the target a path without a code, and with another region (`pt-PT`),
whose file is often incomplete.
"""

import functools
import itertools
import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from mmt import languages as known_languages
from mmt.data.readers import by_suffix, catalogues
from mmt.data.readers.files import Files
from mmt.documents import code_of, main_region, region_of
from mmt.system import compression

BILINGUAL = (".po", ".mo", ".xlf", ".xliff", ".ts")  # one file holds the pairs of a language
MULTILINGUAL = (".xcstrings",)  # one file holds all languages
# Folders of sources have names that are codes too: `src` is Sardinian, `mac` Macedonian.
_NO_LOCALE = frozenset("values Base.lproj alt arm asm bin ext kde lua mac man new src".split())
_FOLDER = re.compile(r"(?:values-)?(?P<code>[\w+-]+?)(?:\.lproj)?")
_NO_REGION, _MAIN_REGION, _NO_CODE, _OTHER_REGION = range(4)  # in the order of preference


class UntranslatedError(ValueError):
    """A folder has catalogues of a language, and none of them has a translated entry."""


class _Locale(NamedTuple):
    """A file of a language; the order is that of preference."""

    preference: int
    path: Path


def languages(root: Path, target: str) -> list[str]:
    """Returns the FLORES codes of the languages that a folder has besides the target, sorted."""
    codes = {code for by_code in _templates(root).values() for code in by_code if code}
    for path in _files(root):
        if catalogues.suffix(path) in MULTILINGUAL:
            codes |= _codes_of_catalog(path, path.stat().st_mtime_ns)
    return sorted(codes - {target})


@functools.lru_cache(maxsize=64)  # each language of a folder needs them
def _codes_of_catalog(path: Path, changed: int) -> frozenset[str]:
    """Returns the FLORES codes of the languages of a String Catalog.

    `changed`, the file's modification time, is part of the cache's key.
    """
    try:
        catalog = json.loads(compression.whole(path))
        texts = [entry.get("localizations", {}) for entry in catalog["strings"].values()]
        names = str(catalog.get("sourceLanguage", "")), *itertools.chain.from_iterable(texts)
        return frozenset(filter(None, map(code_of, names)))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path}: no String Catalog: {error!r}") from None


def pairs(root: Path, source: str, target: str) -> list[tuple[Path, Path | None]]:
    """Returns the files of two languages, given by FLORES codes: pairs, or files with both.

    Raises:
      ValueError: the folder has no file of the source language that has a counterpart.
    """
    files: list[tuple[Path, Path | None]] = []
    for template, by_code in sorted(_templates(root).items()):
        sources = by_code.get(source, [])
        targets = by_code.get(target, []) + by_code.get("", [])
        if sources and template.lower().endswith(BILINGUAL):
            files.append((_preferred(sources, source), None))
        elif sources and targets:
            files.append((_preferred(sources, source), _preferred(targets, target)))
    files += [
        (path, None)
        for path in _files(root)
        if catalogues.suffix(path) in MULTILINGUAL
        and {source, target} <= _codes_of_catalog(path, path.stat().st_mtime_ns)
    ]
    if not files:
        available = ", ".join(languages(root, "")) or "none"
        raise ValueError(f"{root}: no catalogues of {source} and {target}; it has: {available}")
    return files


def translated(catalogues_of_language: Sequence[Files]) -> list[Files]:
    """Returns the files that have pairs; a warning names the others.

    Raises:
      UntranslatedError: none has pairs.
    """
    kept: list[Files] = []
    others: list[Files] = []
    for files in catalogues_of_language:
        changed = tuple(path.stat().st_mtime_ns for path in files.paths)
        (kept if _has_pairs(files, changed) else others).append(files)
    names = ", ".join(str(files.source) for files in others[:5])
    names += f" and {len(others) - 5} others" if len(others) > 5 else ""
    if not kept:
        raise UntranslatedError(f"{names}: no translated entry")
    if others:
        warnings.warn(f"{names}: left out, since no entry is translated", stacklevel=3)
    return kept


@functools.lru_cache(maxsize=4096)  # a process loads a corpus several times
def _has_pairs(files: Files, changed: tuple[int, ...]) -> bool:
    """Returns whether files have a pair. `changed`, their modification times, is part of the key.
    """
    return next(iter(by_suffix.reader(files).read(files)), None) is not None


def _files(root: Path) -> list[Path]:
    if not root.is_dir():
        raise ValueError(f"no folder {root}")
    paths = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return [path for path in paths if not any(p[0] == "." for p in path.relative_to(root).parts)]


def _preferred(locales: list[_Locale], language: str) -> Path:
    """Returns the file of a language that is read, with a warning that names the others."""
    chosen, *others = (locale.path for locale in sorted(locales))
    if others:
        names = ", ".join(map(str, others))
        warnings.warn(f"{chosen} is read for {language}; not read: {names}", stacklevel=3)
    return chosen


def _templates(root: Path) -> dict[str, dict[str, list[_Locale]]]:
    """Returns path without its code -> FLORES code ('' for none) -> files.

    Raises ValueError for two files of a language without a region, or with the main region.
    """
    templates: dict[str, dict[str, list[_Locale]]] = {}
    for path in _files(root):
        if catalogues.suffix(path) not in (*catalogues.MONOLINGUAL, *BILINGUAL):
            continue
        template, tag = _split(path.relative_to(root).with_name(compression.name(path)))
        code = code_of(tag) if tag else ""
        locale = _Locale(_preference(tag), path)
        of_language = templates.setdefault(template, {}).setdefault(code, [])
        for other in of_language:
            if other.preference == locale.preference != _OTHER_REGION:
                raise ValueError(f"{other.path} and {path} are both of {code or 'no language'}")
        of_language.append(locale)
    return templates


def _preference(tag: str) -> int:
    """Returns the place of a locale among those of its language."""
    if not tag:
        return _NO_CODE
    region = region_of(tag)
    if not region:
        return _NO_REGION
    is_main = region == main_region(known_languages.find(code_of(tag)).bcp47)
    return _MAIN_REGION if is_main else _OTHER_REGION


def _split(path: Path) -> tuple[str, str]:
    """Returns a path, without compression, with `*` for its locale, and the locale's tag.

    >>> _split(Path("values-de-rAT/strings.xml")), _split(Path("app_de.arb"))
    (('values/strings.xml', 'de-AT'), ('app.arb', 'de'))
    """
    parts = list(path.parts)
    for index, part in reversed(list(enumerate(parts[:-1]))):
        match = _FOLDER.fullmatch(part)
        tag = _tag(match["code"]) if match and part not in _NO_LOCALE else ""
        if tag:
            parts[index] = "values" if part.startswith("values-") else "*"
            return "/".join(parts), tag
    if len(parts) > 1 and parts[-2] == "Base.lproj":
        parts[-2] = "*"
    name = PurePosixPath(path.name)
    starts = [0, *(mark.end() for mark in re.finditer("[._-]", name.stem))]
    for start in starts:
        if tag := _tag(name.stem[start:]):
            parts[-1] = name.stem[: max(0, start - 1)] + name.suffix
            return "/".join(parts), tag
    return "/".join([*parts[:-1], name.name]), ""


def _tag(name: str) -> str:
    """Returns the tag of a known locale, '' for others; Android has `de-rAT` and `b+sr+Latn`."""
    plain = re.sub(r"-r(?=[A-Z]{2}$)", "-", name.removeprefix("b+").replace("+", "-"))
    is_tag = re.fullmatch(r"[a-z]{2,3}([_-][A-Za-z0-9]+)*", plain)
    return plain if is_tag and code_of(plain) else ""
