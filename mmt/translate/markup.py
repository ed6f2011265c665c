"""Inline tags of HTML and XLIFF: the translation of a text gets the tags of the text.

A text is translated without its tags, and aligned with its translation. An element then spans the
words that are aligned with its own. No tag is lost, and elements stay nested as they were.
"""

import html
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from mmt.documents import MarkedText, Tag, by_position
from mmt.translate import alignment as alignments
from mmt.translate import words
from mmt.translate.alignment import Alignment
from mmt.translate.translation import Translation
from mmt.translate.translator import WINDOW, Translator

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


class _Element(NamedTuple):
    """An element of a text: its tags, one or two, the characters it spans, its inner elements."""

    tags: tuple[Tag, ...]
    start: int
    end: int
    inner: tuple["_Element", ...]


def translate(
    translator: Translator, segments: Iterable[MarkedText], **options: Any
) -> Iterator[MarkedText]:
    """Yields the translation of each segment, with the segment's tags.

    `options` are those of `Translator.translate`, one for all segments (`source`, `target`,
    `decoding`, `glossary`). White space around a segment stays.
    """
    iterator = iter(segments)
    while window := list(itertools.islice(iterator, WINDOW)):
        translations = list(translator.translate([s.text for s in window], **options))
        tagged = [i for i, segment in enumerate(window) if segment.tags]
        languages = {name: options.get(name) for name in ("source", "target")}
        aligned = _aligned(translator, [translations[i] for i in tagged], **languages)
        of_tagged = dict(zip(tagged, aligned, strict=True))
        for i, segment in enumerate(window):
            if i in of_tagged:
                yield transfer(segment, translations[i].text, of_tagged[i])
            else:
                yield MarkedText(_with_outer_space(segment.text, translations[i].text))


def place(
    translator: Translator, segment: MarkedText, translation: str, **languages: Any
) -> MarkedText:
    """Returns a translation of a text with the tags of the text.

    A text that is longer than the model takes gets its tags by position. `languages` are the names
    of `source` and `target`.
    """
    text = segment.text.strip()
    if not segment.tags or not text or not translation.strip():
        return by_position(segment, translation)
    (tokens,) = translator.source_tokens([text], languages.get("target"))
    if tokens > translator.max_source_length:
        return by_position(segment, translation)
    (alignment,) = translator.align([(text, translation.strip())], **languages)
    start = segment.text.index(text)
    return transfer(segment, translation.strip(), alignment.shifted(start, 0))


def transfer(source: MarkedText, translation: str, alignment: Alignment) -> MarkedText:
    """Returns a translation of `source.text` with the tags of `source`."""
    text = _with_outer_space(source.text, translation)
    shift = len(text) - len(text.lstrip()) if translation else 0
    places = _Places(source.text, text, alignment.shifted(0, shift))
    tags: list[Tag] = []
    places.emit(_elements(source), (0, len(places.words)), len(text), tags)
    return MarkedText(text, tuple(tags))


class _Places:
    """Where the elements of a text belong in its translation."""

    def __init__(self, source: str, target: str, alignment: Alignment) -> None:
        self.source, self.target = source, target
        self.words = words.spans(target)
        self._attention = _attention_of_words(self.words, alignment, len(source))

    def emit(
        self, elements: tuple[_Element, ...], window: tuple[int, int], end: int, tags: list[Tag]
    ) -> None:
        """Adds the tags of elements that lie within a window of words and before a character."""
        for element, (first, last) in self._windows(elements, window):
            latest = tags[-1].position if tags else 0
            start = self._position(element, first, last, end)
            start = min(max(start, latest), end)
            tags.append(element.tags[0]._replace(position=start))
            if len(element.tags) == 2:
                stop = self.words[last - 1][1] if last > first else start
                stop = min(max(stop, start), end)
                self.emit(element.inner, (first, last), stop, tags)
                tags.append(element.tags[1]._replace(position=stop))

    def _position(self, element: _Element, first: int, last: int, end: int) -> int:
        """Returns the character before which an element begins."""
        joined = element.start > 0 and not self.source[element.start - 1].isspace()
        if first == last and joined and first > 0:  # beside the word before, as in the source
            return self.words[first - 1][1]
        return self.words[first][0] if first < len(self.words) else end

    def _windows(
        self, elements: tuple[_Element, ...], window: tuple[int, int]
    ) -> list[tuple[_Element, tuple[int, int]]]:
        """Returns the words of each element: windows that do not overlap, in order."""
        low, high = window
        taken = np.zeros(len(self.words) + 1, bool)
        chosen: dict[int, tuple[int, int]] = {}
        with_text = [i for i, e in enumerate(elements) if self.source[e.start : e.end].strip()]
        for i in sorted(with_text, key=lambda i: elements[i].start - elements[i].end):
            first, last = self._best(elements[i], low, high, taken)
            chosen[i] = first, last
            taken[first:last] = True
        inside = {place for first, last in chosen.values() for place in range(first + 1, last)}
        for i, element in enumerate(elements):
            if i not in chosen or chosen[i][0] == chosen[i][1]:
                wanted = self._place(element, low, high)
                free = [place for place in range(low, high + 1) if place not in inside]
                place = min(free, key=lambda place: (abs(place - wanted), place))
                chosen[i] = place, place
        order = sorted(chosen, key=lambda i: (chosen[i], elements[i].start, i))
        return [(elements[i], chosen[i]) for i in order]

    def _best(self, element: _Element, low: int, high: int, taken: Any) -> tuple[int, int]:
        """Returns the window of free words that gives most of its attention to an element.

        Each word counts with the share of its attention that is on the element less that elsewhere.
        """
        shares = self._attention[:, element.start : element.end].sum(axis=1)
        gains = 2 * shares - 1
        best, window = 0.0, None
        for first in range(low, high):
            total = 0.0
            for last in range(first, high):
                if taken[last]:
                    break
                total += gains[last]
                if total > best:
                    best, window = total, (first, last + 1)
        if window:
            return window
        free = [i for i in range(low, high) if not taken[i]]
        if not free:
            return low, low
        word = max(free, key=lambda i: (shares[i], -i))
        return word, word + 1

    def _place(self, element: _Element, low: int, high: int) -> int:
        """Returns before which word an element without text belongs."""
        gains = self._attention[:, element.start :].sum(axis=1)[low:high] * 2 - 1
        # The best place has words of what precedes before it, and words of what follows after it.
        scores = [gains[place:].sum() - gains[:place].sum() for place in range(high - low + 1)]
        return low + int(np.argmax(scores))


