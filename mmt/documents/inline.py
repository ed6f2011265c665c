"""Sentences with inline markup: from tokens to a segment and back.

A tag around a whole segment and white space at its ends stay outside the segment.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from mmt.documents.document import MarkedText, Render, Segment, Slot, Tag, has_letters
from mmt.documents.tokens import Markup, Token, escape_xml, unescape_xml

Role = Literal["inline", "block", "opaque", "nested", "hidden", "preformatted"]

_SPACE = " \t\n\r\f"
_SPACES = re.compile(f"[{_SPACE}]+")


@dataclasses.dataclass(frozen=True)
class Syntax:
    """How a format writes text between its tags.

    Attributes:
      role: what an element is to the text around it: part of a sentence ('inline'), the border of
        one ('block'), markup whose content is not translated, inside a sentence ('opaque') or as a
        border ('hidden'), markup inside a sentence with texts of its own ('nested'), or a block
        whose white space counts ('preformatted').
      collapse: whether a run of white space is one space, as in HTML.
    """

    role: Callable[[Token], Role]
    collapse: bool = True
    escape: Callable[[str], str] = escape_xml
    unescape: Callable[[str], str] = unescape_xml
    escape_cdata: Callable[[str], str] = str
    unescape_cdata: Callable[[str], str] = str


def segments(
    markup: Markup, first: int, last: int, syntax: Syntax
) -> Iterator[tuple[Segment, Slot]]:
    """Yields the segments among tokens `first` to `last`, in order of their ends."""
    begin = index = first
    while index < last:
        token = markup.tokens[index]
        after = max(index, token.partner) + 1
        role = syntax.role(token) if token.kind in ("start", "end") else "inline"
        whole = token.kind == "start" and token.partner >= 0
        if not whole or role in ("inline", "block"):
            after = index + 1
        elif role in ("nested", "preformatted"):
            inner = syntax if role == "nested" else dataclasses.replace(syntax, collapse=False)
            yield from segments(markup, index + 1, token.partner, inner)
        if role in ("block", "hidden", "preformatted"):
            yield from _segment(markup, begin, index, syntax)
            begin = after
        index = after
    yield from _segment(markup, begin, last, syntax)


def content(
    markup: Markup,
    first: int,
    last: int,
    syntax: Syntax,
    *,
    trim: Literal["markup", "space", "nothing"] = "markup",
) -> tuple[MarkedText, Slot]:
    """Returns tokens `first` to `last` as one text with its slot, empty or not.

    trim: what stays outside at the ends: white space with markup, white space, or nothing.
    """
    items = _items(markup, first, last, syntax)
    if trim != "nothing":
        items = _trimmed(markup, items, tags=trim == "markup")
    if not items:
        place = markup.tokens[first].start
        empty = MarkedText("")
        return empty, Slot(place, place, writer(syntax.escape), empty)
    start, end, escape = items[0].start, items[-1].end, syntax.escape
    if len(items) == 1 and items[0].kind == "cdata":
        start, end = start + len("<![CDATA["), end - len("]]>")
        escape = functools.partial(_in_cdata, syntax.escape_cdata)
    text = _marked(markup, items, syntax)
    return text, Slot(start, end, writer(escape), text)


def writer(escape: Callable[[str], str]) -> Callable[[MarkedText, Render], str]:
    """Returns a slot's writer of text with tags."""
    return functools.partial(_written, escape)


def _written(escape: Callable[[str], str], translation: MarkedText, render: Render) -> str:
    parts, position = [], 0
    for tag in translation.tags:
        parts.append(escape(translation.text[position : tag.position]))
        inside = tag.offset >= 0
        parts.append(render(tag.offset, tag.offset + len(tag.markup)) if inside else tag.markup)
        position = tag.position
    return "".join([*parts, escape(translation.text[position:])])


@dataclasses.dataclass
class _Item:
    """A text ('text', 'cdata') or a tag ('start', 'end', 'alone') of a segment."""

    kind: str
    start: int
    end: int
    partner: int = -1  # index in the list of items


def _segment(
    markup: Markup, first: int, last: int, syntax: Syntax
) -> Iterator[tuple[Segment, Slot]]:
    tokens = markup.tokens
    if any(tokens[index].kind in ("text", "cdata") for index in range(first, last)):
        text, slot = content(markup, first, last, syntax)
        if has_letters(text.text):
            yield Segment(text), slot


def _items(markup: Markup, first: int, last: int, syntax: Syntax) -> list[_Item]:
    """Returns the texts and tags of a segment; a tag without partner in it stands alone."""
    items: list[_Item] = []
    open_: dict[int, int] = {}  # index of a start among the tokens -> among the items, in order
    index = first
    while index < last:
        token = markup.tokens[index]
        if token.kind == "start" and first <= token.partner < last:
            end = markup.tokens[token.partner]
            empty = end.start == end.end
            if empty or syntax.role(token) in ("opaque", "nested"):
                items.append(_Item("alone", token.start, end.end))
                index = token.partner + 1
                continue
            open_[index] = len(items)
        kind = token.kind if token.kind in ("text", "cdata") else "alone"
        if token.kind == "end" and token.partner in open_:
            start, partner = open_.popitem()
            while start != token.partner:  # crosses this pair: it stands alone
                start, partner = open_.popitem()
            items[partner].kind, items[partner].partner, kind = "start", len(items), "end"
            items.append(_Item(kind, token.start, token.end, partner))
        elif token.start < token.end:
            items.append(_Item(kind, token.start, token.end))
        index += 1
    return items


def _trimmed(markup: Markup, items: list[_Item], *, tags: bool) -> list[_Item]:
    """Returns the items without white space, and tags, at the ends where the pairs allow it."""
    first, last = 0, len(items)
    while first < last:
        head, tail = items[first], items[last - 1]
        if (tags and head.kind == "alone") or _strip(markup, head, left=True):
            first += 1
        elif (tags and tail.kind == "alone") or _strip(markup, tail, left=False):
            last -= 1
        elif tags and head.kind == "start" and head.partner == last - 1:
            first, last = first + 1, last - 1
        else:
            break
    return items[first:last]


def _strip(markup: Markup, item: _Item, *, left: bool) -> bool:
    """Strips white space from a text at one side; returns whether nothing is left."""
    if item.kind != "text":
        return False
    raw = markup.text[item.start : item.end]
    if left:
        item.start += len(raw) - len(raw.lstrip(_SPACE))
    else:
        item.end -= len(raw) - len(raw.rstrip(_SPACE))
    return item.start >= item.end


def _marked(markup: Markup, items: Sequence[_Item], syntax: Syntax) -> MarkedText:
    parts: list[str] = []
    tags: list[Tag] = []
    length, blank = 0, False
    for item in items:
        raw = markup.text[item.start : item.end]
        if item.kind not in ("text", "cdata"):
            tags.append(Tag(length, item.kind, raw, item.start))  # type: ignore[arg-type]
            blank = blank and (item.kind != "alone" or raw.startswith("<!--"))
            continue
        if item.kind == "text":
            text = syntax.unescape(raw)
        else:
            text = syntax.unescape_cdata(raw[len("<![CDATA[") : -len("]]>")])
        if syntax.collapse:
            text = _SPACES.sub(" ", text)
            text = text[1:] if blank and text[:1] == " " else text
            blank = text[-1:] == " " if text else blank
        parts.append(text)
        length += len(text)
    return MarkedText("".join(parts), tuple(tags))


def _in_cdata(escape: Callable[[str], str], text: str) -> str:
    return escape(text).replace("]]>", "]]]]><![CDATA[>")
