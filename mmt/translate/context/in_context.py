"""Translates sentences together with the previous ones of their document.

The source is the previous sentences and the sentence, with separators between them; of the output,
the part after the last separator is kept (Tiedemann and Scherrer 2017). The modifier `context`
trains a model for this.
"""

import dataclasses
import functools
import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from mmt import languages
from mmt.data.modifiers import SEPARATOR
from mmt.decoding import Decoding
from mmt.translate import casing, placeholders, sentences, source_language
from mmt.translate.source_language import AUTO, Detected
from mmt.translate.translation import Hypothesis, Translation, join
from mmt.translate.translator import Translator

_BETWEEN = f" {SEPARATOR} "  # sentences


class SentenceInContext(NamedTuple):
    """A sentence, and the previous sentences of its document, in order."""

    text: str
    previous: tuple[str, ...] = ()

    @property
    def joined(self) -> str:
        """Returns the source: the sentences with separators between them.

        >>> SentenceInContext("Sie lacht.", ("Eva kam.",)).joined
        'Eva kam. ||| Sie lacht.'
        """
        return _BETWEEN.join([*self.previous, self.text])

    @classmethod
    def of_joined(cls, text: str) -> "SentenceInContext":
        """Returns the sentence that was joined with its context, of which `History` makes none
        with a separator.

        >>> SentenceInContext.of_joined("Eva kam. ||| Sie lacht.").previous
        ('Eva kam.',)
        """
        *previous, last = text.split(_BETWEEN)
        return cls(last, tuple(previous))


class History:
    """The last `lines` sentences of a document; 0 for sentences without context.

    >>> history = History(1)
    >>> [history.add(text).previous for text in ("Eva kam.", "* * *", "Sie lacht.")]
    [(), (), ('Eva kam.',)]
    """

    def __init__(self, lines: int) -> None:
        self._previous: deque[str] = deque(maxlen=lines)

    def add(self, text: str) -> SentenceInContext:
        """Returns the next sentence with its context.

        A sentence without a letter or digit, or with the separator, has no context, and is not part
        of the context of later ones.
        """
        if not sentences.has_words(text) or SEPARATOR in text:
            return SentenceInContext(text)
        sentence = SentenceInContext(text, tuple(self._previous))
        self._previous.append(text)
        return sentence

    def end_document(self) -> None:
        """Forgets all sentences."""
        self._previous.clear()


