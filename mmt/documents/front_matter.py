"""Front matter of Markdown files: the titles and descriptions that a site shows.

PyYAML finds the strings; TOML, as Hugo has it, is read line by line.
"""

import functools
import json
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from mmt.documents.catalogues.yaml_catalogues import SPACE, STRING, write_scalar
from mmt.documents.document import MarkedText, Render, Segment, Slot, has_letters

# Of Docusaurus, Hugo, Jekyll, MkDocs and VitePress.
KEYS = (
    "title", "subtitle", "linkTitle", "sidebar_label", "pagination_label",
    "description", "summary", "excerpt", "tagline",
)  # fmt: skip
_FRONT_MATTER = re.compile(
    r"---[ \t]*\r?\n(?P<yaml>.*?\n)(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)"
    r"|\+\+\+[ \t]*\r?\n(?P<toml>.*?\n)\+\+\+[ \t]*(?:\r?\n|\Z)",
    re.DOTALL,
)
_TOML_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)
_TOML_STRING = re.compile(
    rf"^(?:{'|'.join(KEYS)})[ \t]*=[ \t]*"
    r"(?P<value>\"(?!\"\")(?:[^\"\\\r\n]|\\.)*\"|'(?!'')[^'\r\n]*')"
    r"[ \t]*(?:#[^\n]*)?\r?$",
    re.MULTILINE,
)
# Where a value begins and ends, what it says, and how its translation is written.
_Value: TypeAlias = tuple[int, int, MarkedText, Callable[[MarkedText, Render], str]]


def read(text: str) -> tuple[int, list[tuple[Segment, Slot]]]:
    """Returns where the front matter of a text ends, 0 without any, and its entries of `KEYS`.

    Front matter that is no YAML or TOML has no entries, since a template may be in it.
    """
    match = _FRONT_MATTER.match(text)
    if not match:
        return 0, []
    kind = match.lastgroup or ""
    strings = {"yaml": _yaml_strings, "toml": _toml_strings}[kind](match[kind])
    offset = match.start(kind)
    return match.end(), [
        (Segment(source), Slot(offset + start, offset + end, write, source))
        for start, end, source, write in strings
        if has_letters(source.text)
    ]


def _yaml_strings(text: str) -> Iterator[_Value]:
    import yaml

    try:
        root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError):
        return
    if root is None or root.id != "mapping":
        return
    for key, value in root.value:
        start, end = value.start_mark.index, value.end_mark.index
        written = text[start:end].rstrip(SPACE)
        is_alias = start < key.end_mark.index
        if key.value in KEYS and value.tag == STRING and not is_alias and written[:1] not in "&!":
            write = functools.partial(write_scalar, value.style or "", "\n" in written)
            yield start, start + len(written), MarkedText(value.value), write


def _toml_strings(text: str) -> Iterator[_Value]:
    import tomllib

    table = _TOML_TABLE.search(text)
    for match in _TOML_STRING.finditer(text, 0, table.start() if table else len(text)):
        try:
            value = tomllib.loads(f"a = {match['value']}")["a"]
        except tomllib.TOMLDecodeError:
            continue
        start, end = match.span("value")
        yield start, end, MarkedText(value), _write_toml


def _write_toml(translation: MarkedText, render: Render) -> str:
    # A string of JSON is one of TOML, except for the character 7F.
    return json.dumps(translation.text, ensure_ascii=False).replace("\x7f", "\\u007f")
