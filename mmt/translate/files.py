"""Translates files: the texts of a document, with everything else as it is.

`mmt.documents` reads and writes the formats. The caller gives a function that translates lines, so
nothing here knows a model.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from mmt import documents
from mmt.documents import Document, MarkedText, Segment, supported_suffixes

Translate = Callable[[list[str]], Iterable[str]]
Place = Callable[[MarkedText, str], MarkedText]

__all__ = ["supported_suffixes", "translate_document", "translate_file"]

_BREAKS = re.compile(r"(\s*[\n\r\t\v\f]\s*)")


def translate_file(
    name: str,
    content: bytes,
    translate: Translate,
    *,
    source: str | None = None,
    target: str | None = None,
    overwrite: bool = False,
) -> bytes:
    """Returns a file with its texts translated; the suffix of its name is the format.

    Args:
      name: the name of the file, for its suffix and for errors.
      content: the file's bytes.
      translate: returns the translation of each line, in order.
      source: language of the file, for formats that hold several.
      target: language of the translation, for the same formats.
      overwrite: whether entries of a catalogue that are translated already are translated again.

    Raises:
      ValueError: the format is unknown or refused, or the file is damaged or dangerous.

    >>> translate_file("a.html", b"<p>ein <b>Haus</b>", lambda lines: map(str.upper, lines))
    b'<p>EIN <b>HAUS</b>'
    """
    document = documents.read(name, content, documents.locales(source, target))
    return translate_document(document, translate, overwrite=overwrite)


def translate_document(
    document: Document,
    translate: Translate,
    *,
    overwrite: bool = False,
    place: Place = documents.by_position,
) -> bytes:
    """Returns a document's file with its texts translated.

    place: puts the inline markup of a text into its translation.
    """
    chosen = [segment for segment in document.segments if overwrite or segment.target is None]
    texts = iter(_translated(chosen, translate))
    translations = [
        place(segment.source, next(texts)) if overwrite or segment.target is None else None
        for segment in document.segments
    ]
    return document.write(translations)


def _translated(segments: Sequence[Segment], translate: Translate) -> list[str]:
    """Returns the translated texts; line breaks, tabs and white space at the ends are kept."""
    parts = [_BREAKS.split(segment.source.text) for segment in segments]
    lines = [line.strip() for part in parts for line in part[::2] if line.strip()]
    unique = list(dict.fromkeys(lines))
    translations = list(translate(unique))
    if len(translations) != len(unique):
        raise ValueError(f"{len(translations)} translations of {len(unique)} lines")
    by_line = dict(zip(unique, translations, strict=True))
    return [
        "".join(
            part if index % 2 or not part.strip() else _within(part, by_line[part.strip()])
            for index, part in enumerate(parts_of_segment)
        )
        for parts_of_segment in parts
    ]


def _within(line: str, translation: str) -> str:
    """Returns a translation with the white space around the line."""
    start, end = line[: len(line) - len(line.lstrip())], line[len(line.rstrip()) :]
    return f"{start}{translation.strip()}{end}"
