"""Sentences behind their context as one source, and what of the output belongs to the sentence.

The modifier `context` trains such pairs: k sentences into k (Tiedemann and Scherrer 2017).
"""

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from mmt.data.modifiers import SEPARATOR
from mmt.decoding import Decoding
from mmt.translate import placeholders, sentences, source_language
from mmt.translate.source_language import AUTO, Detected
from mmt.translate.translation import Hypothesis, Translation, join
from mmt.translate.translator import Translator, windows


class SentenceInContext(NamedTuple):
    """A sentence, and the sentences before it in its document, the last one last."""

    text: str
    before: tuple[str, ...] = ()

    @property
    def joined(self) -> str:
        """Returns the source: the sentences with separators between them.

        >>> SentenceInContext("Sie lacht.", ("Eva kam.",)).joined
        'Eva kam. ||| Sie lacht.'
        """
        return f" {SEPARATOR} ".join([*self.before, self.text])


class History:
    """The last `lines` sentences of a document; 0 for sentences without context.

    >>> history = History(1)
    >>> [history.add(text).before for text in ("Eva kam.", "* * *", "Sie lacht.")]
    [(), (), ('Eva kam.',)]
    """

    def __init__(self, lines: int) -> None:
        self._before: deque[str] = deque(maxlen=lines)

    def add(self, text: str) -> SentenceInContext:
        """Returns the next sentence with its context.

        One without a letter or digit, or with the separator, has no context and is none.
        """
        if not sentences.has_words(text) or SEPARATOR in text:
            return SentenceInContext(text)
        sentence = SentenceInContext(text, tuple(self._before))
        self._before.append(text)
        return sentence

    def end_document(self) -> None:
        """Forgets all sentences."""
        self._before.clear()


@dataclasses.dataclass
class ContextTranslator:
    """Translates sentences with up to `lines` previous ones of their document.

    Without context are the first sentence of a document, and those that do not fit the model with
    any; one that fits with fewer previous sentences has those. A translation that has another
    number of separators than its source is made again without context.

    Attributes:
        translator: a model trained with the modifier `context`, see `check_trained_lines`.
        lines: maximum previous sentences.
        translated, joined, lacking: the numbers of different sentences so far, of those with
            context, and of those whose output had another number of separators.
    """

    translator: Translator
    lines: int
    translated: int = 0
    joined: int = 0
    lacking: int = 0

    def translate(
        self,
        lines: Iterable[str],
        *,
        source: str | None = None,
        target: str | None = None,
        decoding: Decoding | None = None,
    ) -> Iterator[Translation]:
        """Yields the translation of every line, in order; an empty line ends a document.

        The arguments are those of `Translator.translate`. With `decoding.split` 'sentences' the
        context of a sentence may be in its own line. Scores are those of the sentence together with
        its context, and there are no scores of tokens.
        """
        decoding = self.translator.default_decoding if decoding is None else decoding
        history, number = History(self.lines), 0
        for window in windows(lines):
            sources, detected = self._sources(window, source)
            parts = [
                self._parts(line, language or self.translator.manifest.source, decoding, history)
                for line, language in zip(window, sources, strict=True)
            ]
            found: dict[str | None, dict[SentenceInContext, Translation]] = {}
            for language in dict.fromkeys(sources):
                both = zip(parts, sources, strict=True)
                of_language = [each for of, given in both if given == language for each in of]
                found[language] = self.sentences(
                    of_language, source=language, target=target, decoding=decoding
                )
            for line, of_line, language, seen in zip(window, parts, sources, detected, strict=True):
                pieces = [found[language][sentence] for sentence in of_line]
                yield _joined(line, pieces, decoding)._replace(line=number, detected=seen)
                number += 1

    def sentences(
        self, items: Iterable[SentenceInContext], *, decoding: Decoding, **options: Any
    ) -> dict[SentenceInContext, Translation]:
        """Returns the translation of each different sentence.

        Args:
            items: the sentences.
            decoding: options of the search. A prefix would be that of the context: it is refused.
            options: `source` and `target`, as of `Translator.translate`.

        Raises:
            ValueError: `decoding` has a prefix, or as `Translator.translate`.
        """
        if decoding.prefix:
            raise ValueError(f"prefix {decoding.prefix!r}: it excludes context (--context)")
        kept = list(dict.fromkeys(items))
        fitting = self._fitting(kept, options.get("target"))
        whole = dataclasses.replace(decoding, split="long")
        found: dict[SentenceInContext, Translation] = {}
        places = [place for place, sentence in enumerate(fitting) if sentence.before]
        joined = [fitting[place].joined for place in places]
        translations = self.translator.translate(joined, decoding=whole, **options)
        for place, translation in zip(places, translations, strict=True):
            of_sentence = [_own(fitting[place], each, decoding) for each in translation.hypotheses]
            if hypotheses := tuple(filter(None, of_sentence)):
                found[kept[place]] = Translation(kept[place].text, hypotheses)
        alone = [sentence for sentence in kept if sentence not in found]
        texts = [sentence.text for sentence in alone]
        again = self.translator.translate(texts, decoding=whole, **options)
        self.translated += len(kept)
        self.joined += len(joined)
        self.lacking += len(joined) - len(found)
        return found | dict(zip(alone, again, strict=True))

    def report(self) -> str:
        """Returns how many sentences had context, and how many translations lacked it."""
        return (
            f"context: {self.joined:,} of {self.translated:,} different sentences had previous "
            f"sentences; {self.lacking:,} of these were translated again without, because their "
            f"translation had another number of separators ({SEPARATOR})"
        )

    def _sources(
        self, lines: Sequence[str], source: str | None
    ) -> tuple[list[str | None], list[Detected | None]]:
        """Returns the language of each line, and what was detected."""
        given = [source] * len(lines)
        if source != AUTO:
            return given, [None] * len(lines)
        translator = self.translator
        return source_language.resolve(translator.identifier, lines, given, translator.sources)

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

    def _fitting(
        self, items: Sequence[SentenceInContext], target: str | None
    ) -> list[SentenceInContext]:
        """Returns the sentences with as much of their context as fits the model."""
        fitting = list(items)
        places = [place for place, sentence in enumerate(fitting) if sentence.before]
        while places:
            texts = [fitting[place].joined for place in places]
            lengths = self.translator.source_tokens(texts, target)
            sizes = zip(places, lengths, strict=True)
            places = [at for at, size in sizes if size > self.translator.max_source_length]
            for place in places:
                fitting[place] = fitting[place]._replace(before=fitting[place].before[1:])
            places = [place for place in places if fitting[place].before]
        return fitting


def _own(sentence: SentenceInContext, whole: Hypothesis, decoding: Decoding) -> Hypothesis | None:
    """Returns what of a translation with its context belongs to the sentence; None if unclear."""
    *before, own = (part.strip() for part in whole.text.split(SEPARATOR))
    if len(before) != len(sentence.before) or not own:
        return None
    counts = placeholders.counts
    if decoding.keep_placeholders and counts(own) != counts(sentence.text):
        return None
    return Hypothesis(own, whole.score)


def _joined(line: str, pieces: Sequence[Translation], decoding: Decoding) -> Translation:
    """Returns the translation of a line; sentences that stay as they are have N hypotheses too."""
    repeated = [
        piece
        if sentences.has_words(piece.source)
        else piece._replace(hypotheses=piece.hypotheses[:1] * decoding.nbest)
        for piece in pieces
    ]
    return join(line, repeated if len(pieces) > 1 else pieces)
