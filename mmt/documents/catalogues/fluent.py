"""Fluent (FTL): values and attributes of messages and terms, and the variants of selectors.

fluent.syntax finds the patterns. A placeable such as `{ $name }` is markup that stands alone.
"""

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

from mmt.documents import plurals
from mmt.documents.document import (
    FileChange,
    MarkedText,
    Render,
    Segment,
    Slot,
    Tag,
    TextDocument,
    has_letters,
    outside,
    space_before,
)
from mmt.documents.encoding import decode
from mmt.documents.inline import writer
from mmt.documents.named import UNKNOWN, Locales

_SPECIAL = re.compile(r"[{}]|(?<=\n)[\[*.]")
_Entry = tuple[Segment, Slot]


def read(name: str, content: bytes, locales: Locales = UNKNOWN) -> TextDocument:
    """Returns the patterns of a Fluent file; a variant's form is its key.

    A selector whose keys are plural forms gets those of the target language.

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
    changes: list[FileChange] = []
    for entry in resource.body:
        if isinstance(entry, ast.Junk):
            start = entry.span.start if entry.span else 0
            line = text.count("\n", 0, start) + 1
            raise ValueError(f"{name}:{line}: no Fluent: {entry.annotations[0].message}")
        if not isinstance(entry, ast.Message | ast.Term):
            continue
        key = ("-" if isinstance(entry, ast.Term) else "") + entry.id.name
        patterns = [(key, entry.value)] if entry.value else []
        patterns += [(f"{key}.{each.id.name}", each.value) for each in entry.attributes]
        for name_of_pattern, pattern in patterns:
            entries += _pattern(text, pattern, name_of_pattern, "")
            for selector in _selectors(pattern):
                new, removed = _of_selector(text, name_of_pattern, selector, locales)
                entries += new
                changes += removed
    entries.sort(key=lambda entry: (entry[1].start, -entry[1].end))
    return TextDocument(text, encoding, list(outside(entries, changes)), changes)


def _selectors(pattern: Any) -> Iterator[list[Any]]:
    """Yields the variants of each outer selector of a pattern."""
    for element in pattern.elements:
        variants = getattr(getattr(element, "expression", None), "variants", ())
        if variants:
            yield variants


def _of_selector(
    text: str, key: str, variants: list[Any], locales: Locales
) -> tuple[list[_Entry], list[FileChange]]:
    """Returns the entries of plural forms that a selector gains, and what it loses.

    A default other than `other`, and a variant `other` with a selector in it, leave it as it is.
    """
    forms = {getattr(variant.key, "name", ""): variant for variant in variants}
    change = plurals.form_change(forms, locales)
    if not any(change) or not forms["other"].default or any(_selectors(forms["other"].value)):
        return [], []
    changes = []
    for form in sorted(change.dropped):
        start, end = forms[form].span.start, forms[form].span.end
        changes.append(FileChange(start - len(space_before(text, start)), end))
    entries = []
    start = forms["other"].span.start
    space = space_before(text, start)
    for segment, slot in _pattern(text, forms["other"].value, key, ""):
        for form in change.added:
            write = functools.partial(_new_variant, slot.write, form, space)
            entries.append((segment._replace(form=form), Slot(start, start, write, None)))
    return entries, changes


def _new_variant(
    write: Callable[[MarkedText, Render], str], form: str, after: str, translation: MarkedText,
    render: Render,
) -> str:  # fmt: skip
    return f"[{form}] {write(translation, render)}{after}"


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
        slot = Slot(start, end, functools.partial(_write, source), source)
        yield Segment(source, key, form), slot


def _write(source: MarkedText, translation: MarkedText, render: Render) -> str:
    """Returns a pattern. Spaces at its edges are literals if they are in the source, where Fluent
    drops plain ones.
    """
    written = writer(_escape)(translation, render)
    positions = {tag.position for tag in source.tags}
    if source.text.startswith(" ") and 0 not in positions:
        written = re.sub(r"\A +", r'{"\g<0>"}', written)
    if source.text.endswith(" ") and len(source.text) not in positions:
        written = re.sub(r" +\Z", r'{"\g<0>"}', written)
    return re.sub(r"\A[\[*.]", r'{"\g<0>"}', written)  # the pattern may begin on a line of its own


def _escape(text: str) -> str:
    escaped = _SPECIAL.sub(lambda match: f'{{"{match[0]}"}}', text)
    return re.sub(r"\n(?=[^\n])", "\n    ", escaped)
