"""`Document`: a file as text with segments to translate, and the places of their translations.

A format finds segments in the text of a file and says where each translation goes. Writing replaces
these places only, so all other bytes of the file stay as they are.
"""

import bisect
from collections.abc import Callable, Sequence
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


class Slot(NamedTuple):
    """The place of a translation: the text from `start` to `end`, now `current`."""

    start: int
    end: int
    write: Callable[[MarkedText, Render], str]
    current: MarkedText | None


@runtime_checkable
class Document(Protocol):
    """A file that has been read."""

    @property
    def segments(self) -> Sequence[Segment]:
        """Returns the texts in the file's order."""

    def write(self, translations: Sequence[MarkedText | None]) -> bytes:
        """Returns the file with translations, one per segment; None leaves a segment as it is."""


class TextDocument:
    """A file of text, with the slot of each segment."""

    def __init__(
        self,
        text: str,
        encoding: Encoding,
        entries: Sequence[tuple[Segment, Slot]],
    ) -> None:
        self.text, self.encoding = text, encoding
        self.segments = [segment for segment, _ in entries]
        self.slots = [slot for _, slot in entries]

    def write(self, translations: Sequence[MarkedText | None]) -> bytes:
        """Returns the file with translations."""
        return self.encoding.encode(self.render(translations))

    def render(self, translations: Sequence[MarkedText | None]) -> str:
        """Returns the text with translations; a translation that is there already edits nothing."""
        both = zip(self.slots, translations, strict=True)
        edits = [
            (slot, translation)
            for slot, translation in both
            if translation is not None and translation != slot.current
        ]
        return _Edited(self.text, edits).render(0, len(self.text)) if edits else self.text


class _Edited:
    """A text with edits, which may lie inside the markup of another edit's place."""

    def __init__(self, text: str, edits: Sequence[tuple[Slot, MarkedText]]) -> None:
        self.text = text
        self.edits = sorted(edits, key=lambda edit: (edit[0].start, -edit[0].end))
        self.places = [(slot.start, -slot.end) for slot, _ in self.edits]

    def render(self, start: int, end: int) -> str:
        parts: list[str] = []
        here, first = start, bisect.bisect_left(self.places, (start, -end))
        for index in range(first, len(self.edits)):
            slot, translation = self.edits[index]
            if slot.start >= end and slot.start != len(self.text):
                break
            if slot.start >= here:
                parts += self.text[here : slot.start], slot.write(translation, self.render)
                here = slot.end
        return "".join(parts) + self.text[here:end]


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


def has_letters(text: str) -> bool:
    """Returns whether there is something to translate.

    >>> has_letters("3 h"), has_letters("12:30 –")
    (True, False)
    """
    return any(map(str.isalpha, text))
