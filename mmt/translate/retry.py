"""Translates risky lines again with other options, and keeps the best translation."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

from mmt.decoding import Decoding
from mmt.translate import risk, sentences
from mmt.translate.risk import Calibration
from mmt.translate.sentences import windows
from mmt.translate.source_language import AUTO
from mmt.translate.translation import Translation
from mmt.translate.translator import Translator


def translate(
    translator: Translator,
    lines: Any,
    calibration: Calibration,
    *,
    decoding: Decoding,
    retry: bool = False,
    **options: Any,
) -> Iterator[Translation]:
    """Yields the translation of every line with its risk, in order, as `Translator.translate`.

    Args:
        translator: the model.
        lines: the lines; `arriving_lines` are translated as they arrive.
        calibration: of the run.
        decoding: options of the search.
        retry: whether to translate risky lines again.
        options: `source` and `target`, as in `Translator.translate`.
    """
    calibration.warn_unless_fitted_with(decoding)
    number = 0
    for window in windows(lines):
        translations = _assessed(translator, window, calibration, decoding, options)
        if retry:
            translations = again(
                translator, translations, calibration, decoding=decoding, **options
            )
        for translation in translations:
            yield translation._replace(line=number)
            number += 1


def is_risky(translation: Translation, calibration: Calibration) -> bool:
    """Returns whether an assessed translation has a flag or a low confidence."""
    risk_of_line = translation.risk
    if risk_of_line is None or not sentences.has_words(translation.source):
        return False
    return bool(risk_of_line.flags) or risk_of_line.confidence < calibration.risky


def again(
    translator: Translator,
    translations: Sequence[Translation],
    calibration: Calibration,
    *,
    decoding: Decoding,
    **options: Any,
) -> list[Translation]:
    """Returns the translations, with risky ones replaced by better alternatives.

    The alternatives of a line are the n-best list of a beam of 4 without repeated 3-grams and with
    a stronger length penalty; with a glossary, 3-grams may repeat, since a term may. Of these and
    the first translation, the one that agrees most with all is kept: minimum Bayes risk by chrF
    (Kumar and Byrne, 2004), where each has one vote. With a `reranker`, the best one has the fewest
    flags, and of these the highest neural score.

    A given source language is not compared with the risky lines: they are a selection of the text.
    """
    risky = [i for i, line in enumerate(translations) if is_risky(line, calibration)]
    best = list(translations)
    texts = [translations[i].source for i in risky]
    no_repeat_ngram = decoding.no_repeat_ngram if options.get("glossary") else 3
    careful = dataclasses.replace(
        decoding, beam=4, nbest=4, alpha=1.0, temperature=None, top_k=0, top_p=1.0,
        no_repeat_ngram=no_repeat_ngram,
    )  # fmt: skip
    identifier = translator.identifier if options.get("source") == AUTO else None
    unchecked = dataclasses.replace(translator, identifier=identifier)
    alternatives = _translated(unchecked, texts, careful, options)
    for i, alternative in zip(risky, alternatives, strict=True):
        assessed = risk.assess(
            translator, _each(alternative), calibration, target=options.get("target")
        )
        candidates = [translations[i], *assessed]
        if translator.reranker:
            chosen = max(candidates, key=_quality)
        else:
            chosen = candidates[most_agreeing([line.text for line in candidates])]
        best[i] = chosen._replace(line=best[i].line, detected=best[i].detected)
    return best


def _each(translation: Translation) -> list[Translation]:
    """Returns a translation for each hypothesis of a line."""
    return [_only(translation, rank) for rank in range(len(translation.hypotheses))]


def _only(translation: Translation, rank: int) -> Translation:
    """Returns the translation with one hypothesis; its pieces, and theirs, have the same."""
    return translation._replace(
        hypotheses=(translation.hypotheses[rank],),
        pieces=tuple(_only(piece, rank) for piece in translation.pieces),
    )


def most_agreeing(texts: Sequence[str]) -> int:
    """Returns the index of the text with the highest mean chrF against all; of equals the first.

    >>> most_agreeing(["a red car", "the red car", "the red car", "no"])
    1
    """
    from sacrebleu.metrics import CHRF  # slow to import; most lines are not risky

    chrf = CHRF()
    votes = [sum(chrf.sentence_score(text, [other]).score for other in texts) for text in texts]
    return votes.index(max(votes))


def _quality(translation: Translation) -> tuple[int, float]:
    flags = len(translation.risk.flags) if translation.risk else 0
    quality = translation.hypotheses[0].quality
    return -flags, -math.inf if quality is None else quality


def _assessed(
    translator: Translator,
    lines: Sequence[str],
    calibration: Calibration,
    decoding: Decoding,
    options: dict[str, Any],
) -> list[Translation]:
    translations = _translated(translator, lines, decoding, options)
    return risk.assess(translator, translations, calibration, target=options.get("target"))


def _translated(
    translator: Translator, lines: Sequence[str], decoding: Decoding, options: dict[str, Any]
) -> list[Translation]:
    return list(translator.translate(lines, decoding=decoding, token_scores=True, **options))
