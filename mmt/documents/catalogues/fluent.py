"""Fluent (FTL): values and attributes of messages and terms, and the variants of selectors.

fluent.syntax finds the patterns. A placeable such as `{ $name }` is markup that stands alone.
"""

import re
from collections.abc import Iterator
from typing import Any

from mmt.documents.document import MarkedText, Segment, Slot, Tag, TextDocument, has_letters
from mmt.documents.encoding import decode
from mmt.documents.inline import writer

_SPECIAL = re.compile(r"[{}]|(?<=\n)[\[*.]")
_Entry = tuple[Segment, Slot]


def read(name: str, content: bytes) -> TextDocument:
    """Returns the patterns of a Fluent file; a variant's form is its key.

    Raises:
      ValueError: with the line, for what is no Fluent; or fluent.syntax is not installed.
    """
    try:
        from fluent.syntax import FluentParser, ast
    except ImportError:
        message = f"{name}: reading it needs fluent.syntax: pip install 'mmt[files]'"
        raise ValueError(message) from None
    text, encoding = decode(name, content)
    try:
        resource = FluentParser().parse(text)
    except RecursionError:
        raise ValueError(f"{name}: refused: it is nested too deeply") from None
    entries: list[_Entry] = []
    for entry in resource.body:
        if isinstance(entry, ast.Junk):
            start = entry.span.start if entry.span else 0
            line = text.count("\n", 0, start) + 1
            raise ValueError(f"{name}:{line}: no Fluent: {entry.annotations[0].message}")
        if not isinstance(entry, ast.Message | ast.Term):
            continue
        key = ("-" if isinstance(entry, ast.Term) else "") + entry.id.name
        if entry.value:
            entries += _pattern(text, entry.value, key, "")
        for attribute in entry.attributes:
            entries += _pattern(text, attribute.value, f"{key}.{attribute.id.name}", "")
    entries.sort(key=lambda entry: (entry[1].start, -entry[1].end))
    return TextDocument(text, encoding, entries)


def _pattern(text: str, pattern: Any, key: str, form: str) -> Iterator[_Entry]:
    """Yields the segment of a pattern, and those of the selectors in it."""
    parts: list[str] = []
    tags: list[Tag] = []
    length = 0
    for element in pattern.elements:
        if type(element).__name__ == "TextElement":
            parts.append(element.value)
            length += len(element.value)
            continue
        expression = element.expression
        if type(expression).__name__ == "StringLiteral":  # such as {"{"}
            parts.append(expression.parse()["value"])
            length += len(parts[-1])
            continue
        start, end = element.span.start, element.span.end
        tags.append(Tag(length, "alone", text[start:end], start))
        for variant in getattr(expression, "variants", ()):
            name = getattr(variant.key, "name", None) or variant.key.value
            yield from _pattern(text, variant.value, key, ".".join(filter(None, (form, name))))
    source = MarkedText("".join(parts), tuple(tags))
    start, end = pattern.span.start, pattern.span.end
    start += len(text[start:end]) - len(text[start:end].lstrip())
    if has_letters(source.text):
        slot = Slot(start, end, writer(_escape), source)
        yield Segment(source, key, form), slot


def _escape(text: str) -> str:
    escaped = _SPECIAL.sub(lambda match: f'{{"{match[0]}"}}', text)
    return re.sub(r"\n(?=[^\n])", "\n    ", escaped)
