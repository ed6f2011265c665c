"""A folder of locales: catalogues whose paths differ in the code of a language.

    de.json, app_de.arb, messages.de.properties, de/common.json, de.lproj/Localizable.strings,
    values-de/strings.xml, de/LC_MESSAGES/app.po

A path without a code, such as `values/strings.xml` or `Base.lproj/…`, has the target language,
unless a file with the target's code is beside it.
"""

import itertools
import json
import re
import warnings
from pathlib import Path, PurePosixPath

from mmt.data.readers import catalogues
from mmt.documents import code_of
from mmt.system import compression

_BILINGUAL = (".po", ".mo", ".xlf", ".xliff", ".ts")  # one file holds the pairs of a language
_MULTILINGUAL = (".xcstrings",)  # one file holds all languages
_FOLDER = re.compile(r"(?:values-)?(?P<code>[\w+-]+?)(?:\.lproj)?")


def languages(root: Path, target: str) -> list[str]:
    """Returns the FLORES codes of the languages that a folder has besides the target, sorted."""
    codes = {code for by_code in _templates(root).values() for code in by_code if code}
    for path in _files(root):
        if catalogues.suffix(path) in _MULTILINGUAL:
            codes |= set(filter(None, map(code_of, _names_of_catalog(path))))
    return sorted(codes - {target})


def _names_of_catalog(path: Path) -> set[str]:
    """Returns the names of the languages of a String Catalog."""
    try:
        catalog = json.loads(compression.whole(path))
        texts = [entry.get("localizations", {}) for entry in catalog["strings"].values()]
        return {str(catalog.get("sourceLanguage", "")), *itertools.chain.from_iterable(texts)}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path}: no String Catalog: {error!r}") from None


def pairs(root: Path, source: str, target: str) -> list[tuple[Path, Path | None]]:
    """Returns the files of two languages, given by FLORES codes: pairs, or files with both.

    Raises:
      ValueError: the folder has no file of the source language that has a counterpart.
    """
    files: list[tuple[Path, Path | None]] = []
    for template, by_code in sorted(_templates(root).items()):
        path, default = by_code.get(source), by_code.get("")
        counterpart = by_code.get(target, default)
        if path and PurePosixPath(template).suffix in _BILINGUAL:
            files.append((path, None))
        elif path and counterpart:
            files.append((path, counterpart))
            if default and default != counterpart:
                warnings.warn(
                    f"{default} is not read, since {counterpart} has the code of {target}; if the "
                    "latter has only the texts of a region that differ, remove it from the folder",
                    stacklevel=2,
                )
    files += [(path, None) for path in _files(root) if catalogues.suffix(path) in _MULTILINGUAL]
    if not files:
        available = ", ".join(languages(root, "")) or "none"
        raise ValueError(f"{root}: no catalogues of {source} and {target}; it has: {available}")
    return files


def _files(root: Path) -> list[Path]:
    if not root.is_dir():
        raise ValueError(f"no folder {root}")
    paths = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return [path for path in paths if not any(p[0] == "." for p in path.relative_to(root).parts)]


def _templates(root: Path) -> dict[str, dict[str, Path]]:
    """Returns path without its code -> FLORES code ('' for none) -> file."""
    templates: dict[str, dict[str, Path]] = {}
    for path in _files(root):
        if catalogues.suffix(path) not in (*catalogues.MONOLINGUAL, *_BILINGUAL):
            continue
        template, code = _split(path.relative_to(root).with_name(compression.name(path)))
        by_code = templates.setdefault(template, {})
        if code in by_code:
            raise ValueError(f"{by_code[code]} and {path} are both of {code or 'no language'}")
        by_code[code] = path
    return templates


def _split(path: Path) -> tuple[str, str]:
    """Returns a path, without compression, with `*` for the code of its language, and the code.

    >>> _split(Path("values-de-rAT/strings.xml")), _split(Path("app_de.arb"))
    (('values/strings.xml', 'deu_Latn'), ('app.arb', 'deu_Latn'))
    """
    parts = list(path.parts)
    for index, part in enumerate(parts[:-1]):
        match = _FOLDER.fullmatch(part)
        code = _code(match["code"]) if match and part not in ("values", "Base.lproj") else ""
        if code:
            parts[index] = "values" if part.startswith("values-") else "*"
            return "/".join(parts), code
    if len(parts) > 1 and parts[-2] == "Base.lproj":
        parts[-2] = "*"
    name = PurePosixPath(path.name)
    starts = [0, *(mark.end() for mark in re.finditer("[._-]", name.stem))]
    for start in starts:
        if code := _code(name.stem[start:]):
            parts[-1] = name.stem[: max(0, start - 1)] + name.suffix
            return "/".join(parts), code
    return "/".join([*parts[:-1], name.name]), ""


def _code(name: str) -> str:
    """Returns the FLORES code of a locale's name: also `de-rAT` and `b+sr+Latn`, as Android has."""
    plain = re.sub(r"-r(?=[A-Z]{2}$)", "-", name.removeprefix("b+").replace("+", "-"))
    tag = re.fullmatch(r"[a-z]{2,3}([_-][A-Za-z0-9]+)*", plain)
    return code_of(plain) if tag else ""
