"""Griffe extension: turns the docstrings of this project into Markdown before they are rendered.

Doctests become code blocks, and lines such as `batch_size: rows in a batch.` become list items. Of
a class whose docstring does not describe its fields, the comments at the fields are the list.
A parameter with the line `rows: old name of ...` is omitted: only old configs use it.
"""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"\s*(>>>|\.\.\.) ?")
_ITEM = re.compile(r"\s*\* ")
_FIELD = re.compile(r"([a-z_]+(?:, [a-z_]+)*): ")
_OLD_NAME = re.compile(r"^ *([a-z_]+): old name of .*\n?", re.M)


class Docstrings(griffe.Extension):
    """Rewrites the docstring of every class and function."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        if isinstance(init := cls.members.get("__init__"), griffe.Function):
            _omit_old_names(cls, init)
        _rewrite(cls, set(cls.members))
        if cls.docstring and not re.search(r"^(Attributes:|\* \*\*)", cls.docstring.value, re.M):
            items = field_comments(cls.source.splitlines())
            cls.docstring.value += "\n\n" + "\n".join(items) if items else ""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        _omit_old_names(func, func)
        _rewrite(func, {parameter.name for parameter in func.parameters})


def field_comments(source: list[str]) -> list[str]:
    """Returns a list item for each field of a class that has a comment, before it or beside it.

    >>> field_comments(["    # in training", "    rate: float = 0.0", "    size: int  # 2 or more"])
    ['* **rate**: in training', '* **size**: 2 or more']
    """
    items: list[str] = []
    before: list[str] = []
    for line in source:
        if comment := re.match(r"    # (.*)", line):
            before.append(comment[1])
        elif field := re.match(r"    ([a-z]\w*): [^#]*?(?:  # (.*))?$", line):
            if text := " ".join([*before, field[2] or ""]).strip():
                items.append(f"* **{field[1]}**: {text}")
            before = []
        else:
            before = []
    return items


def _omit_old_names(described: griffe.Object, function: griffe.Function) -> None:
    """Removes old names from a docstring, and from the parameters of the function it describes."""
    if described.docstring:
        text = described.docstring.value
        for name in _OLD_NAME.findall(text):
            del function.parameters[name]
        described.docstring.value = _OLD_NAME.sub("", text).rstrip()


def _rewrite(of: griffe.Object, names: set[str]) -> None:
    if of.docstring:
        of.docstring.value = markdown(of.docstring.value, names)


def markdown(text: str, names: set[str]) -> str:
    """Returns the docstring as Markdown. names: parameters or fields that a line may describe.

    "Adds.\\nleft: one." becomes "Adds.\\n\\n* **left**: one."; doctests become fenced code blocks.
    """
    lines: list[str] = []
    state = ""  # '', 'item' or 'code'
    for line in text.splitlines():
        if state == "code" and not line.strip():
            lines.append("```")
        found = _FIELD.match(line)
        if not line.strip():
            state = ""
        elif _EXAMPLE.match(line) and state != "code":
            lines += ["", "```pycon"] if lines and lines[-1] else ["```pycon"]
            state = "code"
        elif state != "code" and (_ITEM.match(line) or (found and _known(found[1], names))):
            if state != "item" and lines and lines[-1]:
                lines.append("")
            state = "item"
            line = f"* **{found[1]}**: {line[found.end() :]}" if found else line.strip()
        elif state == "item":
            line = "    " + line.strip()
        lines.append(re.sub(r"\s*# doctest:.*", "", line.strip()) if state == "code" else line)
    return "\n".join([*lines, "```"] if state == "code" else lines)


def _known(listed: str, names: set[str]) -> bool:
    return listed.split(", ")[0] in names
