"""Translates texts with inline tags, sentence by sentence, and places the tags.

A sentence is translated without its tags, and aligned with its translation. An element then spans
the words that are aligned with its source words. No tag is lost, and the nesting is kept.
Documents, the server and `translate` use this module.
"""

import dataclasses
import html
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from mmt.decoding import Decoding
from mmt.documents import MarkedText, Tag, by_attention, by_position
from mmt.translate import alignment as alignments
from mmt.translate import placeholders, source_language
from mmt.translate.alignment import Alignment
from mmt.translate.context import ContextTranslator, History, SentenceInContext
from mmt.translate.sentences import WINDOW, SegmentedText, has_space, segment_text
from mmt.translate.source_language import AUTO
from mmt.translate.translation import Hypothesis, Translation
from mmt.translate.translator import Translator

Kind = Literal["start", "end", "alone"]
_TAG = re.compile(
    r"""<(?P<close>/?)(?P<name>[A-Za-z][\w:.\-]*)(?:\s(?:"[^"]*"|'[^']*'|[^<>"'])*|/)?>"""
)
_VOID = {"br", "hr", "img", "input", "wbr"}  # of HTML; <x/> of XLIFF closes itself
# In larger units tags are placed by position: alignment takes memory by the square of characters,
# and time by characters times tags.
_MAX_CHARACTERS, _MAX_TAGS = 3000, 200


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


def joined(parts: Iterable[MarkedText]) -> MarkedText:
    """Returns the text of consecutive parts."""
    texts, tags, length = [], list[Tag](), 0
    for text, of_part in parts:
        tags += (tag._replace(position=tag.position + length) for tag in of_part)
        texts.append(text)
        length += len(text)
    return MarkedText("".join(texts), tuple(tags))


def translate(
    translator: Translator,
    segments: Iterable[MarkedText],
    *,
    source: str | None = None,
    target: str | None = None,
    decoding: Decoding | None = None,
    context: ContextTranslator | None = None,
    **options: Any,
) -> Iterator[MarkedText]:
    """Yields the translation of each segment, sentence by sentence, with its tags and white space.

    Args:
        translator: the model.
        segments: the texts.
        source, target: languages, as of `Translator.translate`; 'auto' detects that of a segment.
        decoding: options of the search; None is the default, by sentence, with placeholders
            kept and capitals recased. With `split` 'long', segments are only cut into lines.
        context: translates instead of `translator`, with the previous sentences of the segments,
            which are one document; it takes no further `options`.
        options: further options of `Translator.translate`, such as `glossary`.
    """
    if decoding is None:
        decoding = dataclasses.replace(
            translator.default_decoding, split="sentences", keep_placeholders=True,
            recase_capitals=True,
        )  # fmt: skip
    whole_lines = decoding.split == "long"
    options |= {"target": target, "decoding": dataclasses.replace(decoding, split="long")}
    history = History(context.lines if context else 0)
    iterator = iter(segments)
    while window := list(itertools.islice(iterator, WINDOW)):
        sources = _sources(translator, window, source)
        units = [
            cut(segment, language or "", whole_lines=whole_lines)
            for segment, language in zip(window, sources, strict=True)
        ]
        in_context = [
            [(unit, [history.add(s) for s in unit.sentences.sentences]) for unit in of_segment]
            for of_segment in units
        ]
        by_language: dict[str | None, list[tuple[SentenceInContext, bool]]] = {}
        for of_segment, language in zip(in_context, sources, strict=True):
            by_language.setdefault(language, []).extend(
                (sentence, unit.aligns) for unit, of_unit in of_segment for sentence in of_unit
            )
        hypotheses = {
            language: _hypotheses(translator, of_language, language, options, context)
            for language, of_language in by_language.items()
        }
        for of_segment, language in zip(in_context, sources, strict=True):
            yield joined(
                unit.write([hypotheses[language][s, unit.aligns] for s in of_unit])
                for unit, of_unit in of_segment
            )