def _attention_of_words(
    spans: list[tuple[int, int]], alignment: Alignment, length: int
) -> Float[np.ndarray, "words characters"]:
    """Returns which share of a target word's attention each character of the source has.

    Words without attention have shares in the order of the text.
    """
    by_token = np.zeros((len(alignment.target), length), np.float32)
    for column, (start, end) in enumerate(alignment.source):
        if end > start:
            by_token[:, start:end] = alignment.weights[:, column, None] / (end - start)
    attention = np.zeros((len(spans), length), np.float32)
    for row, (start, end) in enumerate(spans):
        for token, (first, last) in enumerate(alignment.target):
            if first < end and last > start:
                attention[row] += by_token[token]
    total = attention.sum(axis=1, keepdims=True)
    if length:
        without = np.flatnonzero(total[:, 0] <= 0)
        attention[without, without * length // max(len(spans), 1)] = 1
    return attention / np.where(total > 0, total, 1)


def _aligned(
    translator: Translator, translations: list[Translation], **languages: Any
) -> list[Alignment]:
    """Returns the alignment of each translation, piece by piece."""
    pairs, places = [], []
    for i, translation in enumerate(translations):
        source_end = target_end = 0
        for piece in translation.pieces or (translation,):
            source, target = piece.source.strip(), piece.text
            source_start = translation.source.find(source, source_end)
            target_start = translation.text.find(target, target_end)
            if source and target and source_start >= 0 and target_start >= 0:
                pairs.append((source, target))
                places.append((i, source_start, target_start))
                source_end, target_end = source_start + len(source), target_start + len(target)
    parts: list[list[Alignment]] = [[] for _ in translations]
    for (i, *shift), part in zip(places, translator.align(pairs, **languages), strict=True):
        parts[i].append(part.shifted(*shift))
    return [alignments.join(of_line) for of_line in parts]


def _elements(marked: MarkedText) -> tuple[_Element, ...]:
    """Returns the outer elements of a text."""
    stack: list[tuple[Tag | None, list[_Element]]] = [(None, [])]
    for tag in marked.tags:
        if tag.kind == "start":
            stack.append((tag, []))
        elif tag.kind == "end":
            opened, inner = stack.pop()
            assert opened is not None, f"{tag.markup} closes nothing"
            element = _Element((opened, tag), opened.position, tag.position, tuple(inner))
            stack[-1][1].append(element)
        else:
            stack[-1][1].append(_Element((tag,), tag.position, tag.position, ()))
    assert len(stack) == 1, f"{stack[-1][0]} is not closed"
    return tuple(stack[0][1])


def _paired(tags: list[Tag], names: list[str]) -> tuple[Tag, ...]:
    """Returns the tags, those without a partner as standing alone."""
    opened: list[int] = []
    partners: set[int] = set()
    for i, tag in enumerate(tags):
        if tag.kind == "start":
            opened.append(i)
        elif tag.kind == "end":
            same = [place for place, j in enumerate(opened) if names[j] == names[i]]
            if same:
                partners |= {i, opened[same[-1]]}
                del opened[same[-1] :]
    return tuple(
        tag if i in partners else tag._replace(kind="alone") for i, tag in enumerate(tags)
    )


def _with_outer_space(source: str, translation: str) -> str:
    """Returns the translation with the white space around its source."""
    core = source.strip()
    return source.replace(core, translation, 1) if core else source
