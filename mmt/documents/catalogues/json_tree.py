"""JSON with the places of its values, so that strings can be replaced."""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from mmt.documents.document import DEPTH
from mmt.documents.encoding import whole_characters

TOKEN = re.compile(r'[ \t\n\r,:]*(?:("(?:[^"\\]|\\.)*+")|([{}\[\]])|([^\s"{}\[\],:]+))')


class JsonNode(NamedTuple):
    """A value with its place, and where its key begins: -1 without one.

    `value` is a text, a list of members with their keys, or None.
    """

    start: int
    end: int
    value: Any
    key_start: int = -1

    def member(self, *keys: str) -> "JsonNode | None":
        """Returns the value of a key in an object, or of keys in objects; None for none."""
        node: JsonNode | None = self
        for key in keys:
            members = node.value if node and isinstance(node.value, list) else []
            node = next((member for name, member in members if name == key), None)
        return node


def parse(name: str, text: str) -> JsonNode:
    """Returns the value of a JSON text with all places.

    Raises:
      ValueError: it is no JSON, a key is repeated, or it is nested too deeply.
    """
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}:{error.lineno}: no JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: {error}") from None
    # Key, its place, start, whether it is an array, members.
    open_: list[tuple[str, int, int, bool, list[tuple[str, Any]]]] = [("", -1, 0, True, [])]
    key: str | None = None  # of the next value; None in an array, or where a key is next
    index, key_start = 0, -1
    while match := TOKEN.match(text, index):
        start, index = match.start(match.lastindex or 0), match.end()
        string, bracket, _ = match.groups()
        if bracket in ("}", "]"):
            outer, key_at, begin, is_array, members = open_.pop()
            if not is_array:
                _check_keys(name, text, members)
            open_[-1][4].append((outer, JsonNode(begin, index, members, key_at)))
        elif string and key is None and not open_[-1][3]:
            key, key_start = _decoded(string), start
        else:
            member_key, key_at = (str(len(open_[-1][4])), -1) if key is None else (key, key_start)
            key = None
            if not bracket:
                value = _decoded(string) if string else None
                open_[-1][4].append((member_key, JsonNode(start, index, value, key_at)))
            elif len(open_) > DEPTH:
                raise ValueError(f"{name}: refused: it is nested more than {DEPTH} deep")
            else:
                open_.append((member_key, key_at, start, bracket == "[", []))
    return open_[0][4][0][1]


def _decoded(string: str) -> str:
    return whole_characters(json.loads(string)) if "\\" in string else string[1:-1]


def _check_keys(name: str, text: str, members: list[tuple[str, JsonNode]]) -> None:
    seen = set()
    for key, node in members:
        if key in seen:
            line = text.count("\n", 0, node.key_start) + 1
            raise ValueError(f"{name}:{line}: the key {key!r} is repeated")
        seen.add(key)


def escape_of(text: str) -> Callable[[str], str]:
    """Returns a function that writes strings as the file does, with or without `\\u` escapes."""
    ascii_only = text.isascii() and "\\u" in text
    return lambda string: json.dumps(string, ensure_ascii=ascii_only)[1:-1]
