"""Where the inline tags of a text go in its translation: by attention of words, or by position.

No tag is lost, and elements stay nested as they were.
"""

import bisect
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from mmt.documents.document import MarkedText, Tag

Span = tuple[int, int]


def by_attention(
    source: MarkedText,
    translation: str,
    words: Sequence[Span],
    attention: Float[np.ndarray, "words characters"],
) -> MarkedText:
    """Returns the translation with the tags of the source, at the words that attend to them.

    An element spans the words that attend to its own, so elements may change their order.

    Args:
        source: the text.
        translation: its translation.
        words: start and end of the words of the translation.
        attention: which share of a word's attention each character of the source has.
    """
    places = _Places(source.text, translation, words, attention)
    placed: list[_PlacedTag] = []
    places.emit(_elements(source), (0, len(words)), len(translation), placed)
    order = [tag.number for tag in placed]
    tags = (source.tags[tag.number]._replace(position=tag.position) for tag in placed)
    return spaced(source, MarkedText(translation, tuple(tags)), order)


def by_position(source: MarkedText, translation: str) -> MarkedText:
    """Returns the translation with the tags of the source, at about the same parts of the text.

    A tag stands at the nearest border of a word. The order of tags is kept, so pairs stay nested. A
    pair around text keeps at least a word where there is one.

    >>> by_position(MarkedText("ein rotes Haus", (Tag(4, "start", "<b>"), Tag(9, "end", "</b>"))),
    ...             "a red house").tags
    (Tag(position=2, kind='start', markup='<b>', offset=-1), Tag(position=5, kind='end', ...))
    """
    if translation == source.text:
        return source
    words = list(re.finditer(r"\S+", translation))
    starts = [0, *(word.start() for word in words), len(translation)]
    ends = [0, *(word.end() for word in words), len(translation)]
    scale = len(translation) / max(1, len(source.text))
    tags: list[Tag] = []
    open_: list[Span] = []  # positions of started pairs, in source and translation
    least = 0
    for tag in source.tags:
        borders = ends if tag.kind == "end" else starts
        at_end = tag.position == len(source.text)
        position = len(translation) if at_end else _nearest(borders, tag.position * scale)
        position = max(least, position)
        if tag.kind == "start":
            position += len(translation[position:]) - len(translation[position:].lstrip())
            open_.append((tag.position, position))
        elif tag.kind == "end":
            before, start = open_.pop()
            if before < tag.position and position == start:
                position = ends[min(bisect.bisect_right(ends, start), len(ends) - 1)]
            position = max(least, len(translation[:position].rstrip()))
        least = position
        tags.append(tag._replace(position=position))
    return spaced(source, MarkedText(translation, tuple(tags)))


def spaced(source: MarkedText, translation: MarkedText, order: Sequence[int] = ()) -> MarkedText:
    """Returns the translation with spaces around images and code that have them in the source.

    order: which tag of the source each tag of the translation is; without it, the same.
    """
    text, tags = translation.text, list(translation.tags)
    for index in reversed(range(len(tags))):
        before = source.tags[order[index] if order else index].position
        if tags[index].kind != "alone" or not source.text[:before][-1:].isspace():
            continue
        first, last = index, index + 1  # tags that are not parted from this one
        position = tags[index].position
        if source.text[before : before + 1].isspace() and text[position : position + 1].strip():
            while last < len(tags) and tags[last][:2] in ((position, "end"), (position, "alone")):
                last += 1
            text, tags[last:] = _with_space(text, position), map(_moved, tags[last:])
        if text[:position][-1:].strip():
            while first and tags[first - 1][:2] in ((position, "start"), (position, "alone")):
                first -= 1
            text, tags[first:] = _with_space(text, position), map(_moved, tags[first:])
    return MarkedText(text, tuple(tags))


def _with_space(text: str, position: int) -> str:
    return f"{text[:position]} {text[position:]}"


def _moved(tag: Tag) -> Tag:
    return tag._replace(position=tag.position + 1)


def _nearest(borders: Sequence[int], position: float) -> int:
    index = bisect.bisect_left(borders, position)
    return min(borders[max(0, index - 1) : index + 1], key=lambda border: abs(border - position))


class _Element(NamedTuple):
    """An element of a text: the numbers of its tags, its characters, the elements in it."""

    tags: tuple[int, ...]
    start: int
    end: int
    inner: tuple["_Element", ...]


class _PlacedTag(NamedTuple):
    """The number of a tag in the source, and its position in the translation."""

    number: int
    position: int


