"""`Document`: a file as text with segments to translate, and the places of their translations.

A format finds segments in the text of a file and says where each translation goes. Writing replaces
these places only, so all other bytes of the file stay as they are.
"""

import bisect
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from mmt.documents.encoding import Encoding

DEPTH = 256  # deepest nesting of elements, objects and lists in a file

Render = Callable[[int, int], str]  # the text between two offsets, with the edits inside it


class Tag(NamedTuple):
    """Inline markup of a segment, before the character `position` of its text.

    Attributes:
      position: from 0 to the length of the text.
      kind: start or end of a pair, or markup that stands alone.
      markup: as in the file.
      offset: where the markup begins in the file's text; negative if it is not written there.
    """

    position: int
    kind: Literal["start", "end", "alone"]
    markup: str
    offset: int = -1


class MarkedText(NamedTuple):
    """Text without markup and character references, and its inline markup in order.

    Pairs of tags are nested: `tags` is a balanced sequence. A translation has the same tags at
    other positions; an order that is still balanced is allowed.
    """

    text: str
    tags: tuple[Tag, ...] = ()


class Segment(NamedTuple):
    """A text to translate.

    Attributes:
      source: the text.
      key: the name of the entry in a catalogue, '' in other documents.
      form: the plural or gender form, such as 'one' or 'other'; '' without forms.
      target: the translation in the file; None if it has none, or no place for one beside the
        source.
    """

    source: MarkedText
    key: str = ""
    form: str = ""
    target: MarkedText | None = None


class Around(NamedTuple):
    """What is written around the new entries of one place, and between them."""

    before: str = ""
    between: str = ""
    after: str = ""


class Slot(NamedTuple):
    """The place of a translation: the text from `start` to `end`, now `current`.

    Slots of one place with the same `around` are written together.
    """

    start: int
    end: int
    write: Callable[[MarkedText, Render], str]
    current: MarkedText | None
    around: Around | None = None


class FileChange(NamedTuple):
    """A new text from `start` to `end`, written with the first translation of a file.

    Such are the name of the file's language, and plural forms that the target does not have.
    """

    start: int
    end: int
    text: str = ""


@runtime_checkable
class Document(Protocol):
    """A file that has been read."""

    @property
    def segments(self) -> Sequence[Segment]:
        """Returns the texts in the file's order."""

    def write(self, translations: Sequence[MarkedText | None]) -> bytes:
        """Returns the file with translations, one per segment; None leaves a segment as it is."""


class TextDocument:
    """A file of text, with the slot of each segment, and the changes that come with translations.
    """

    def __init__(
        self,
        text: str,
        encoding: Encoding,
        entries: Sequence[tuple[Segment, Slot]],
        changes: Sequence[FileChange] = (),
    ) -> None:
        self.text, self.encoding, self.changes = text, encoding, changes
        self.segments = [segment for segment, _ in entries]
        self.slots = [slot for _, slot in entries]

    def write(self, translations: Sequence[MarkedText | None]) -> bytes:
        """Returns the file with translations."""
        return self.encoding.encode(self.render(translations))

    def render(self, translations: Sequence[MarkedText | None]) -> str:
        """Returns the text with translations; a translation that is there already edits nothing."""
        edits = self._edits(translations)
        return self._rendered(edits) if edits else self.text

    def edits(self, translations: Sequence[MarkedText | None]) -> bool:
        """Returns whether translations edit the file."""
        return bool(self._edits(translations))

    def changed(self, translations: Sequence[MarkedText | None]) -> bytes:
        """Returns the file with translations, and with its changes even without a translation."""
        return self.encoding.encode(self._rendered(self._edits(translations)))

    def _edits(self, translations: Sequence[MarkedText | None]) -> list[tuple[Slot, MarkedText]]:
        both = zip(self.slots, translations, strict=True)
        return [
            (slot, translation)
            for slot, translation in both
            if translation is not None and translation != slot.current
        ]

    def _rendered(self, edits: list[tuple[Slot, MarkedText]]) -> str:
        changes = (
            (Slot(start, end, plain(), None), MarkedText(text)) for start, end, text in self.changes
        )
        return _Edited(self.text, [*_together(edits), *changes]).render(0, len(self.text))


def _together(edits: list[tuple[Slot, MarkedText]]) -> Iterator[tuple[Slot, MarkedText]]:
    """Yields edits; of slots that are written together there is one."""
    groups: dict[tuple[int, Around], list[tuple[Slot, MarkedText]]] = {}
    for slot, translation in edits:
        if slot.around:
            groups.setdefault((slot.start, slot.around), []).append((slot, translation))
        else:
            yield slot, translation
    for (start, around), members in groups.items():
        yield Slot(start, start, functools.partial(_joined, around, members), None), MarkedText("")


def _joined(
    around: Around, edits: list[tuple[Slot, MarkedText]], translation: MarkedText, render: Render
) -> str:
    texts = (slot.write(own, render) for slot, own in edits)
    return f"{around.before}{around.between.join(texts)}{around.after}"


class _Edited:
    """A text with edits, which may lie inside the markup of another edit's place."""

    def __init__(self, text: str, edits: Sequence[tuple[Slot, MarkedText]]) -> None:
        self.text = text
        self.edits = sorted(edits, key=lambda edit: (edit[0].start, -edit[0].end))
        self.places = [(slot.start, -slot.end) for slot, _ in self.edits]

    def render(self, start: int, end: int) -> str:
        parts: list[str] = []
        position, first = start, bisect.bisect_left(self.places, (start, -end))
        for index in range(first, len(self.edits)):
            slot, translation = self.edits[index]
            if slot.start >= end and slot.start != len(self.text):
                break
            if slot.start >= position:
                parts += self.text[position : slot.start], slot.write(translation, self.render)
                position = slot.end
        return "".join(parts) + self.text[position:end]


def plain(escape: Callable[[str], str] = str) -> Callable[[MarkedText, Render], str]:
    """Returns a slot's writer for text without inline markup."""
    return lambda translation, render: escape(translation.text)


def replaced(
    text: str,
    start: int,
    end: int,
    escape: Callable[[str], str] = str,
    *,
    key: str = "",
    form: str = "",
) -> tuple[Segment, Slot]:
    """Returns a segment without markup whose translation takes its place."""
    source = MarkedText(text)
    return Segment(source, key, form), Slot(start, end, plain(escape), source)


def enclosed(
    before: str, escape: Callable[[str], str], after: str
) -> Callable[[MarkedText, Render], str]:
    """Returns a slot's writer of a new entry: a text without inline markup, and what is around it.
    """
    return lambda translation, render: f"{before}{escape(translation.text)}{after}"


def outside(
    entries: Iterable[tuple[Segment, Slot]], changes: Iterable[FileChange]
) -> Iterator[tuple[Segment, Slot]]:
    """Yields the entries that no change replaces or removes; changes do not overlap."""
    places = sorted((start, end) for start, end, _ in changes)
    starts = [start for start, _ in places]
    for segment, slot in entries:
        index = bisect.bisect_right(starts, slot.start) - 1
        if index < 0 or not starts[index] < slot.end <= places[index][1]:
            yield segment, slot


def space_before(text: str, end: int) -> str:
    """Returns the white space before a place, for an element that stands like its neighbour."""
    start = end
    while start and text[start - 1] in " \t\n\r":
        start -= 1
    return text[start:end]


def has_letters(text: str) -> bool:
    """Returns whether there is something to translate.

    >>> has_letters("3 h"), has_letters("12:30 –")
    (True, False)
    """
    return any(map(str.isalpha, text))
