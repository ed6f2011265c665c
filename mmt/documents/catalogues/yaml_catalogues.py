"""Catalogues in YAML, as Rails has them: nested keys below the code of the language.

PyYAML finds the strings. A translation keeps the style of its string where that can hold it.
"""

import functools
import json
import re
from collections.abc import Iterator
from typing import Any

from mmt.documents.document import (
    DEPTH,
    MarkedText,
    Render,
    Segment,
    Slot,
    TextDocument,
    has_letters,
)
from mmt.documents.encoding import decode
from mmt.documents.named import code_of

_FORMS = frozenset("zero one two few many other".split())
_STRING = "tag:yaml.org,2002:str"
_PROPERTIES = re.compile(r"(?:[&!]\S*[ \t]+)+")  # an anchor and a tag before a value


def read(name: str, content: bytes) -> TextDocument:
    """Returns the strings of a YAML file; keys such as `one` and `other` are forms.

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
        end = start + len(text[start:end].rstrip())
        source = MarkedText(node.value)
        write = functools.partial(_write, node.style or "", "\n" in text[start:end])
        entries.append((Segment(source, key, form), Slot(start, end, write, source)))
    entries.sort(key=lambda entry: entry[1].start)
    return TextDocument(text, encoding, entries)


def _strings(
    name: str, node: Any, path: tuple[str, ...], seen: set[int]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields the strings with their keys; what an alias names comes once."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if len(path) > DEPTH:
        raise ValueError(f"{name}: refused: it is nested more than {DEPTH} deep")
    if node.id == "mapping":
        for key, value in node.value:
            yield from _strings(name, value, (*path, str(key.value)), seen)
    elif node.id == "sequence":
        for number, value in enumerate(node.value):
            yield from _strings(name, value, (*path, str(number)), seen)
    elif node.tag == _STRING:
        yield path, node


def _write(style: str, long: bool, translation: MarkedText, render: Render) -> str:
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
    if style == "'" and text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return json.dumps(text, ensure_ascii=not text.replace("\n", "").isprintable())
