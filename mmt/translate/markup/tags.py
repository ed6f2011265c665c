"""Reads and writes the inline tags of HTML and XML."""

import html
import re
from collections.abc import Iterable
from typing import Literal

from mmt.documents import MarkedText, Tag

Kind = Literal["start", "end", "alone"]
_TAG = re.compile(
    r"""<(?P<close>/?)(?P<name>[A-Za-z][\w:.\-]*)(?:\s(?:"[^"]*"|'[^']*'|[^<>"'])*|/)?>"""
)
_VOID = {"br", "hr", "img", "input", "wbr"}  # of HTML; <x/> of XLIFF closes itself


def parse(markup: str) -> MarkedText:
    """Returns the text and tags of HTML or XML; entities become characters.

    A tag without its partner stands alone.

    >>> parse("A <b>bold</b> &amp; new<br/>word").text
    'A bold & newword'
    """
    text, tags, names, end = "", [], [], 0
    for match in _TAG.finditer(markup):
        text += html.unescape(markup[end : match.start()])
        end = match.end()
        alone = match[0].endswith("/>") or match["name"].lower() in _VOID
        kind: Kind = "alone" if alone else "end" if match["close"] else "start"
        tags.append(Tag(len(text), kind, match[0]))
        names.append(match["name"])
    return MarkedText(text + html.unescape(markup[end:]), _paired(tags, names))


def write(marked: MarkedText) -> str:
    """Returns a text with its tags, and with `&`, `<` and `>` as entities.

    >>> write(parse("A <b>bold</b> &amp; new<br/>word"))
    'A <b>bold</b> &amp; new<br/>word'
    """
    parts, end = [], 0
    for tag in marked.tags:
        parts += [html.escape(marked.text[end : tag.position], quote=False), tag.markup]
        end = tag.position
    return "".join([*parts, html.escape(marked.text[end:], quote=False)])


def joined(parts: Iterable[MarkedText]) -> MarkedText:
    """Returns the text of consecutive parts."""
    texts, tags, length = [], list[Tag](), 0
    for text, of_part in parts:
        tags += (tag._replace(position=tag.position + length) for tag in of_part)
        texts.append(text)
        length += len(text)
    return MarkedText("".join(texts), tuple(tags))


def _paired(tags: list[Tag], names: list[str]) -> tuple[Tag, ...]:
    """Returns the tags; the kind of those without a partner becomes 'alone'."""
    opened: list[int] = []
    partners: set[int] = set()
    for i, tag in enumerate(tags):
        if tag.kind == "start":
            opened.append(i)
        elif tag.kind == "end":
            matching = [depth for depth, j in enumerate(opened) if names[j] == names[i]]
            if matching:
                partners |= {i, opened[matching[-1]]}
                del opened[matching[-1] :]
    return tuple(tag if i in partners else tag._replace(kind="alone") for i, tag in enumerate(tags))
