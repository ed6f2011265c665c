"""HTML as parts: the text between tags is translated, everything else is kept byte for byte.

Each run of text between two tags is a text of its own. White space in a run counts as one space.
"""

import html
import re
from collections.abc import Iterable
from html.parser import HTMLParser

from mmt.serve.text import SentenceSlot, Split, Text, line_parts

_KEPT = frozenset("script style template code kbd samp var math svg".split())
_VOID = frozenset(  # elements without content and end tag
    "area base br col embed hr img input link meta param source track wbr".split()
)
_SPACE = re.compile("[ \t\n\f\r]+")  # HTML's white space, which does not include U+00A0
_UNFINISHED = re.compile("<[a-zA-Z/!?]")  # the beginning of a tag, which the text's end cuts off
_REFERENCE = re.compile(r"&#?\w+;?")


def parts(text: str, split: Split) -> Text:
    """Returns the parts of HTML, a document or a fragment.

    Elements with `translate="no"` or the class `notranslate`, and code, are kept.

    >>> from mmt.serve.scheduler import Sentence
    >>> found = parts("<p>Ja &amp; <b>nein</b>", lambda line: [Sentence((), line, 1)]).parts
    >>> [part if isinstance(part, str) else part.sentence.text for part in found]
    ['<p>', 'Ja &', ' ', '<b>', 'nein', '</b>']
    """
    result: list[str | SentenceSlot] = []
    end = 0
    for start, stop in _runs(text):
        result.append(text[end:start])
        result += _run_parts(text, start, stop, split)
        end = stop
    result.append(text[end:])
    return Text([part for part in result if part != ""], lambda line: html.escape(line, False))


def _run_parts(text: str, start: int, stop: int, split: Split) -> Iterable[str | SentenceSlot]:
    raw = text[start:stop]
    line = _SPACE.sub(" ", html.unescape(raw)).strip(" ")
    if not line.strip() or _UNFINISHED.search(raw):
        return [raw]
    before = raw[: len(raw) - len(raw.lstrip())]
    after = raw[len(raw.rstrip()) :]
    found = [
        part._replace(start=start, end=stop) if isinstance(part, SentenceSlot) else part
        for part in line_parts(line, split)
    ]
    return [before, *found, after]


def _runs(text: str) -> list[tuple[int, int]]:
    """Returns the places of text that is translated."""
    finder = _Finder(text)
    finder.feed(text)
    finder.close()
    return finder.runs


class _Finder(HTMLParser):
    """Finds runs of text. It only reads places; nothing is written from what it parsed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.runs: list[tuple[int, int]] = []
        self._text = text
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self._kept: list[str] = []  # open elements that are not translated

    def _place(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def _add(self, length: int) -> None:
        start = self._place()
        if self._kept:
            return
        if self.runs and self.runs[-1][1] == start:
            start = self.runs.pop()[0]
        self.runs.append((start, self._place() + length))

    def handle_data(self, data: str) -> None:
        self._add(len(data))

    def handle_entityref(self, name: str) -> None:
        self._reference()

    def handle_charref(self, name: str) -> None:
        self._reference()

    def _reference(self) -> None:
        match = _REFERENCE.match(self._text, self._place())
        self._add(len(match[0]) if match else 0)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _VOID:
            return
        values = dict(attrs)
        kept = tag in _KEPT or values.get("translate") == "no"
        kept = kept or "notranslate" in (values.get("class") or "").split()
        # Inside, only elements of the same name count: their end tags are not the outer one's.
        if tag == self._kept[0] if self._kept else kept:
            self._kept.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if self._kept and tag == self._kept[0]:
            self._kept.pop()
