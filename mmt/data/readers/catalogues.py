"""Pairs from catalogues of applications: two files with the same keys, or one with both languages.

`mmt.documents` reads the formats. An entry that is not translated is left out: its key or its text
is missing on one side, or both texts are equal. A form (plural, gender) is paired with the same
form of the other language, else with `other`.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from mmt import documents
from mmt.data.readers.files import Files, Sides, catalogue_text
from mmt.documents import MarkedText, Segment
from mmt.system import compression

MONOLINGUAL = (
    ".json", ".arb", ".xml", ".properties", ".strings", ".yml", ".yaml", ".ftl",
)  # fmt: skip
MARKUP = ("keep", "strip")


def paired(files: Files) -> bool:
    """Returns whether both files are catalogues of one language each."""
    sides = [files.source, files.target] if files.target else []
    return bool(sides) and all(suffix(side) in MONOLINGUAL for side in sides)


def suffix(path: Path) -> str:
    """Returns the suffix before that of a compression."""
    return PurePosixPath(compression.name(path)).suffix.lower()


def read_two(files: Files) -> Iterator[Sides]:
    """Yields the texts with the same key in both files, in the order of the source's."""
    assert files.target
    targets = {(s.key, s.form): s for s in _segments(files.target, files)}
    for number, segment in enumerate(_segments(files.source, files), 1):
        forms = (segment.form, "other", "")
        target = next((t for form in forms if (t := targets.get((segment.key, form)))), None)
        if target:
            yield from _sides(files, number, segment.key, segment.source, target.source)


def read_bilingual(files: Files) -> Iterator[Sides]:
    """Yields the translated entries of a file with both languages.

    A String Catalog has the texts by language. A TS file names one or both of its languages, which
    say the direction.
    """
    swapped = suffix(files.source) == ".ts" and _translates_into_source(files)
    for number, segment in enumerate(_segments(files.source, files), 1):
        if segment.target:
            pair = segment.source, segment.target
            yield from _sides(files, number, segment.key, *(pair[::-1] if swapped else pair))


def _segments(path: Path, files: Files) -> list[Segment]:
    content = compression.whole(path)
    name = f"{path.parent}/{compression.name(path)}"
    bilingual = documents.Locales(*files.languages) if suffix(path) == ".xcstrings" else None
    return list(documents.read(name, content, bilingual or documents.Locales()).segments)


def _sides(
    files: Files, number: int, key: str, source: MarkedText, target: MarkedText
) -> Iterator[Sides]:
    texts = [_text(side, files) for side in (source, target)]
    if all(text.strip() for text in texts) and texts[0] != texts[1]:
        yield Sides(number, texts[0], texts[1], key)


def _text(text: MarkedText, files: Files) -> str:
    """Returns a text with its markup, or without; a placeholder is no markup."""
    pieces: list[str] = []
    position = 0
    for tag in text.tags:
        pieces += text.text[position : tag.position], tag.markup
        position = tag.position
    joined = "".join([*pieces, text.text[position:]])
    return catalogue_text(joined, files)


def _translates_into_source(files: Files) -> bool:
    """Returns whether the translations of a TS file are in the source language of the pairs."""
    header = compression.whole(files.source)[:2048].decode("utf-8", "replace")
    names = dict(re.findall(r"\b(language|sourcelanguage)\s*=\s*[\"']([\w-]+)[\"']", header))
    source, target = files.languages
    codes = {side: code for side, name in names.items() if (code := documents.code_of(name))}
    for language, sourcelanguage in ((source, target), (target, source)):
        expected = {"language": language, "sourcelanguage": sourcelanguage}
        if codes and all(code == expected[side] for side, code in codes.items()):
            return language == source
    given = f"from {names.get('sourcelanguage', '?')} to {names.get('language', '?')}"
    raise ValueError(f"{files.source}: {given}; expected {source} and {target}")
