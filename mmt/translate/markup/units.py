"""Splits a text with tags into units, each of which is translated and gets its tags back."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from mmt.documents import MarkedText, Tag, by_position
from mmt.translate import alignment as alignments
from mmt.translate.alignment import Alignment
from mmt.translate.markup.tag_placement import place_tags
from mmt.translate.markup.tags import joined
from mmt.translate.sentences import SegmentedText, has_space, segment_text
from mmt.translate.translation import Hypothesis

# In larger units tags are placed by position: alignment takes memory by the square of characters,
# and time by characters times tags.
_MAX_CHARACTERS, _MAX_TAGS = 3000, 200


class Unit(NamedTuple):
    """Sentences whose tags are placed together: one, or several that share an element.

    Attributes:
        source: the part of the text from the first sentence to the next unit, with its tags.
        sentences: its sentences.
        separator: a space if the source has none before the next unit, else ''.
    """

    source: MarkedText
    sentences: SegmentedText
    separator: str = ""

    @property
    def aligns(self) -> bool:
        """Returns whether `write` needs hypotheses with an alignment, to place tags."""
        text, tags = self.source
        is_small = len(text) <= _MAX_CHARACTERS and len(tags) <= _MAX_TAGS
        return bool(tags and self.sentences.sentences) and is_small

    def write(self, hypotheses: Sequence[Hypothesis]) -> MarkedText:
        """Returns the unit with a translation of each sentence, and all of its tags."""
        if not hypotheses and not self.sentences.sentences:
            return self.source
        target = self.sentences.replaced([hypothesis.text for hypothesis in hypotheses])
        if target.text == self.source.text:
            return self.source._replace(text=self.source.text + self.separator)
        lead, source = _without_lead(self.source, self.sentences.spans[0][0])
        first = len(lead.text)
        source, gap = _without_gap(source, self.sentences.spans[-1][1] - first)
        text = target.text.removeprefix(lead.text).removesuffix(gap.text)
        if self.aligns:
            places = zip(hypotheses, self.sentences.spans, target.spans, strict=True)
            parts = [_alignment(each).shifted(s, t) for each, (s, _), (t, _) in places]
            written = place_tags(source, text, alignments.join(parts).shifted(-first, -first))
        else:
            written = by_position(source, text)
        written = joined((lead, written, gap))
        return written._replace(text=written.text + self.separator)


def cut(
    marked: MarkedText,
    language: str = "",
    *,
    fits: Callable[[str], bool] | None = None,
    whole_lines: bool = False,
) -> list[Unit]:
    """Splits a text into units; joined, they are the text.

    The options are those of `segment_text`.

    >>> units = cut(parse("Ja. <b>Nein!</b> <i>Eins. Zwei.</i>"))
    >>> [(unit.source.text, unit.sentences.sentences) for unit in units]
    [('Ja. ', ('Ja.',)), ('Nein! ', ('Nein!',)), ('Eins. Zwei.', ('Eins.', 'Zwei.'))]
    """
    segmented = segment_text(marked.text, language, fits=fits, whole_lines=whole_lines)
    starts = [start for start, _ in segmented.spans]
    borders = [(0, 0, 0), *_borders(marked.tags, starts)]  # of sentences, characters, tags
    ends = [*borders[1:], (len(starts), len(marked.text), len(marked.tags))]
    units = []
    for (sentence, start, tag), (last, end, last_tag) in zip(borders, ends, strict=True):
        tags = (each._replace(position=each.position - start) for each in marked.tags[tag:last_tag])
        gaps = segmented.gaps[sentence + 1 : last + 1]
        gaps = (segmented.gaps[0] if start == 0 else "", *gaps)
        units.append(
            Unit(
                MarkedText(marked.text[start:end], tuple(tags)),
                SegmentedText(segmented.sentences[sentence:last], gaps),
                "" if last == len(starts) or has_space(gaps[-1]) else " ",
            )
        )
    return units


def _borders(tags: Sequence[Tag], starts: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yields for each unit but the first its first sentence, character and tag, by number.

    No element is open between two units.
    """
    number = depth = 0

    def next_tag() -> None:
        nonlocal number, depth
        kind = tags[number].kind
        depth += (kind == "start") - (kind == "end")
        number += 1

    for sentence, start in list(enumerate(starts))[1:]:
        while number < len(tags) and tags[number].position < start:
            next_tag()
        while depth and number < len(tags) and tags[number].position == start:
            next_tag()
        if not depth:
            yield sentence, start, number


def _without_lead(marked: MarkedText, start: int) -> tuple[MarkedText, MarkedText]:
    """Returns a text in two parts: white space with the lone tags in it, and the rest.

    `start` is where the first sentence begins. Without lone tags there, the first part is empty.
    """
    text, tags = marked
    number = 0
    while number < len(tags) and tags[number].kind == "alone" and tags[number].position < start:
        number += 1
    if not number:
        return MarkedText("", ()), marked
    cut_at = min([start, *(tag.position for tag in tags[number:])])
    moved = (tag._replace(position=tag.position - cut_at) for tag in tags[number:])
    return MarkedText(text[:cut_at], tags[:number]), MarkedText(text[cut_at:], tuple(moved))


def _without_gap(marked: MarkedText, end: int) -> tuple[MarkedText, MarkedText]:
    """Returns a text in two parts: up to `end`, and white space with the lone tags in it.

    `end` is where the last sentence ends. Tags of pairs belong to the first part. Without lone tags
    behind `end`, the second part is empty.
    """
    text, tags = marked
    number = len(tags)
    while number and tags[number - 1].kind == "alone" and tags[number - 1].position > end:
        number -= 1
    if number == len(tags):
        return marked, MarkedText("", ())
    cut_at = max([end, *(tag.position for tag in tags[:number])])
    moved = (tag._replace(position=tag.position - cut_at) for tag in tags[number:])
    return MarkedText(text[:cut_at], tags[:number]), MarkedText(text[cut_at:], tuple(moved))


def _alignment(hypothesis: Hypothesis) -> Alignment:
    assert hypothesis.alignment is not None, "a unit with tags needs alignments"
    return hypothesis.alignment
