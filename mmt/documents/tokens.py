"""Markup as a flat list of tokens with their places; XML is split here, HTML by `html`.

The tokens cover the whole text. XML is checked by Python's expat. As in defusedxml, a document that
declares an entity or names an undeclared one is refused; no DTD or other file is ever fetched.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, NoReturn
from xml.parsers import expat

from mmt.documents.document import DEPTH
from mmt.documents.encoding import Encoding, declared, decode

_ATTRIBUTE = re.compile(r"([^\s=<>/\"']+)\s*=\s*(\"[^\"]*\"|'[^']*')")
_REFERENCE = re.compile(r"&(?:#(?:x([0-9a-fA-F]+)|(\d+))|(\w+));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_DECLARED = rb"<\?xml[^>]*\bencoding\s*=\s*[\"']([\w.:-]+)[\"']"
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Token(NamedTuple):
    """A tag, a text or something else: `text[start:end]` of the document.

    Attributes:
      kind: 'start', 'end', 'text', 'cdata', or 'other' (comments, declarations). An element without
        content is a start and an empty end.
      name: the element's, without a prefix.
      attributes: of a start, with prefixes.
      partner: index of the end that belongs to a start, and vice versa; -1 for none.
    """

    kind: str
    name: str
    start: int
    end: int
    attributes: Mapping[str, str]
    partner: int


class Markup(NamedTuple):
    """A document in a markup language."""

    name: str
    text: str
    encoding: Encoding
    tokens: list[Token]

    def children(self, index: int) -> Iterator[int]:
        """Yields the indices of the starts of an element's child elements."""
        inner, last = index + 1, self.tokens[index].partner
        while inner < last:
            token = self.tokens[inner]
            if token.kind == "start":
                yield inner
            inner = max(inner, token.partner) + 1

    def elements(self, *names: str) -> Iterator[int]:
        """Yields the indices of the starts of all elements with these names."""
        for index, token in enumerate(self.tokens):
            if token.kind == "start" and token.name in names:
                yield index

    def attribute(self, token: Token, name: str) -> tuple[int, int] | None:
        """Returns where the value of an attribute of XML stands, without its quotes."""
        for match in _ATTRIBUTE.finditer(self.text, token.start, token.end):
            if match[1] == name:
                return match.start(2) + 1, match.end(2) - 1
        return None

    def root(self) -> Token:
        """Returns the start of the outermost element."""
        return next(token for token in self.tokens if token.kind == "start")

    def fault(self, token: Token, message: str) -> ValueError:
        """Returns an error that names file and line."""
        return ValueError(f"{self.name}:{self.text.count(chr(10), 0, token.start) + 1}: {message}")


def xml(name: str, content: bytes) -> Markup:
    """Returns the tokens of an XML document.

    Raises:
      ValueError: with file and line, for XML that is not well-formed, nested too deeply, or refused
        as dangerous.
    """
    text, encoding = decode(name, content, (declared(content, _DECLARED),), "xmlcharrefreplace")
    return Markup(name, text, encoding, _Parser(name, text).tokens())


def unescape_xml(raw: str) -> str:
    """Returns text without the character references of XML, with XML's line breaks.

    >>> unescape_xml("a &lt; b&#10;")
    'a < b\\n'
    """
    raw = raw.replace("\r\n", "\n")
    return _REFERENCE.sub(_character, raw) if "&" in raw else raw


def escape_xml(text: str) -> str:
    """Returns text as XML writes it between tags; characters that XML cannot hold become U+FFFD."""
    text = _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("\r", "&#13;")


def escape_attribute(text: str) -> str:
    """Returns text as XML and HTML write it inside double or single quotes."""
    return escape_xml(text).replace('"', "&quot;").replace("'", "&#39;").replace("\n", "&#10;")


def _character(match: re.Match[str]) -> str:
    hexadecimal, decimal, name = match.groups()
    if name:
        return _NAMED.get(name, match[0])
    return chr(int(hexadecimal, 16) if hexadecimal else int(decimal))


class _Parser:
    """Collects expat's events with their places."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self.events: list[tuple[str, str, int, Mapping[str, str]]] = []
        self.depth, self.in_cdata = 0, False
        parser = self.parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartCdataSectionHandler = self._cdata
        parser.EndCdataSectionHandler = self._end_cdata
        parser.CommentHandler = lambda data: self._add("other")
        parser.ProcessingInstructionHandler = lambda target, data: self._add("other")
        parser.EntityDeclHandler = lambda name, *_: self._refuse(f"it declares the entity {name}")
        parser.SkippedEntityHandler = lambda name, _: self._refuse(f"it names the entity {name}")
        parser.ExternalEntityRefHandler = lambda *_: self._refuse("it names an external entity")

    def tokens(self) -> list[Token]:
        try:
            data = self.text.encode()
            self.parser.Parse(data, True)
        except expat.ExpatError as error:
            message = expat.ErrorString(error.code)
            raise ValueError(f"{self.name}:{error.lineno}: broken XML: {message}") from None
        except UnicodeEncodeError:
            raise ValueError(f"{self.name}: half of a surrogate pair") from None
        places = _characters_of(data, [event[2] for event in self.events])
        ends = [*places[1:], len(self.text)]
        tokens: list[Token] = [Token("other", "", 0, places[0], {}, -1)]
        open_: list[int] = []
        for (kind, name, _, attributes), start, end in zip(self.events, places, ends, strict=True):
            partner = -1
            if kind == "start":
                open_.append(len(tokens))
            elif kind == "end":
                partner = open_.pop()
                tokens[partner] = tokens[partner]._replace(partner=len(tokens))
            tokens.append(Token(kind, name, start, end, attributes, partner))
        return tokens

    def _add(self, kind: str, name: str = "", attributes: Mapping[str, str] | None = None) -> None:
        place = self.parser.CurrentByteIndex
        self.events.append((kind, name, place, attributes or {}))

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth > DEPTH:
            self._refuse(f"its elements are nested more than {DEPTH} deep")
        self._add("start", name.rpartition(":")[2], attributes)

    def _end(self, name: str) -> None:
        self.depth -= 1
        self._add("end", name.rpartition(":")[2])

    def _characters(self, data: str) -> None:
        if not self.in_cdata and (not self.events or self.events[-1][0] != "text"):
            self._add("text")

    def _cdata(self) -> None:
        self.in_cdata = True
        self._add("cdata")

    def _end_cdata(self) -> None:
        self.in_cdata = False

    def _refuse(self, what: str) -> NoReturn:
        raise ValueError(f"{self.name}:{self.parser.CurrentLineNumber}: refused: {what}")


def _characters_of(data: bytes, places: list[int]) -> list[int]:
    """Returns offsets of characters for ascending offsets of bytes."""
    if data.isascii():
        return places
    characters, before, count = [], 0, 0
    for place in places:
        count += len(data[before:place].decode())
        before = place
        characters.append(count)
    return characters