class _Places:
    """Where the elements of a text belong in its translation."""

    def __init__(
        self,
        source: str,
        target: str,
        words: Sequence[Span],
        attention: Float[np.ndarray, "words characters"],
    ) -> None:
        self.source, self.target, self.words = source, target, words
        self._before = np.pad(np.cumsum(attention, axis=1, dtype=np.float64), ((0, 0), (1, 0)))

    def emit(
        self,
        elements: tuple[_Element, ...],
        window: Span,
        end: int,
        tags: list[_PlacedTag],
    ) -> None:
        """Adds the tags of elements that lie within a window of words and before a character."""
        for element, (first, last) in self._windows(elements, window):
            latest = tags[-1].position if tags else 0
            start = self._position(element, first, last, end)
            start = min(max(start, latest), end)
            tags.append(_PlacedTag(element.tags[0], start))
            if len(element.tags) == 2:
                stop = self.words[last - 1][1] if last > first else start
                stop = min(max(stop, start), end)
                self.emit(element.inner, (first, last), stop, tags)
                tags.append(_PlacedTag(element.tags[1], stop))

    def _position(self, element: _Element, first: int, last: int, end: int) -> int:
        """Returns the character before which an element begins."""
        joined = element.start > 0 and not self.source[element.start - 1].isspace()
        if first == last and joined and first > 0:  # beside the word before, as in the source
            return self.words[first - 1][1]
        return self.words[first][0] if first < len(self.words) else end

    def _windows(
        self, elements: tuple[_Element, ...], window: Span
    ) -> list[tuple[_Element, Span]]:
        """Returns the words of each element: windows that do not overlap, in order."""
        low, high = window
        is_taken = np.zeros(len(self.words) + 1, bool)
        chosen: dict[int, Span] = {}
        with_text = [i for i, e in enumerate(elements) if self.source[e.start : e.end].strip()]
        for i in sorted(with_text, key=lambda i: elements[i].start - elements[i].end):
            first, last = self._best(elements[i], low, high, is_taken)
            chosen[i] = first, last
            is_taken[first:last] = True
        inside = {place for first, last in chosen.values() for place in range(first + 1, last)}
        for i, element in enumerate(elements):
            if i not in chosen or chosen[i][0] == chosen[i][1]:
                expected = self._place(element, low, high)
                free = [place for place in range(low, high + 1) if place not in inside]
                place = min(free, key=lambda place: (abs(place - expected), place))
                chosen[i] = place, place
        order = sorted(chosen, key=lambda i: (chosen[i], elements[i].start, i))
        return [(elements[i], chosen[i]) for i in order]

    def _best(
        self, element: _Element, low: int, high: int, is_taken: Bool[np.ndarray, "places"]
    ) -> Span:
        """Returns the window of free words that gives most of its attention to an element.

        Each word counts with the share of its attention that is on the element less that elsewhere.
        """
        shares = self._before[:, element.end] - self._before[:, element.start]
        gains = 2 * shares - 1
        best, window = 0.0, None
        total, begin = 0.0, low
        for word in range(low, high):
            if is_taken[word] or total < 0:
                total, begin = 0.0, word
            if is_taken[word]:
                begin = word + 1
                continue
            total += gains[word]
            if total > best:
                best, window = total, (begin, word + 1)
        if window:
            return window
        free = [i for i in range(low, high) if not is_taken[i]]
        if not free:
            return low, low
        word = max(free, key=lambda i: (shares[i], -i))
        return word, word + 1

    def _place(self, element: _Element, low: int, high: int) -> int:
        """Returns before which word an element without text belongs."""
        shares = (self._before[:, -1] - self._before[:, element.start])[low:high]
        # The best place has words of what precedes before it, and words of what follows after it.
        lost = np.cumsum([0, *(2 * shares - 1)])
        return low + int(np.argmin(lost))


def _elements(marked: MarkedText) -> tuple[_Element, ...]:
    """Returns the outer elements of a text."""
    stack: list[tuple[int, list[_Element]]] = [(-1, [])]
    for number, tag in enumerate(marked.tags):
        if tag.kind == "start":
            stack.append((number, []))
        elif tag.kind == "end":
            start, inner = stack.pop()
            assert start >= 0, f"{tag.markup} closes nothing"
            element = _Element(
                (start, number), marked.tags[start].position, tag.position, tuple(inner)
            )
            stack[-1][1].append(element)
        else:
            stack[-1][1].append(_Element((number,), tag.position, tag.position, ()))
    assert len(stack) == 1, f"{marked.tags[stack[-1][0]].markup} is not closed"
    return tuple(stack[0][1])
