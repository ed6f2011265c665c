"""Catalogues in YAML, as Rails has them: nested keys below the code of the language.

PyYAML finds the strings. A translation keeps the style of its string where that can hold it.
"""

import functools
import json
import re
from collections.abc import Iterator
from typing import Any

from mmt.documents import plurals
from mmt.documents.document import (
    DEPTH,
    FileChange,
    MarkedText,
    Render,
    Segment,
    Slot,
    TextDocument,
    has_letters,
    outside,
)
from mmt.documents.encoding import decode
from mmt.documents.named import UNKNOWN, Locales, code_of

_FORMS = frozenset("zero one two few many other".split())
_COMMA = re.compile(r"\s*,\s*")
_LINE = re.compile(r"[ \t\r]*(?:#[^\n]*)?(?:\n|\Z)")  # what is behind a value
SPACE = " \t\r\n\x85\u2028\u2029"  # of YAML 1.1: a non-breaking space belongs to a value
STRING = "tag:yaml.org,2002:str"
_PROPERTIES = re.compile(r"(?:[&!]\S*[ \t]+)+")  # an anchor and a tag before a value
_ESCAPED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")  # only in double quotes


def read(name: str, content: bytes, locales: Locales = UNKNOWN) -> TextDocument:
    """Returns the strings of a YAML file; keys such as `one` and `other` are forms.

    They are those of the target language, and so is a root key that names the source.

    Raises:
      ValueError: with the line, for what is no YAML or several documents.
    """
    import yaml

    text, encoding = decode(name, content)
    try:
        root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ValueError(f"{name}{line}: no YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(f"{name}: no YAML: {str(error).splitlines()[0]}") from None
    entries: list[tuple[Segment, Slot]] = []
    for path, node in _strings(name, root, (), set()):
        if not has_letters(node.value):
            continue
        if len(path) > 1 and code_of(path[0]):
            path = path[1:]
        form = path[-1] if path and path[-1] in _FORMS else ""
        key = ".".join(path[:-1] if form else path)
        start, end = node.start_mark.index, node.end_mark.index
        before = _PROPERTIES.match(text, start)
        start = before.end() if before else start
        end = start + len(text[start:end].rstrip(SPACE))
        source = MarkedText(node.value)
        write = functools.partial(write_scalar, node.style or "", "\n" in text[start:end])
        entries.append((Segment(source, key, form), Slot(start, end, write, source)))
    changes = _named(root, locales)
    for path, node in _mappings(root, ()):
        new, removed = _of_mapping(text, path, node, locales)
        entries += new
        changes += removed
    entries.sort(key=lambda entry: entry[1].start)
    return TextDocument(text, encoding, list(outside(entries, changes)), changes)


def _named(root: Any, locales: Locales) -> list[FileChange]:
    """Returns the change of the only key of the root, if it names the source."""
    if root is None or root.id != "mapping" or len(root.value) != 1:
        return []
    key, value = root.value[0]
    if key.id != "scalar" or value.id != "mapping":
        return []
    quote = 1 if key.style else 0
    start, end = key.start_mark.index + quote, key.end_mark.index - quote
    return [FileChange(start, end, locales.renamed(key.value))]


def _mappings(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields the mappings of scalars with their keys; what an alias names comes again."""
    stack = [(path, node)]
    visited: set[int] = set()
    while stack:
        path, node = stack.pop()
        if node is None or node.id == "scalar" or id(node) in visited:
            continue
        visited.add(id(node))
        if node.id == "sequence":
            stack += (((*path, str(n)), value) for n, value in enumerate(node.value))
            continue
        stack += (((*path, str(key.value)), value) for key, value in node.value)
        if all(key.id == value.id == "scalar" for key, value in node.value):
            yield path, node


def _of_mapping(
    text: str, path: tuple[str, ...], mapping: Any, locales: Locales
) -> tuple[list[tuple[Segment, Slot]], list[FileChange]]:
    """Returns the entries of plural forms that a mapping gains, and what it loses.

    Forms with anchors, aliases or tags stay as they are.
    """
    forms = {key.value: (key, value) for key, value in mapping.value}
    change = plurals.form_change(forms, locales)
    pairs = [forms[form] for form in sorted(change.dropped)]
    aliased = any(
        value.start_mark.index < key.end_mark.index or text[value.start_mark.index] in "&!"
        for key, value in (*pairs, *([forms["other"]] if change.added else ()))
    )
    if aliased or not any(change):
        return [], []
    changes = []
    for key, value in pairs:
        start, end = key.start_mark.index, value.end_mark.index
        if mapping.flow_style:
            after = _COMMA.match(text, end)
            before = text.rindex(",", 0, start) if after is None else start
            changes.append(FileChange(before, after.end() if after else end))
        else:
            end = start + len(text[start:end].rstrip(SPACE))
            behind = _LINE.match(text, end)
            line = text.rfind("\n", 0, start) + 1
            if behind is None or text[line:start].strip():  # another value is on the line
                return [], []
            changes.append(FileChange(line, behind.end()))
    entries = []
    key, value = forms["other"]
    start = key.start_mark.index
    space = ", " if mapping.flow_style else "\n" + " " * key.start_mark.column
    for form in change.added if value.tag == STRING and has_letters(value.value) else ():
        write = functools.partial(_new_form, form, value.style or "", space)
        name = ".".join(path[1:] if path and code_of(path[0]) else path)
        entries.append(
            (Segment(MarkedText(value.value), name, form), Slot(start, start, write, None))
        )
    return entries, changes


def _new_form(form: str, style: str, after: str, translation: MarkedText, render: Render) -> str:
    return f"{form}: {write_scalar(style, False, translation, render)}{after}"


def _strings(
    name: str, node: Any, path: tuple[str, ...], visited: set[int]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields the strings with their keys; what an alias names comes once."""
    if node is None or id(node) in visited:
        return
    visited.add(id(node))
    if len(path) > DEPTH:
        raise ValueError(f"{name}: refused: it is nested more than {DEPTH} deep")
    if node.id == "mapping":
        for key, value in node.value:
            yield from _strings(name, value, (*path, str(key.value)), visited)
    elif node.id == "sequence":
        for number, value in enumerate(node.value):
            yield from _strings(name, value, (*path, str(number)), visited)
    elif node.tag == STRING:
        yield path, node


def write_scalar(style: str, long: bool, translation: MarkedText, render: Render) -> str:
    """Returns a scalar on one line: plain or in single quotes where possible, else in double."""
    import yaml

    text = translation.text
    if style == "" and not long:
        try:
            read = yaml.safe_load(f"a: {text}\n")
            if read == {"a": text} and yaml.safe_load(f"[{text}]") == [text]:
                return text
        except (yaml.YAMLError, ValueError):
            pass
    if style == "'" and not _ESCAPED.search(text):
        return "'" + text.replace("'", "''") + "'"
    # With ensure_ascii an emoji would be two escapes, which YAML does not join.
    quoted = json.dumps(text, ensure_ascii=False)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)
