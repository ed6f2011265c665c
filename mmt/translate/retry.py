"""Translates risky lines again with other options, and keeps the best translation."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from mmt.decoding import Decoding
from mmt.identify import NONE
from mmt.translate import risk, sentences
from mmt.translate.risk import Calibration
from mmt.translate.sentences import windows
from mmt.translate.source_language import AUTO
from mmt.translate.translation import Translation, join
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
        options: `source` and `target`, as of `Translator.translate`.
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
    """Returns the translations, with risky ones replaced by more confident alternatives.

    The alternatives of a line are the n-best list of a beam of 4 without repeated 3-grams and with
    a stronger length penalty, and its translation sentence by sentence. With a `reranker`, the
    better one of two has fewer flags, else a higher neural score.
    """
    risky = [i for i, line in enumerate(translations) if is_risky(line, calibration)]
    best = list(translations)
    texts = [translations[i].source for i in risky]
    careful = dataclasses.replace(
        decoding, beam=4, nbest=4, alpha=1.0, temperature=None, no_repeat_ngram=3
    )
    alternatives = _translated(translator, texts, careful, options)
    for i, candidate in zip(risky, alternatives, strict=True):
        candidates = [candidate] if candidate.pieces else [
            candidate._replace(hypotheses=(hypothesis,)) for hypothesis in candidate.hypotheses
        ]  # fmt: skip
        _keep_better(translator, best, i, candidates, calibration, options)
    split = {i: _sentences(translations[i], options) for i in risky}
    split = {i: parts for i, parts in split.items() if len(parts) > 1}
    parts = [part for parts in split.values() for part in parts]
    translated = iter(_translated(translator, parts, decoding, options))
    for i, of_line in split.items():
        pieces = list(itertools.islice(translated, len(of_line)))
        joined = join(translations[i].source, pieces)
        _keep_better(translator, best, i, [joined], calibration, options)
    return best


def _sentences(translation: Translation, options: dict[str, Any]) -> list[str]:
    """Returns the sentences of a line, in its given or detected language."""
    language = options.get("source")
    if language == AUTO:
        language = translation.detected.language if translation.detected else None
    return sentences.segment(translation.source, "" if language in (None, NONE) else language)


def _keep_better(
    translator: Translator,
    best: list[Translation],
    index: int,
    candidates: Sequence[Translation],
    calibration: Calibration,
    options: dict[str, Any],
) -> None:
    """Replaces the translation at `index` by the best candidate, if that is better."""
    assessed = risk.assess(translator, candidates, calibration, target=options.get("target"))
    key = _quality if translator.reranker else _confidence
    best[index] = max(best[index], *assessed, key=key)._replace(
        line=best[index].line, detected=best[index].detected
    )


def _confidence(translation: Translation) -> float:
    return translation.risk.confidence if translation.risk else 0.0


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
