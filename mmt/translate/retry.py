"""Translates risky lines again in other ways, and keeps the translation of highest confidence."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from mmt.decoding import Decoding
from mmt.identify import NONE
from mmt.translate import risk, sentences
from mmt.translate.risk import Calibration
from mmt.translate.source_language import AUTO
from mmt.translate.translation import Translation, join
from mmt.translate.translator import Translator, windows


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
        found = _assessed(translator, window, calibration, decoding, options)
        if retry:
            found = again(translator, found, calibration, decoding=decoding, **options)
        for translation in found:
            yield translation._replace(line=number)
            number += 1


def is_risky(translation: Translation, calibration: Calibration) -> bool:
    """Returns whether an assessed translation has a flag or a low confidence."""
    assessed = translation.risk
    if assessed is None or not sentences.has_words(translation.source):
        return False
    return bool(assessed.flags) or assessed.confidence < calibration.risky


def again(
    translator: Translator,
    translations: Sequence[Translation],
    calibration: Calibration,
    *,
    decoding: Decoding,
    **options: Any,
) -> list[Translation]:
    """Returns the translations, the risky ones replaced where another way has more confidence.

    The other ways are the n-best list of a beam of 4 without repeated 3-grams and with a stronger
    length penalty, and the line sentence by sentence.
    """
    risky = [place for place, line in enumerate(translations) if is_risky(line, calibration)]
    best = list(translations)
    texts = [translations[place].source for place in risky]
    careful = dataclasses.replace(
        decoding, beam=4, nbest=4, alpha=1.0, temperature=None, no_repeat_ngram=3
    )
    others = _translated(translator, texts, careful, options)
    for place, other in zip(risky, others, strict=True):
        candidates = [other] if other.pieces else [
            other._replace(hypotheses=(hypothesis,)) for hypothesis in other.hypotheses
        ]  # fmt: skip
        _keep_better(translator, best, place, candidates, calibration, options)
    split = {place: _sentences(translations[place], options) for place in risky}
    split = {place: parts for place, parts in split.items() if len(parts) > 1}
    parts = [part for parts in split.values() for part in parts]
    translated = iter(_translated(translator, parts, decoding, options))
    for place, of_line in split.items():
        pieces = list(itertools.islice(translated, len(of_line)))
        whole = join(translations[place].source, pieces)
        _keep_better(translator, best, place, [whole], calibration, options)
    return best


def _sentences(translation: Translation, options: dict[str, Any]) -> list[str]:
    """Returns the sentences of a line, in its given or detected language."""
    given = options.get("source")
    if given == AUTO:
        given = translation.detected.language if translation.detected else None
    return sentences.segment(translation.source, "" if given in (None, NONE) else given)


def _keep_better(
    translator: Translator,
    best: list[Translation],
    place: int,
    candidates: Sequence[Translation],
    calibration: Calibration,
    options: dict[str, Any],
) -> None:
    """Replaces the translation at `place` by the candidate of highest confidence, if it is higher.
    """
    assessed = risk.assess(translator, candidates, calibration, target=options.get("target"))
    best[place] = max(best[place], *assessed, key=_confidence)._replace(
        line=best[place].line, detected=best[place].detected
    )


def _confidence(translation: Translation) -> float:
    return translation.risk.confidence if translation.risk else 0.0


def _assessed(
    translator: Translator,
    lines: Sequence[str],
    calibration: Calibration,
    decoding: Decoding,
    options: dict[str, Any],
) -> list[Translation]:
    found = _translated(translator, lines, decoding, options)
    return risk.assess(translator, found, calibration, target=options.get("target"))


def _translated(
    translator: Translator, lines: Sequence[str], decoding: Decoding, options: dict[str, Any]
) -> list[Translation]:
    return list(translator.translate(lines, decoding=decoding, token_scores=True, **options))
