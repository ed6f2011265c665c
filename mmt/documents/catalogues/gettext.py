"""Gettext catalogues (PO): entries and their translations, in place.

Obsolete entries are left out, and the header is no entry. The plural form of the number 1 is a
translation of the singular, and all others are of the plural.
"""

import functools
import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from mmt.documents import plurals
from mmt.documents.document import (
    FileChange,
    MarkedText,
    Segment,
    Slot,
    TextDocument,
    has_letters,
    plain,
)
from mmt.documents.encoding import declared, decode
from mmt.documents.named import UNKNOWN, Locales, code_of

_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d+)\])?[ \t]*(?=\")")
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*+)"[ \t\r]*')
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-fA-F]+|.)", re.DOTALL)
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_CHARSET = rb"\bcharset=([\w.:-]+)"
_TEMPLATE_CHARSET = re.compile(r"\bcharset=(CHARSET)\b", re.IGNORECASE)  # not filled in
_LANGUAGE = re.compile(r'(?:(?<=")|(?<=\\n))Language:[ \t]*([^\\"\s]*)')
_PLURALS = re.compile(r'(?:(?<=")|(?<=\\n))Plural-Forms:((?:[^"\\]|"\s*")*)(?=\\n)')
_WIDTH = 76  # columns of a line, as msgmerge writes them


class _Field(NamedTuple):
    """The strings behind a keyword: their text, and their place from first to last quote."""

    text: str
    start: int
    end: int


_Fields = dict[tuple[str, str], _Field]  # by keyword and index


def read(name: str, content: bytes, locales: Locales = UNKNOWN) -> TextDocument:
    """Returns the entries of a PO file; an entry with plural forms has a segment per form.

    A file whose header names the source, the target or nothing gets the target's plural forms.
    """
    entry = re.search(rb"^msgid", content, re.MULTILINE)  # the header; comments may be long
    charset = declared(content[entry.start() if entry else 0 :], _CHARSET)
    codec = "utf-8" if charset == "charset" else charset  # a template's
    text, encoding = decode(name, content, (codec,))
    entries: list[tuple[Segment, Slot]] = []
    changes: list[FileChange] = []
    header = _Header()
    for fields in _entries(name, text):
        source = fields.get(("msgid", ""))
        if source and source.text:
            changes += _surplus(fields, text, header)
            entries += _segments(fields, text, header)
        elif source and ("msgstr", "") in fields:
            field = fields[("msgstr", "")]
            header = _header(text, field, locales)
            changes += _of_header(text, field, header)
    return TextDocument(text, encoding, entries, changes)


class _Header(NamedTuple):
    """What the header of a file says, and what it will say.

    Attributes:
      name, rule: the new language and the new rule of its plural forms; '' and None leave them.
      replaced: whether the file names another language now.
      forms: the number of forms of an entry; 0 if the entries keep theirs.
      singular: the form of the number 1, -1 for none.
    """

    name: str = ""
    rule: plurals.GettextRule | None = None
    replaced: bool = False
    forms: int = 0
    singular: int = 0


def _header(text: str, field: _Field, locales: Locales) -> _Header:
    declared_language, declared_plurals = (
        pattern.search(text, field.start, field.end) for pattern in (_LANGUAGE, _PLURALS)
    )
    language = declared_language[1] if declared_language else ""
    parsed = (
        plurals.parsed_rule(_unescaped(re.sub(r'"\s*"', "", declared_plurals[1])))
        if declared_plurals
        else None
    )
    unchanged = _Header(singular=parsed.singular() if parsed else 0)
    name = locales.renamed(language, separator="_", posix=True)
    if declared_language and not language and locales.target:
        name = locales.name_like("xx", separator="_", posix=True)
    replaced = name != language
    if not declared_language or not (replaced or code_of(language) == locales.target):
        return unchanged
    keeps = parsed is not None and code_of(language) == locales.target
    rule = parsed if keeps else plurals.gettext_rule(locales.target)
    if rule is None:
        return unchanged._replace(name=name, replaced=replaced)
    return _Header(name, None if keeps else rule, replaced, rule.forms, rule.singular())


def _of_header(text: str, field: _Field, header: _Header) -> Iterator[FileChange]:
    """Yields the changes of a header. The encoding of a template is filled in, as msginit does."""
    if charset := _TEMPLATE_CHARSET.search(text, field.start, field.end):
        yield FileChange(*charset.span(1), "UTF-8")
    language = _LANGUAGE.search(text, field.start, field.end)
    given = _PLURALS.search(text, field.start, field.end)
    if language and header.name and header.replaced:
        space = "" if language[0].endswith((" ", "\t")) or language[1] else " "
        yield FileChange(*language.span(1), space + header.name)
    if given and header.rule:
        yield FileChange(*given.span(1), f" {header.rule}")
    elif header.rule and (end := text.find('\\n"', field.start, field.end)) >= 0:
        end += 3
        line = f'{_line_end(text, end)}"Plural-Forms: {header.rule}\\n"'
        yield FileChange(end, end, line)


def _line_end(text: str, index: int) -> str:
    return "\r\n" if text.startswith("\r\n", index) else "\n"


def _forms(fields: _Fields) -> list[tuple[str, _Field]]:
    return [(index, field) for (keyword, index), field in fields.items() if keyword == "msgstr"]


def _is_surplus(index: str, field: _Field, header: _Header) -> bool:
    return 0 < header.forms <= int(index or 0) and (header.replaced or not field.text)


def _surplus(fields: _Fields, text: str, header: _Header) -> Iterator[FileChange]:
    """Yields the removal of forms that the target does not have."""
    for (_, before), (index, field) in itertools.pairwise(_forms(fields)):
        if _is_surplus(index, field, header):
            yield FileChange(before.end, field.end)


def _segments(fields: _Fields, text: str, header: _Header) -> Iterator[tuple[Segment, Slot]]:
    context = fields[("msgctxt", "")].text + "\x04" if ("msgctxt", "") in fields else ""
    singular = fields[("msgid", "")]
    plural = fields.get(("msgid_plural", ""), singular)
    forms = _forms(fields)
    last = max((field.end for _, field in forms), default=0)
    known = {index for index, _ in forms}
    if ("msgid_plural", "") in fields and "0" in known:
        missing = (str(number) for number in range(header.forms) if str(number) not in known)
        forms += [(index, _Field("", last, last)) for index in missing]
    for index, field in forms:
        if _is_surplus(index, field, header):
            continue
        one = index == str(header.singular) and len(forms) > 1
        source = singular if one or not index else plural
        target = MarkedText(field.text) if field.text else None
        segment = Segment(MarkedText(source.text), context + singular.text, index, target)
        line_end = _line_end(text, last)
        write = plain(functools.partial(_quoted, line_end))
        if field.start == field.end:
            write = plain(functools.partial(_new_form, line_end, index))
        if has_letters(source.text):
            yield segment, Slot(field.start, field.end, write, target)


def _new_form(line_end: str, index: str, text: str) -> str:
    return f"{line_end}msgstr[{index}] {_quoted(line_end, text)}"


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
    if code[0] == "x" and code[1:]:  # of more digits, the last two count
        return chr(int(code[1:][-2:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _NAMED.get(code, code)


def _quoted(line_end: str, text: str) -> str:
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
    return line_end.join(f'"{line}"' for line in ["", *filter(None, lines)])
