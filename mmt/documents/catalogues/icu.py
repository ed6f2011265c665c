"""ICU messages with a plural or select argument: the places of their branches.

The messages are those of a JSON string as it is written: a line break in them is \\n.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_SPACE = r"(?:\s|\\[nrt])*"
_HEAD = re.compile(
    rf"{_SPACE}\{{{_SPACE}\w+{_SPACE},{_SPACE}(plural|select|selectordinal){_SPACE},"
    rf"(?:{_SPACE}offset:\d+)?"
)
_BRANCH = re.compile(rf"{_SPACE}(=?\w+){_SPACE}\{{")
_END = re.compile(rf"{_SPACE}\}}{_SPACE}")
_BRACE = re.compile(r"[{}]")


def branches(message: str) -> list[tuple[str, int, int]]:
    """Returns selector, start and end of each branch; none if the message has other text around.

    >>> branches("{n, plural, one{a file} other{{n} files}}")
    [('one', 16, 22), ('other', 30, 39)]
    """
    head = _HEAD.match(message)
    if head is None:
        return []
    result, index = [], head.end()
    while branch := _BRANCH.match(message, index):
        end = _closing(message, branch.end())
        if end == -1:
            return []
        result.append((branch[1], branch.end(), end))
        index = end + 1
    return result if result and _END.fullmatch(message, index) else []


class Plural(NamedTuple):
    """A message with a plural argument.

    Attributes:
      ordinal: whether its forms are those of ordinal numbers.
      branches: selector, start of the selector, start and end of the text, of each branch.
      path: the forms of the branches around it, each with a dot behind it.
    """

    ordinal: bool
    branches: list[tuple[str, int, int, int]]
    path: str


def plurals(message: str, start: int = 0, path: str = "") -> Iterator[Plural]:
    """Yields the plurals of a message, and those in the branches of its selects.

    >>> next(plurals("{n, plural, one{a file} other{{n} files}}")).branches
    [('one', 12, 16, 22), ('other', 24, 30, 39)]
    """
    cases = branches(message)
    head = _HEAD.match(message)
    if not cases or head is None:
        return
    if head[1] == "select":
        for name, begin, end in cases:
            yield from plurals(message[begin:end], start + begin, f"{path}{name}.")
        return
    messages = [
        (name, start + message.rindex(name, 0, begin), start + begin, start + end)
        for name, begin, end in cases
    ]
    yield Plural(head[1] == "selectordinal", messages, path)


def leaves(message: str, start: int = 0, form: str = "") -> Iterator[tuple[str, int, int]]:
    """Yields the branches without branches in them; a form in a form is joined by a dot."""
    inner = branches(message)
    if not inner and form:
        yield form, start, start + len(message)
    for name, begin, end in inner:
        yield from leaves(message[begin:end], start + begin, f"{form}.{name}" if form else name)


def _closing(message: str, index: int) -> int:
    depth = 1
    for brace in _BRACE.finditer(message, index):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.start()
    return -1
