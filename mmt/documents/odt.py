"""OpenDocument texts: paragraphs and headings of the body, headers and footers."""

import re

from mmt.documents import archive
from mmt.documents.document import Segment, Slot, TextDocument
from mmt.documents.inline import Role, Syntax, segments
from mmt.documents.tokens import Markup, Token

_PARTS = re.compile(r"(content|styles)\.xml")
_NESTED = frozenset("note annotation frame custom-shape rect line".split())  # with own paragraphs
_OPAQUE = frozenset("note-citation creator date object math".split())
_INLINE = frozenset(
    "span a s bookmark bookmark-start bookmark-end bookmark-ref reference-mark reference-ref ruby "
    "ruby-base ruby-text soft-page-break meta note-ref sequence page-number page-count file-name "
    "annotation-end change change-start change-end title author-name time".split()
)


def read(name: str, content: bytes) -> archive.Archive:
    """Returns the paragraphs of an ODT file; a tab or line break ends a segment."""
    return archive.read(name, content, _PARTS, _paragraphs)


def _paragraphs(markup: Markup) -> TextDocument:
    entries: list[tuple[Segment, Slot]] = []
    after = 0
    for index in markup.elements("p", "h"):
        if index >= after:  # not one of a note, which comes with the paragraph around it
            after = markup.tokens[index].partner + 1
            entries += segments(markup, index, after, _SYNTAX)
    entries.sort(key=lambda entry: (entry[1].start, -entry[1].end))
    return TextDocument(markup.text, markup.encoding, entries)


def _role(token: Token) -> Role:
    if token.name in _NESTED:
        return "nested"
    if token.name in _OPAQUE:
        return "opaque"
    return "inline" if token.name in _INLINE else "block"


_SYNTAX = Syntax(_role)
