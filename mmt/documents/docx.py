"""Word documents: paragraphs of the body, headers, footers, notes and comments.

Word divides a paragraph into runs of one format. Here the format of most letters is that of the
text, and another format is a pair of tags, so that it can follow its words. Links are pairs too,
and so are fields with a result. Other fields, pictures, bookmarks and deleted text are tags that
stand alone.
"""

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from mmt.documents import archive, docx_languages
from mmt.documents.document import (
    MarkedText,
    Render,
    Segment,
    Slot,
    Tag,
    TextDocument,
    has_letters,
)
from mmt.documents.named import UNKNOWN, Locales
from mmt.documents.tokens import Markup, escape_xml, unescape_xml

_PARTS = re.compile(r"word/(document|header|footer|footnotes|endnotes|comments)\d*\.xml")
_OTHERS = re.compile(r"word/(styles|settings)\.xml|docProps/core\.xml")
_AROUND = frozenset("hyperlink ins moveTo smartTag customXml fldSimple dir bdo".split())
_OF_OLD_TEXT = ("proofErr", "lastRenderedPageBreak")  # Word's notes, false for another text
_PROOFING = re.compile(r"<\w+:(?:lang|noProof)\b[^>]*/>")  # the format looks the same without
_EMPTY = re.compile(r"<(\w+:rPr)\s*(?:/>|>\s*</\1>)")
_PREFIX = re.compile(r"<((?:\w+:)?)")
_CHARACTERS = {"tab": "\t", "br": "\n", "cr": "\n"}
_FIELD = re.compile(r"<(?:\w+:)?fldChar\b[^>]*\bfldCharType=[\"'](begin|separate|end)")
_TEXT = re.compile(r"<(?:\w+:)?t\b[^>]*>([^<]*)")
_ELEMENTS = {"\t": "tab", "\n": "br"}


def read(name: str, content: bytes, locales: Locales = UNKNOWN) -> archive.Archive:
    """Returns the paragraphs of a Word document; tabs and line breaks are characters."""
    paragraphs = functools.partial(_paragraphs, locales)
    return archive.read(name, content, _PARTS, paragraphs, _OTHERS)


def _paragraphs(locales: Locales, markup: Markup) -> TextDocument:
    entries = []
    for index in markup.elements("p"):
        paragraph = _Paragraph(markup, index, locales)
        if has_letters(paragraph.text.text):
            slot = Slot(paragraph.start, paragraph.end, paragraph.write, paragraph.text)
            entries.append((Segment(paragraph.text), slot))
    changes = [*archive.named(markup, locales), *docx_languages.changes(markup, locales)]
    return TextDocument(markup.text, markup.encoding, entries, changes)


class _Piece(NamedTuple):
    """A part of a paragraph: a text, or a tag; in a run, with the beginning of the run."""

    kind: Literal["text", "start", "end", "alone"]
    start: int
    end: int
    text: str = ""
    run: str | None = None  # its start and properties


