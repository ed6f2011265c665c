"""The texts of requests: their segments, units and sentences, and their translation.

Plain text is one segment. The segments of HTML are those of `mmt.documents`, as for a file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mmt.documents import MarkedText, TextDocument
from mmt.serve.scheduler import Sentence
from mmt.translate import Translation, markup
from mmt.translate.markup import Unit
from mmt.translate.sentences import SegmentedText

Results = Mapping[Sentence, Translation]


class ServedUnit(NamedTuple):
    """A unit of a text, its sentences in the form of the queue, and its span in the text."""

    unit: Unit
    sentences: tuple[Sentence, ...]
    start: int = 0
    end: int = 0

    def write(self, results: Results, rank: int = 0) -> MarkedText:
        """Returns the unit with the `rank`-th translation of each sentence, or its best one."""
        hypotheses = (results[sentence].hypotheses for sentence in self.sentences)
        return self.unit.write([each[rank if rank < len(each) else 0] for each in hypotheses])


Segment = list[ServedUnit]
Cut = Callable[[MarkedText], Segment]
Show = Callable[[int, ServedUnit, Results], str]


def keep(segment: MarkedText) -> Segment:
    """Returns a segment as one unit without sentences, which is not translated."""
    return [ServedUnit(Unit(segment, SegmentedText((), (segment.text,))), ())]


def written(segment: Segment, results: Results, rank: int = 0) -> MarkedText:
    """Returns a segment with the `rank`-th translation of each sentence, or its best one."""
    return markup.joined(unit.write(results, rank) for unit in segment)


@dataclass(frozen=True)
class Text:
    """A text of a request.

    Attributes:
        segments: its segments.
        fill: returns the text with translated segments.
        show: returns the best translation of a unit in the segment of a number, in the markup of
            the text, without surrounding white space.
    """

    segments: Sequence[Segment]
    fill: Callable[[list[MarkedText]], str]
    show: Show

    @property
    def sentences(self) -> list[Sentence]:
        """Returns the sentences, in order."""
        return [s for segment in self.segments for unit in segment for s in unit.sentences]

    def translations(self, results: Results) -> list[str]:
        """Returns translations of the text; the i-th has the i-th translation of each sentence.

        A sentence with fewer translations, as of its placeholders, repeats the best one.
        """
        count = max((len(results[sentence].hypotheses) for sentence in self.sentences), default=1)
        return [
            self.fill([written(segment, results, rank) for segment in self.segments])
            for rank in range(count)
        ]


def plain(text: str, cut: Cut) -> Text:
    """Returns a plain text. The place of a unit, which has one sentence, is that of the sentence.
    """

    def show(number: int, unit: ServedUnit, results: Results) -> str:
        return " ".join(results[sentence].text for sentence in unit.sentences)

    segment, length = [], 0
    for unit in cut(MarkedText(text)):
        spans = unit.unit.sentences.spans or [(0, 0)]
        start, end = length + spans[0][0], length + spans[-1][1]
        segment.append(unit._replace(start=start, end=end))
        length += len(unit.unit.source.text)
    return Text([segment], lambda segments: segments[0].text, show)


def html(document: TextDocument, cut: Cut) -> Text:
    """Returns a text of HTML, a page or a fragment. The place of a unit is that of its segment."""

    def show(number: int, unit: ServedUnit, results: Results) -> str:
        slot, best = document.slots[number], unit.write(results)
        return slot.write(best, lambda start, end: document.text[start:end]).strip()

    segments = [
        [unit._replace(start=slot.start, end=slot.end) for unit in cut(segment.source)]
        for segment, slot in zip(document.segments, document.slots, strict=True)
    ]
    return Text(segments, document.render, show)