def aligned(
    translator: Translator,
    translations: Sequence[Translation],
    *,
    source: str | None = None,
    target: str | None = None,
) -> list[Translation]:
    """Returns translations whose hypotheses have their alignments, piece by piece.

    This takes one teacher-forced pass of the model. `source` and `target` are as in
    `Translator.align`.
    """
    pairs, places = [], []
    for number, translation in enumerate(translations):
        for rank, hypothesis in enumerate(translation.hypotheses):
            source_end = target_end = 0
            for piece in translation.pieces or (translation,):
                line, text = piece.source.strip(), piece.hypotheses[rank].text
                source_start = translation.source.find(line, source_end)
                target_start = hypothesis.text.find(text, target_end)
                if line and text and source_start >= 0 and target_start >= 0:
                    pairs.append((line, text))
                    places.append((number, rank, source_start, target_start))
                    source_end, target_end = source_start + len(line), target_start + len(text)
    parts: dict[tuple[int, int], list[Alignment]] = {}
    aligned_pieces = translator.align(pairs, source=source, target=target) if pairs else []
    for (number, rank, *shift), part in zip(places, aligned_pieces, strict=True):
        parts.setdefault((number, rank), []).append(part.shifted(*shift))
    return [
        translation._replace(
            hypotheses=tuple(
                hypothesis._replace(alignment=alignments.join(parts.get((number, rank), [])))
                for rank, hypothesis in enumerate(translation.hypotheses)
            )
        )
        for number, translation in enumerate(translations)
    ]


def place_tags(source: MarkedText, text: str, alignment: Alignment) -> MarkedText:
    """Returns the translation `text` with the tags of its source; a placeholder is one word."""
    spans = placeholders.words_and_placeholders(text)
    attention = _attention(spans, alignment, len(source.text))
    of_source: dict[str, list[tuple[int, int]]] = {}
    for start, end in placeholders.spans(source.text):
        of_source.setdefault(source.text[start:end], []).append((start, end))
    for row, (start, end) in enumerate(spans):
        if same := of_source.get(text[start:end]):
            first, last = same.pop(0)
            attention[row] = 0
            attention[row, first:last] = 1 / (last - first)
    return by_attention(source, text, spans, attention)


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


def _sources(
    translator: Translator, segments: Sequence[MarkedText], source: str | None
) -> list[str | None]:
    """Returns the language of each segment."""
    sources = [source] * len(segments)
    if source != AUTO:
        return sources
    texts = [segment.text for segment in segments]
    return source_language.resolve(translator.identifier, texts, sources, translator.sources)[0]


def _hypotheses(
    translator: Translator,
    sentences: Iterable[tuple[SentenceInContext, bool]],
    source: str | None,
    options: dict[str, Any],
    context: ContextTranslator | None,
) -> dict[tuple[SentenceInContext, bool], Hypothesis]:
    """Returns the best translation of each sentence, aligned (True) or not (False)."""
    requested = dict.fromkeys(sentences)
    lines = list(dict.fromkeys(sentence for sentence, _ in requested))
    if context is None:
        texts = [line.text for line in lines]
        translated = translator.translate(texts, source=source, **options)
        translations = dict(zip(lines, translated, strict=True))
    else:
        translations = context.sentences(lines, source=source, **options)
    best_of = {(line, False): translations[line].hypotheses[0] for line in lines}
    tagged = [line for line in lines if (line, True) in requested]
    best = [
        translations[line]._replace(hypotheses=translations[line].hypotheses[:1]) for line in tagged
    ]
    of_tagged = aligned(translator, best, source=source, target=options["target"])
    for line, translation in zip(tagged, of_tagged, strict=True):
        best_of[line, True] = translation.hypotheses[0]
    return best_of


def _alignment(hypothesis: Hypothesis) -> Alignment:
    assert hypothesis.alignment is not None, "a unit with tags needs alignments"
    return hypothesis.alignment


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


def _attention(
    spans: list[tuple[int, int]], alignment: Alignment, length: int
) -> Float[np.ndarray, "words characters"]:
    """Returns the share of each target word's attention that each source character has.

    A word without attention attends to the source character at the same relative position.
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
        unattended = np.flatnonzero(total[:, 0] <= 0)
        attention[unattended, unattended * length // max(len(spans), 1)] = 1
    return attention / np.where(total > 0, total, 1)


def _paired(tags: list[Tag], names: list[str]) -> tuple[Tag, ...]:
    """Returns the tags; the kind of those without a partner becomes 'alone'."""
    opened: list[int] = []
    partners: set[int] = set()
    for i, tag in enumerate(tags):
        if tag.kind == "start":
            opened.append(i)
        elif tag.kind == "end":
            matching = [depth for depth, j in enumerate(opened) if names[j] == names[i]]
            if matching:
                partners |= {i, opened[matching[-1]]}
                del opened[matching[-1] :]
    return tuple(tag if i in partners else tag._replace(kind="alone") for i, tag in enumerate(tags))
