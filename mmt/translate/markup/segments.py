"""Translates texts with inline tags, sentence by sentence."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from mmt.decoding import Decoding
from mmt.documents import MarkedText
from mmt.translate import alignment as alignments
from mmt.translate import source_language
from mmt.translate.alignment import Alignment
from mmt.translate.context import ContextTranslator, History, SentenceInContext
from mmt.translate.markup.tags import joined
from mmt.translate.markup.units import Unit, cut
from mmt.translate.sentences import WINDOW
from mmt.translate.source_language import AUTO
from mmt.translate.translation import Hypothesis, Translation
from mmt.translate.translator import Translator


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
        source, target: languages, as in `Translator.translate`; 'auto' detects that of a segment.
        decoding: options of the search; None is the default, by sentence, with placeholders
            kept and capitals recased. With `split` 'long', segments are only cut into lines. A
            prefix begins the translation of the first sentence of each segment.
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
        requests = [_requests(of_segment, decoding.prefix, history) for of_segment in units]
        by_language: dict[str | None, list[_Request]] = {}
        for of_segment, language in zip(requests, sources, strict=True):
            by_language.setdefault(language, []).extend(
                request for _, of_unit in of_segment for request in of_unit
            )
        hypotheses = {
            language: _hypotheses(translator, of_language, language, options, context)
            for language, of_language in by_language.items()
        }
        for of_segment, language in zip(requests, sources, strict=True):
            yield joined(
                unit.write([hypotheses[language][request] for request in of_unit])
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


class _Request(NamedTuple):
    """A sentence, the prefix of its translation, and whether that is aligned with it."""

    sentence: SentenceInContext
    prefix: str
    aligns: bool


def _requests(
    units: Iterable[Unit], prefix: str, history: History
) -> list[tuple[Unit, list[_Request]]]:
    """Returns the units of a segment with their sentences, of which the first has the prefix."""
    prefixes = itertools.chain([prefix], itertools.repeat(""))
    return [
        (
            unit,
            [
                _Request(history.add(sentence), next(prefixes), unit.aligns)
                for sentence in unit.sentences.sentences
            ],
        )
        for unit in units
    ]


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
    requests: Iterable[_Request],
    source: str | None,
    options: dict[str, Any],
    context: ContextTranslator | None,
) -> dict[_Request, Hypothesis]:
    """Returns the best translation of each request."""
    requested = dict.fromkeys(requests)
    lines = list(dict.fromkeys(request._replace(aligns=False) for request in requested))
    if context is None:
        unprefixed = dataclasses.replace(options["decoding"], prefix="")
        translated = translator.translate(
            [line.sentence.text for line in lines], source=source,
            prefixes=[line.prefix for line in lines], **options | {"decoding": unprefixed},
        )  # fmt: skip
        translations = dict(zip(lines, translated, strict=True))
    else:
        of_sentences = context.sentences(
            [line.sentence for line in lines], source=source, **options
        )
        translations = {line: of_sentences[line.sentence] for line in lines}
    best_of = {line: translations[line].hypotheses[0] for line in lines}
    tagged = [line for line in lines if line._replace(aligns=True) in requested]
    best = [
        translations[line]._replace(hypotheses=translations[line].hypotheses[:1]) for line in tagged
    ]
    of_tagged = aligned(translator, best, source=source, target=options["target"])
    for line, translation in zip(tagged, of_tagged, strict=True):
        best_of[line._replace(aligns=True)] = translation.hypotheses[0]
    return best_of
