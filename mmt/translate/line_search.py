"""`LineSearch`: splits lines into pieces, encodes them, searches, and decodes the hypotheses.

`mmt.translate.translator` makes one for each call, and passes windows of lines to it.
"""

import contextlib
import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from mmt import languages
from mmt.data.vocabulary import Vocabulary
from mmt.decoding.bucketing import BucketedBatches, DecodedSequence, Source
from mmt.decoding.constraints import RequiredPhrase
from mmt.decoding.ctranslate2_search import CTranslate2Search
from mmt.identify import LanguageIdentifier
from mmt.sharding import Layout
from mmt.translate import casing, placeholders, sentences, source_language
from mmt.translate.comet import Reranker
from mmt.translate.glossary import Glossary
from mmt.translate.translation import (
    Hypothesis,
    Translation,
    join,
    mean_quality,
    on_one_line,
)


@dataclasses.dataclass(frozen=True)
class LineSearch:
    """A model with a target language and search options, which translates lines.

    Attributes:
        batches: the model and the options of the search.
        vocabularies: the vocabularies of 'source' and 'target'.
        tag: tag of the target language, or ''.
        target: FLORES code of the target language.
        language_id: returns the language id of a line's language for a model that routes by
            language, else None. Raises ValueError for a language that the model does not have.
        source: FLORES code of the only source language of the model, or ''.
        sources: FLORES codes of all of them.
        identifier: the language identifier of the run, or None.
        layout: placement of the parameters, or None.
        glossary: terms whose translations are required, or None.
        reranker: orders the hypotheses of each sentence, or None for the order of the search.
    """

    batches: BucketedBatches | CTranslate2Search
    vocabularies: Mapping[str, Vocabulary]
    tag: str
    target: str
    language_id: Callable[[str | None], int | None]
    source: str
    sources: Sequence[str]
    identifier: LanguageIdentifier | None
    layout: Layout | None
    glossary: Glossary | None = None
    reranker: Reranker | None = None

    def translations(
        self, lines: Sequence[str], prefixes: Sequence[str], sources: Sequence[str | None]
    ) -> list[Translation]:
        """Returns the translation of each line, which starts with the line's prefix.

        `sources` are the languages of the lines, 'auto' or None.
        """
        for name, values in (("prefixes", prefixes), ("sources", sources)):
            if len(values) < len(lines):
                raise ValueError(
                    f"there are fewer {name} than lines: none for {lines[len(values)]!r}"
                )
        sources, detected = source_language.resolve(self.identifier, lines, sources, self.sources)
        ids = {source: self.language_id(source) for source in set(sources)}
        codes = {
            source: languages.find(source).code if source else self.source for source in ids
        }
        texts = [
            _Text(line, prefix, codes[source], ids[source])
            for line, prefix, source in zip(lines, prefixes, sources, strict=True)
        ]
        translations = self._translate(texts)
        if self._keeps_placeholders:
            translations = self._with_placeholders(texts, translations)
        return [
            translation._replace(detected=language)
            for translation, language in zip(translations, detected, strict=True)
        ]

    def prefix(self, text: str) -> list[int]:
        """Returns the token ids of a prefix. Raises ValueError if the vocabulary cannot encode it.
        """
        vocabulary = self.vocabularies["target"]
        ids = vocabulary.encode(text)
        if {vocabulary.pad, vocabulary.eos, vocabulary.unk} & set(ids):
            raise ValueError(f"prefix {text!r}: the target vocabulary cannot write it")
        return ids

    @property
    def _keeps_placeholders(self) -> bool:
        return self.batches.decoding.keep_placeholders

    def _with_placeholders(
        self, texts: Sequence["_Text"], translations: Sequence[Translation]
    ) -> list[Translation]:
        """Returns translations with the placeholders of their lines.

        Hypotheses with other placeholders are removed. If none remain, the parts of the line
        between its placeholders are translated one by one. The prefix belongs to the first part;
        if that has no words, the prefix is written before the joined parts.
        """
        added = [self._added_placeholders(text) for text in texts]
        valid = [
            _with_all_placeholders(translation, of_text)
            for translation, of_text in zip(translations, added, strict=True)
        ]
        lacking = [i for i, translation in enumerate(valid) if not translation.hypotheses]
        surroundings = {i: placeholders.surroundings(texts[i].text) for i in lacking}
        to_translate = [
            part
            for i in lacking
            for part in self._recased(texts[i]).parts(surroundings[i])
            if sentences.has_words(part.text)
        ]
        translated = iter(self._translate(to_translate))
        for i in lacking:
            pieces = [
                next(translated) if sentences.has_words(part) else Translation(part, ())
                for part in surroundings[i]
            ]
            prefix = "" if sentences.has_words(surroundings[i][0]) else texts[i].prefix
            valid[i] = _rejoin(texts[i].text, pieces, added[i], prefix)
        return valid

    def _added_placeholders(self, text: "_Text") -> Counter[str]:
        """Returns the placeholders that prefix and glossary may add to the translation of a text.
        """
        added = placeholders.counts(text.prefix)
        if self.glossary is not None:
            terms = self.glossary.terms_of(
                text.text, text.language, any_case=self._recased(text).recased
            )
            for term, times in terms.items():
                for target in term.targets:
                    for placeholder, count in placeholders.counts(target).items():
                        added[placeholder] += count * times
        return added

    def _translate(self, texts: Sequence["_Text"]) -> list[Translation]:
        """Returns the translation of each text, in pieces where necessary.

        A piece without a letter or digit is_unchanged as it is, unless it has a prefix.
        """
        pieces = [self._pieces(text) for text in texts]
        to_translate = [piece for of_text in pieces for piece in of_text if not piece.is_unchanged]
        translations = iter(self._translate_sentences(to_translate))

        def translation(piece: "_Text", count: int) -> Translation:
            if not piece.is_unchanged:
                return next(translations)
            unchanged = Hypothesis(on_one_line(piece.text), 0.0)
            return Translation(piece.text, (unchanged,) * count)

        nbest = self.batches.decoding.nbest
        return [
            join(text.text, [translation(piece, nbest if of_text[1:] else 1) for piece in of_text])
            for text, of_text in zip(texts, pieces, strict=True)
        ]

    def _pieces(self, text: "_Text") -> list["_Text"]:
        """Splits a text into pieces that fit the model; only the first has the prefix."""
        parts = [text.text]
        if self.batches.decoding.split == "sentences":
            parts = sentences.segment(text.text, text.language)
        whole = map(self._recased, text.parts(filter(str.strip, parts)))
        return [
            piece
            for each in whole
            for piece in each.parts(
                sentences.split(each.text, functools.partial(self._fits, each))
            )
        ]

    def _recased(self, text: "_Text") -> "_Text":
        """Returns the text, recased if it is in capitals and the option is on."""
        if not self.batches.decoding.recase_capitals:
            return text
        return text._replace(recased=text.recased or casing.in_capitals(text.text))

    def _translate_sentences(self, texts: Sequence["_Text"]) -> list[Translation]:
        """Returns the translations of texts that are short enough for the model."""
        encoded = self.encode([text.model_input for text in texts])
        prefixes = [text.model_prefix(self.target) for text in texts]
        prefix_ids = {prefix: self.prefix(prefix) for prefix in set(prefixes)}
        sources = [
            Source(ids, prefix_ids[prefix], text.language_id, self._phrases(text))
            for ids, prefix, text in zip(encoded, prefixes, texts, strict=True)
        ]
        with self.layout.active() if self.layout else contextlib.nullcontext():
            decoded = self.batches.search(sources)
        for source, text, sequences in zip(sources, texts, decoded, strict=True):
            if source.phrases and not sequences:
                raise ValueError(
                    f"no translation of {text.text!r} has the terms of the glossary and satisfies "
                    f"the other options ({self.batches.decoding})"
                )
        translations = [
            self._in_case(text, Translation(text.text, tuple(map(self._hypothesis, sequences))))
            for text, sequences in zip(texts, decoded, strict=True)
        ]
        return self.reranker.rerank(translations) if self.reranker else translations

    def _in_case(self, text: "_Text", translation: Translation) -> Translation:
        """Returns the translation of a text, for a recased one in capitals after its prefix."""
        if not text.recased:
            return translation
        prefix = text.model_prefix(self.target)

        def capitals(translated: str) -> str:
            start = len(prefix) if translated.startswith(prefix) else 0
            return text.prefix[:start] + casing.upper(translated[start:], self.target)

        return translation.recased_by(capitals)

    def _phrases(self, text: "_Text") -> tuple[RequiredPhrase, ...]:
        """Returns the phrases that the translations of a text must contain."""
        if self.glossary is None:
            return ()
        return self.glossary.phrases_of(
            self.vocabularies["target"], text.model_input, text.language, any_case=text.recased
        )

    def _hypothesis(self, sequence: DecodedSequence) -> Hypothesis:
        vocabulary = self.vocabularies["target"]
        return Hypothesis(
            on_one_line(vocabulary.decode(sequence.tokens)),
            sequence.score,
            tuple(map(vocabulary.piece, sequence.tokens)),
            tuple(sequence.token_scores),
        )

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the token ids of each text, with tag and end token."""
        encoded = self.vocabularies["source"].encode_all(
            [f"{self.tag} {text}" if self.tag else text for text in texts]
        )
        return [[*ids, self.batches.model.eos] for ids in encoded]

    def _fits(self, text: "_Text", part: str) -> bool:
        """Returns whether a part of a text fits the model."""
        (encoded,) = self.encode([text._replace(text=part).model_input])
        return len(encoded) <= self.batches.longest


class _Text(NamedTuple):
    """A line or a part of it, with its prefix, language (FLORES code or '') and language id.

    recased: whether it is in capitals, or part of such a text, and translated in sentence case.
    """

    text: str
    prefix: str
    language: str
    language_id: int | None
    recased: bool = False

    @property
    def model_input(self) -> str:
        """Returns the text as the model reads it."""
        return casing.sentence_case(self.text, self.language) if self.recased else self.text

    def model_prefix(self, target: str) -> str:
        """Returns the prefix as the model continues it; of equal length."""
        if self.recased and self.prefix == casing.upper(self.prefix, target):
            return casing.sentence_case(self.prefix, target)
        return self.prefix

    @property
    def is_unchanged(self) -> bool:
        """Returns whether there is nothing to translate."""
        return not self.prefix and not sentences.has_words(self.text)

    def parts(self, texts: Iterable[str]) -> list["_Text"]:
        """Returns parts of the text, of which only the first has the prefix."""
        prefixes = itertools.chain([self.prefix], itertools.repeat(""))
        return [
            self._replace(text=text.strip(), prefix=prefix)
            for text, prefix in zip(texts, prefixes, strict=False)
        ]


def _with_all_placeholders(translation: Translation, added: Counter[str]) -> Translation:
    """Returns the translation with the hypotheses that have exactly its source's placeholders, and
    perhaps those that are `added`.
    """
    ranks = [
        rank
        for rank, hypothesis in enumerate(translation.hypotheses)
        if placeholders.agree(translation.source, hypothesis.text, added)
    ]

    def chosen(hypotheses: Sequence[Hypothesis]) -> tuple[Hypothesis, ...]:
        return tuple(hypotheses[rank] for rank in ranks)

    return translation._replace(
        hypotheses=chosen(translation.hypotheses),
        pieces=tuple(
            piece._replace(hypotheses=chosen(piece.hypotheses)) for piece in translation.pieces
        ),
    )


def _rejoin(
    text: str, pieces: Sequence[Translation], added: Counter[str], prefix: str
) -> Translation:
    """Returns the translation of a text from those of the parts between its placeholders.

    A piece without a hypothesis is copied from the source. The prefix is written before all.
    """
    translated = [piece.hypotheses for piece in pieces if piece.hypotheses]
    hypotheses = []
    for rank in range(min(map(len, translated), default=1)):
        texts = [piece.hypotheses[rank].text if piece.hypotheses else piece.source
                 for piece in pieces]  # fmt: skip
        score = sum(each[rank].score for each in translated) / max(len(translated), 1)
        quality = mean_quality([each[rank] for each in translated])
        joined = " ".join(filter(None, (prefix, placeholders.rejoin(text, texts, added))))
        hypotheses.append(Hypothesis(joined, score, quality=quality))
    translated_pieces = tuple(piece for piece in pieces if piece.hypotheses)
    recased = any(piece.recased for piece in pieces)
    return Translation(text, tuple(hypotheses), translated_pieces, recased=recased)
