"""Catalogues of keys and values: Java's `.properties` and Apple's `.strings`."""

import re
from collections.abc import Callable

from mmt.documents.document import Segment, Slot, TextDocument, has_letters, replaced
from mmt.documents.encoding import decode, whole_characters

_PROPERTY = re.compile(
    r"[ \t\f]*(?![#!\s])((?:[^\\\s:=]|\\(?:\r\n|.))+)[ \t\f]*(?:[:=][ \t\f]*)?"
    r"((?:[^\\\r\n]|\\(?:\r\n|.))*)",
    re.DOTALL,
)
_CONTINUED = re.compile(r"\\(?:\r\n|\r|\n)[ \t\f]*")
_PROPERTY_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_STRING = r'"((?:[^"\\]|\\.)*+)"'
_STRINGS_TOKEN = re.compile(
    rf"\s+|//[^\n]*|/\*.*?\*/|(?P<entry>(?:{_STRING}|([\w.$-]+))\s*=\s*{_STRING}\s*;)", re.DOTALL
)
_STRINGS_ESCAPE = re.compile(r"\\(U[0-9a-fA-F]{4}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ARGUMENT = re.compile(r"\{\d+[,}]")  # of Java's MessageFormat
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def read_properties(name: str, content: bytes) -> TextDocument:
    """Returns the values of a properties file, in UTF-8 or (as before Java 9) Latin-1.

    A value with an argument such as {0} is a pattern of MessageFormat, where an apostrophe is two.
    """
    text, encoding = decode(name, content, ("utf-8", "latin-1"))
    narrow = encoding.codec == "latin-1" or (text.isascii() and "\\u" in text)
    escape = _escape_narrow if narrow else _escape_property
    entries: list[tuple[Segment, Slot]] = []
    index = 0
    while index < len(text):
        match = _PROPERTY.match(text, index)
        if match:
            value = _unescaped(_CONTINUED.sub("", match[2]), _PROPERTY_ESCAPE)
            if has_letters(value):
                key = _unescaped(match[1], _PROPERTY_ESCAPE)
                write: Callable[[str], str] = escape
                if _ARGUMENT.search(value) and "'" not in value.replace("''", ""):
                    value, write = value.replace("''", "'"), _in_pattern(escape)
                entries.append(replaced(value, *match.span(2), write, key=key))
            index = match.end()
        line = re.compile(r"[\r\n]").search(text, index)
        index = line.end() if line else len(text)
    return TextDocument(text, encoding, entries)


def read_strings(name: str, content: bytes) -> TextDocument:
    """Returns the values of a strings file.

    Raises:
      ValueError: with the line, for what is no comment and no `"key" = "value";`.
    """
    text, encoding = decode(name, content)
    entries: list[tuple[Segment, Slot]] = []
    index = 0
    while index < len(text):
        match = _STRINGS_TOKEN.match(text, index)
        if match is None:
            line = text.count("\n", 0, index) + 1
            excerpt = text[index : index + 40].splitlines()[0]
            raise ValueError(f'{name}:{line}: {excerpt!r}; expected "key" = "value";')
        index = match.end()
        if match["entry"]:
            value = _unescaped(match[4], _STRINGS_ESCAPE)
            key = match[3] or _unescaped(match[2] or "", _STRINGS_ESCAPE)
            if has_letters(value):
                entries.append(replaced(value, *match.span(4), _escape_string, key=key))
    return TextDocument(text, encoding, entries)


def _unescaped(raw: str, escapes: re.Pattern[str]) -> str:
    return whole_characters(escapes.sub(_character, raw)) if "\\" in raw else raw


def _character(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _NAMED.get(code, code)


def _escaped(special: str) -> Callable[[str], str]:
    table = {ord(character): f"\\{name}" for name, character in _NAMED.items()}
    table |= {ord(character): f"\\{character}" for character in special}
    return lambda text: text.translate(table)


_escape_string = _escaped('\\"')


def _in_pattern(escape: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: escape(text.replace("'", "''"))


def _escape_property(text: str) -> str:
    escaped = _escaped("\\")(text)
    return re.sub(r"^[ ]", r"\\\g<0>", escaped)


def _escape_narrow(text: str) -> str:
    """Returns a value whose characters outside ASCII are UTF-16 escapes, as Java reads them."""
    parts = []
    for character in _escape_property(text):
        data = b"" if character.isascii() else character.encode("utf-16-be")
        codes = [f"\\u{data[i]:02x}{data[i + 1]:02x}" for i in range(0, len(data), 2)]
        parts.append("".join(codes) or character)
    return "".join(parts)