class _Paragraph:
    """A paragraph as text with tags: all behind its properties."""

    def __init__(self, markup: Markup, index: int, locales: Locales) -> None:
        self.markup = markup
        tokens = markup.tokens
        self.start, self.end = tokens[index].end, tokens[tokens[index].partner].start
        for child in markup.children(index):
            if tokens[child].name == "pPr":
                self.start = tokens[tokens[child].partner].end
        pieces = list(self._pieces(index))
        texts: dict[str, int] = {}  # number of characters by the look of their runs
        self.runs: dict[str, str] = {}  # the first run of each look
        for piece in pieces:
            if piece.run is not None:
                look = _look(piece.run)
                texts[look] = texts.get(look, 0) + len(piece.text)
                self.runs.setdefault(look, piece.run)
        self.runs = {
            look: docx_languages.run(run, locales) for look, run in self.runs.items()
        }
        self.base = max(texts, key=texts.__getitem__, default="")
        self.starts: dict[int, str] = {}  # offset of a start tag -> the look of its runs
        self.ends: set[int] = set()  # offsets of their end tags
        self.wrapped: dict[int, str] = {}  # offset of a tag in a run -> the look of the run
        self.text = self._marked(pieces)

    def write(self, translation: MarkedText, render: Render) -> str:
        """Returns the runs of a translation."""
        prefix = _PREFIX.match(self.runs[self.base]).group(1)  # type: ignore[union-attr]
        parts: list[str] = []
        looks, position = [self.base], 0
        for tag in translation.tags:
            parts += self._run_of(translation.text[position : tag.position], looks[-1], prefix)
            position = tag.position
            if tag.offset in self.starts:
                looks.append(self.starts[tag.offset])
            elif tag.offset in self.ends:
                looks.pop()
            else:
                raw = render(tag.offset, tag.offset + len(tag.markup))
                look = self.wrapped.get(tag.offset)
                parts += [raw] if look is None else [self.runs[look], raw, f"</{prefix}r>"]
        return "".join([*parts, *self._run_of(translation.text[position:], looks[-1], prefix)])

    def _run_of(self, text: str, look: str, prefix: str) -> list[str]:
        if not text:
            return []
        parts = [self.runs[look]]
        for part in re.split(r"([\t\n])", text):
            if part in _ELEMENTS:
                parts.append(f"<{prefix}{_ELEMENTS[part]}/>")
            elif part:
                space = ' xml:space="preserve"' if part != part.strip() else ""
                parts.append(f"<{prefix}t{space}>{escape_xml(part)}</{prefix}t>")
        return [*parts, f"</{prefix}r>"]

    def _pieces(self, index: int) -> Iterator[_Piece]:
        """Yields the parts of a paragraph, or of an element around runs."""
        tokens = self.markup.tokens
        children = list(self.markup.children(index))
        fields = {piece.start: piece for piece in self._fields(children)}
        after = 0
        for child in children:
            token, end = tokens[child], tokens[tokens[child].partner]
            if token.start < after:
                continue
            if field := fields.get(token.start):
                yield field
                after = field.end
                continue
            inner = child if token.name in _AROUND else -1
            if token.name == "sdt":
                contents = (c for c in self.markup.children(child))
                inner = next((c for c in contents if tokens[c].name == "sdtContent"), -1)
            if token.name == "r":
                yield from self._in_run(child)
            elif inner >= 0 and tokens[tokens[inner].partner].end > tokens[inner].end:
                yield _Piece("start", token.start, tokens[inner].end)
                yield from self._pieces(inner)
                yield _Piece("end", tokens[tokens[inner].partner].start, end.end)
            elif token.name not in ("pPr", *_OF_OLD_TEXT):
                yield _Piece("alone", token.start, end.end)

    def _fields(self, elements: Sequence[int]) -> Iterator[_Piece]:
        """Yields the fields that end among these elements: the code and the end of each are a pair
        around its result; without a result, all of it is one piece. Fields whose marks share a run
        with text or with another field are left out.
        """
        tokens, text = self.markup.tokens, self.markup.text
        places = [(tokens[i].start, tokens[tokens[i].partner].end) for i in elements]
        has_text = (bool("".join(_TEXT.findall(text, *place)).strip()) for place in places)
        texts_before = [0, *itertools.accumulate(has_text)]
        used: set[int] = set()
        open_: list[list[int]] = []  # the numbers of the elements that begin and separate a field
        for number, element in enumerate(elements):
            marks = _FIELD.findall(text, *places[number]) if tokens[element].name == "r" else []
            for mark in marks:
                if mark == "begin":
                    open_.append([number, number])
                elif mark == "separate" and open_:
                    open_[-1][1] = number
                elif mark == "end" and open_:
                    first, separator = open_.pop()
                    own = {first, separator, number}
                    mixed = any(texts_before[run] < texts_before[run + 1] for run in own)
                    if mixed or own & used:
                        continue
                    used |= own
                    if separator < number and texts_before[separator + 1] < texts_before[number]:
                        yield _Piece("start", places[first][0], places[separator][1])
                        yield _Piece("end", *places[number])
                    else:
                        yield _Piece("alone", places[first][0], places[number][1])

    def _in_run(self, index: int) -> Iterator[_Piece]:
        tokens, text = self.markup.tokens, self.markup.text
        children = list(self.markup.children(index))
        run = text[tokens[index].start : tokens[index].end]
        if children and tokens[children[0]].name == "rPr":
            run = text[tokens[index].start : tokens[tokens[children[0]].partner].end]
            children = children[1:]
        for child in children:
            token, end = tokens[child], tokens[tokens[child].partner]
            character = "" if token.attributes else _CHARACTERS.get(token.name, "")
            if token.name == "t" or character:
                words = character or unescape_xml(text[token.end : end.start])
                yield _Piece("text", token.start, end.end, words, run)
            elif token.name not in _OF_OLD_TEXT:
                yield _Piece("alone", token.start, end.end, "", run)

    def _marked(self, pieces: list[_Piece]) -> MarkedText:
        """Returns the text; neighbours with one look that is not the base's are in a pair."""
        tags: list[Tag] = []
        parts: list[str] = []
        length, look, last = 0, self.base, 0
        for piece in [*pieces, None]:
            new = self.base if piece is None or piece.run is None else _look(piece.run)
            if new != look:
                if look != self.base:
                    self.ends.add(-last)
                    tags.append(Tag(length, "end", "", -last))
                if piece is not None and new != self.base:
                    self.starts[-piece.start] = new
                    tags.append(Tag(length, "start", "", -piece.start))
                look = new
            if piece is None:
                break
            last = piece.end
            if piece.kind == "text":
                parts.append(piece.text)
                length += len(piece.text)
                continue
            markup = self.markup.text[piece.start : piece.end]
            tags.append(Tag(length, piece.kind, markup, piece.start))
            if piece.run is not None:
                self.wrapped[piece.start] = new
        return MarkedText("".join(parts), tuple(tags))


def _look(run: str) -> str:
    """Returns the properties of a run that can be seen."""
    return _EMPTY.sub("", _PROOFING.sub("", run.partition(">")[2]))
