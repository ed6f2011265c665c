"""OpenDocument texts: paragraphs and headings of the body, headers and footers."""

import functools
import re
from collections.abc import Iterator

from mmt.documents import archive
from mmt.documents.document import FileChange, Segment, Slot, TextDocument
from mmt.documents.inline import Role, Syntax, segments
from mmt.documents.named import UNKNOWN, Locales
from mmt.documents.tokens import Markup, Token

_PARTS = re.compile(r"(content|styles)\.xml")
_META = re.compile(r"meta\.xml")
_NESTED = frozenset("note annotation frame custom-shape rect line".split())  # with own paragraphs
_DIRECTED = (
    "paragraph-properties", "page-layout-properties", "section-properties", "table-properties",
    "table-cell-properties", "graphic-properties",
)  # fmt: skip
_OPAQUE = frozenset("note-citation creator date object math".split())
_INLINE = frozenset(
    "span a s bookmark bookmark-start bookmark-end bookmark-ref reference-mark reference-ref ruby "
    "ruby-base ruby-text soft-page-break meta note-ref sequence page-number page-count file-name "
    "annotation-end change change-start change-end title author-name time".split()
)


def read(name: str, content: bytes, locales: Locales = UNKNOWN) -> archive.Archive:
    """Returns the paragraphs of an ODT file; a tab or line break ends a segment."""
    paragraphs = functools.partial(_paragraphs, locales)
    return archive.read(name, content, _PARTS, paragraphs, _META)


def _paragraphs(locales: Locales, markup: Markup) -> TextDocument:
    entries: list[tuple[Segment, Slot]] = []
    after = 0
    for index in markup.elements("tracked-changes", "p", "h"):
        if index >= after:  # not one of a note, which comes with the paragraph around it
            after = markup.tokens[index].partner + 1
            if markup.tokens[index].name != "tracked-changes":
                entries += segments(markup, index, after, _SYNTAX)
    entries.sort(key=lambda entry: (entry[1].start, -entry[1].end))
    changes = [
        *_styles(markup, locales), *_turned(markup, locales), *archive.named(markup, locales)
    ]  # fmt: skip
    return TextDocument(markup.text, markup.encoding, entries, changes)


def _styles(markup: Markup, locales: Locales) -> Iterator[FileChange]:
    """Yields the changes of the styles that name the source: a language and its country."""
    for index in markup.elements("text-properties"):
        token = markup.tokens[index]
        places = [markup.attribute(token, f"fo:{name}") for name in ("language", "country")]
        written = [markup.text[slice(*span)] for span in places if span]
        language_parts = [part for part in written if part not in ("", "none")]
        new = locales.renamed("-".join(language_parts))
        if places[0] and new != "-".join(language_parts):
            language, *regions = new.split("-")
            country = regions[-1] if len(language_parts) > 1 and regions else "none"
            yield FileChange(*places[0], language)
            if places[1]:
                yield FileChange(*places[1], country)


def _turned(markup: Markup, locales: Locales) -> Iterator[FileChange]:
    """Yields the changes of the styles that have the direction of the source."""
    old, new = ("rl", "lr") if locales.turned == "ltr" else ("lr", "rl")
    for index in markup.elements(*_DIRECTED) if locales.turned else ():
        attribute = markup.attribute(markup.tokens[index], "style:writing-mode")
        if attribute and markup.text[slice(*attribute)] in (old, f"{old}-tb"):
            yield FileChange(*attribute, markup.text[slice(*attribute)].replace(old, new))


def _role(token: Token) -> Role:
    if token.name in _NESTED:
        return "nested"
    if token.name in _OPAQUE:
        return "opaque"
    return "inline" if token.name in _INLINE else "block"


_SYNTAX = Syntax(_role)