@dataclasses.dataclass
class ContextTranslator:
    """Translates sentences with up to `lines` previous ones of their document.

    A sentence that is too long for the model with its context has fewer previous sentences, or
    none. If an output has another number of separators than its source, the sentence is translated
    again without context.

    Attributes:
        translator: a model trained with the modifier `context`, see `check_trained_lines`.
        lines: maximum previous sentences.
        translated, joined, retranslated: the numbers of distinct sentences so far, of those with
            context, and of those that were translated again without it.
    """

    translator: Translator
    lines: int
    translated: int = 0
    joined: int = 0
    retranslated: int = 0

    @property
    def tagged(self) -> bool:
        """Returns whether a tag names the target language, as `Translator.tagged`."""
        return self.translator.tagged

    @property
    def routes_by_language(self) -> bool:
        """Returns whether languages choose experts, as `Translator.routes_by_language`."""
        return self.translator.routes_by_language

    def language_id(self, source: str | None, target: str | None = None) -> int:
        """Returns the id of a language, as `Translator.language_id`."""
        return self.translator.language_id(source, target)

    def translate(
        self,
        lines: Iterable[str],
        *,
        source: str | None = None,
        target: str | None = None,
        decoding: Decoding | None = None,
        sources: Iterable[str] | None = None,
    ) -> Iterator[Translation]:
        """Yields the translation of every line, in order; an empty line ends a document.

        The arguments are those of `Translator.translate`; `sources` are without 'auto'. With
        `decoding.split` 'sentences' the context of a sentence may be in its own line. Scores are
        those of the sentence together with its context, and there are no scores of tokens.
        """
        decoding = self.translator.default_decoding if decoding is None else decoding
        history, number = History(self.lines), 0
        given = None if sources is None else iter(sources)
        for window in sentences.windows(lines):
            if given is None:
                of_lines, detected = self._sources(window, source)
            else:
                of_lines = list(itertools.islice(given, len(window)))
                detected = [None] * len(window)
            parts = [
                self._parts(line, language or self.translator.manifest.source, decoding, history)
                for line, language in zip(window, of_lines, strict=True)
            ]
            by_language: dict[str | None, list[SentenceInContext]] = {}
            for of_line, language in zip(parts, of_lines, strict=True):
                by_language.setdefault(language, []).extend(of_line)
            translations = {
                language: self.sentences(
                    of_language, source=language, target=target, decoding=decoding
                )
                for language, of_language in by_language.items()
            }
            for line, of_line, language, detection in zip(
                window, parts, of_lines, detected, strict=True
            ):
                pieces = [translations[language][sentence] for sentence in of_line]
                yield _joined(line, pieces, decoding)._replace(line=number, detected=detection)
                number += 1

    def sentences(
        self, items: Iterable[SentenceInContext], *, decoding: Decoding, **options: Any
    ) -> dict[SentenceInContext, Translation]:
        """Returns the translation of each distinct sentence.

        Args:
            items: the sentences.
            decoding: options of the search; without a prefix, which would be that of the context.
            options: `source` and `target`, as in `Translator.translate`.

        Raises:
            ValueError: `decoding` has a prefix, or as `Translator.translate`.
        """
        if decoding.prefix:
            raise ValueError(f"prefix {decoding.prefix!r}: it excludes context (--context)")
        unique = list(dict.fromkeys(items))
        read = self._recased(unique, options.get("source")) if decoding.recase_capitals else unique
        fitting = self._fitting(read, options.get("target"))
        unsplit = dataclasses.replace(decoding, split="long")
        in_context: dict[SentenceInContext, Translation] = {}
        indices = [index for index, sentence in enumerate(fitting) if sentence.previous]
        joined = [fitting[index].joined for index in indices]
        translations = self.translator.translate(joined, decoding=unsplit, **options)
        for index, translation in zip(indices, translations, strict=True):
            of_sentence = [
                _without_context(fitting[index], each, decoding) for each in translation.hypotheses
            ]
            if hypotheses := tuple(filter(None, of_sentence)):
                of_unique = Translation(unique[index].text, hypotheses).distinct()
                if of_unique.source != fitting[index].text:
                    code = self.translator.target_code(options.get("target"))
                    of_unique = of_unique.recased_by(functools.partial(casing.upper, language=code))
                in_context[unique[index]] = of_unique
        alone = [sentence for sentence in unique if sentence not in in_context]
        texts = [sentence.text for sentence in alone]
        without_context = self.translator.translate(texts, decoding=unsplit, **options)
        self.translated += len(unique)
        self.joined += len(joined)
        self.retranslated += len(joined) - len(in_context)
        return in_context | dict(zip(alone, without_context, strict=True))

    def report(self) -> str:
        """Returns how many sentences had context, and how many were translated again without it."""
        return (
            f"context: {self.joined:,} of {self.translated:,} different sentences had previous "
            f"sentences; {self.retranslated:,} of these were translated again without, because "
            f"their translation had another number of separators ({SEPARATOR})"
        )

    def _sources(
        self, lines: Sequence[str], source: str | None
    ) -> tuple[list[str | None], list[Detected | None]]:
        """Returns the language of each line, and what was detected."""
        sources = [source] * len(lines)
        if source != AUTO:
            return sources, [None] * len(lines)
        translator = self.translator
        return source_language.resolve(translator.identifier, lines, sources, translator.sources)

    def _parts(
        self, line: str, language: str, decoding: Decoding, history: History
    ) -> list[SentenceInContext]:
        """Returns the sentences of a line with their context."""
        if not line.strip():
            history.end_document()
            return []
        by_sentence = decoding.split == "sentences"
        parts = sentences.segment(line, language) if by_sentence else [line]
        return [history.add(part.strip()) for part in parts if part.strip()]

    def _recased(
        self, items: Sequence[SentenceInContext], source: str | None
    ) -> list[SentenceInContext]:
        """Returns the sentences and their context, those in capitals in sentence case."""
        code = self.translator.manifest.source
        if source not in (None, AUTO):
            code = languages.find(source).code

        def read(text: str) -> str:
            return casing.sentence_case(text, code) if casing.in_capitals(text) else text

        return [
            SentenceInContext(read(text), tuple(map(read, previous))) for text, previous in items
        ]

    def _fitting(
        self, items: Sequence[SentenceInContext], target: str | None
    ) -> list[SentenceInContext]:
        """Returns the sentences with as much of their context as fits the model."""
        fitting = list(items)
        indices = [index for index, sentence in enumerate(fitting) if sentence.previous]
        while indices:
            texts = [fitting[index].joined for index in indices]
            lengths = self.translator.source_tokens(texts, target)
            sizes = zip(indices, lengths, strict=True)
            indices = [i for i, size in sizes if size > self.translator.max_source_length]
            for index in indices:
                fitting[index] = fitting[index]._replace(previous=fitting[index].previous[1:])
            indices = [index for index in indices if fitting[index].previous]
        return fitting


def _without_context(
    sentence: SentenceInContext, hypothesis: Hypothesis, decoding: Decoding
) -> Hypothesis | None:
    """Returns the sentence's part of an output with context; None if the separators differ."""
    *context, text = (part.strip() for part in hypothesis.text.split(SEPARATOR))
    if len(context) != len(sentence.previous) or not text:
        return None
    counts = placeholders.counts
    if decoding.keep_placeholders and counts(text) != counts(sentence.text):
        return None
    return Hypothesis(text, hypothesis.score)


def _joined(line: str, pieces: Sequence[Translation], decoding: Decoding) -> Translation:
    """Returns the translation of a line; unchanged sentences are repeated to N hypotheses."""
    repeated = [
        piece
        if sentences.has_words(piece.source)
        else piece._replace(hypotheses=piece.hypotheses[:1] * decoding.nbest)
        for piece in pieces
    ]
    return join(line, repeated if len(pieces) > 1 else pieces)
