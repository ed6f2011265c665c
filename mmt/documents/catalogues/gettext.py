"""Gettext catalogues (PO): entries and their translations, in place.

Obsolete entries are left out, and the header is no entry. As in `mmt.data.readers.gettext`, the
first plural form is a translation of the singular, and all others are of the plural.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from mmt.documents.document import (
    MarkedText,
    Segment,
    Slot,
    TextDocument,
    has_letters,
    plain,
)
from mmt.documents.encoding import declared, decode

_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d+)\])?[ \t]*(?=\")")
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*+)"[ \t\r]*')
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-fA-F]+|.)", re.DOTALL)
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_CHARSET = rb"\bcharset=([\w.:-]+)"
_WIDTH = 76  # columns of a line, as msgmerge writes them


class _Field(NamedTuple):
    """The strings behind a keyword: their text, and their place from first to last quote."""

    text: str
    start: int
    end: int


_Fields = dict[tuple[str, str], _Field]  # by keyword and index


def read(name: str, content: bytes) -> TextDocument:
    """Returns the entries of a PO file; an entry with plural forms has a segment per form."""
    charset = declared(content, _CHARSET)
    codec = "utf-8" if charset == "charset" else charset  # a template's is not filled in
    text, encoding = decode(name, content, (codec,))
    entries: list[tuple[Segment, Slot]] = []
    for fields in _entries(name, text):
        source = fields.get(("msgid", ""))
        if source and source.text:
            entries += _segments(fields)
    return TextDocument(text, encoding, entries)


def _segments(fields: _Fields) -> Iterator[tuple[Segment, Slot]]:
    context = fields[("msgctxt", "")].text + "\x04" if ("msgctxt", "") in fields else ""
    singular = fields[("msgid", "")]
    plural = fields.get(("msgid_plural", ""), singular)
    forms = [(index, field) for (keyword, index), field in fields.items() if keyword == "msgstr"]
    for index, field in forms:
        source = singular if index == "0" and len(forms) > 1 or not index else plural
        target = MarkedText(field.text) if field.text else None
        segment = Segment(MarkedText(source.text), context + singular.text, index, target)
        if has_letters(source.text):
            yield segment, Slot(field.start, field.end, plain(_quoted), target)


def _entries(name: str, text: str) -> Iterator[_Fields]:
    """Yields the fields of each entry."""
    fields: _Fields = {}
    start = number = 0
    key: tuple[str, str] | None = None
    for number, line in enumerate(text.split("\n"), 1):
        place = start + len(line) - len(line.lstrip())
        start += len(line) + 1
        words = line.strip()
        if not words or words[0] == "#":
            if not words and fields:
                yield fields
                fields, key = {}, None
            continue
        keyword = _KEYWORD.match(text, place)
        if keyword:
            key, place = (keyword[1], keyword[2] or ""), keyword.end()
            complete = any(name == "msgstr" for name, _ in fields)
            if key[0] in ("msgid", "msgctxt") and (complete or key in fields):
                yield fields
                fields = {}
            if key in fields:
                raise ValueError(f"{name}:{number}: {keyword[0].strip()} is repeated in an entry")
        string = _STRING.match(text, place)
        if key is None or string is None or string.end() < start - 1:
            raise ValueError(
                f'{name}:{number}: {words[:40]!r}; expected msgid or msgstr, then "text"'
            )
        before = fields.get(key, _Field("", place, place))
        fields[key] = _Field(before.text + _unescaped(string[1]), before.start, string.end(1) + 1)
    if fields:
        yield fields


def _unescaped(raw: str) -> str:
    return _ESCAPE.sub(_character, raw) if "\\" in raw else raw


def _character(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "01234567":
        return chr(int(code, 8))
    return chr(int(code[1:], 16)) if code[0] == "x" and code[1:] else _NAMED.get(code, code)


def _quoted(text: str) -> str:
    """Returns a text as strings: one, or with line feeds and for long texts one a line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    escaped = escaped.replace("\r", "\\r").replace("\n", "\\n")
    escaped = re.sub("[\x00-\x1f\x7f]", lambda match: f"\\{ord(match[0]):03o}", escaped)
    if len(escaped) <= _WIDTH and "\\n" not in escaped[:-2]:
        return f'"{escaped}"'
    lines = [""]
    for word in re.findall(r"\S*?\\n|\S+\s*|\s+", escaped):
        if len(lines[-1]) + len(word) > _WIDTH or lines[-1].endswith("\\n"):
            lines.append("")
        lines[-1] += word
    return "\n".join(f'"{line}"' for line in ["", *filter(None, lines)])
