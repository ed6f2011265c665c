"""Fits the confidence of `mmt translate --risk` to chrF, on a validation set.

Two of three lines are fitted; the others measure how reliable the confidence is.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy import optimize

from eval import metrics
from eval.testsets import Sentences, TestSet
from mmt.decoding import DEFAULT, Decoding
from mmt.system.progress import SENTENCES, progress_bar
from mmt.translate import Translator, risk
from mmt.translate.risk import Calibration
from mmt.translate.translation import Signals

BINS = 10
_RISKY = 0.2  # share of lines
_MEASURED = 3  # every third line measures
_STRENGTH = 2.0  # of the prior, in lines
# What a weight is if no validation line shows otherwise: each fault lowers the confidence.
_PRIOR = Signals(
    loop=-2, length=-1, numbers=-1, copy=-2, off_target=-1, uncovered=-2, words=0.5, lowest=0.1
)
# `words` says what `score` says, and copied numbers do not raise it; its weight stays 0.
_FITTED = np.array([name != "score" for name in Signals._fields])


def calibrate(
    translator: Translator,
    testset: TestSet,
    *,
    decoding: Decoding = DEFAULT,
    lines_per_language: int = 20,
) -> Calibration:
    """Returns the calibration of a model on up to `lines_per_language` lines of each language.

    Raises ValueError for fewer than 10 lines.
    """
    if lines_per_language < 1:
        raise ValueError(
            f"calibrate.lines_per_language = {lines_per_language}; allowed: 1 or more"
        )
    chosen = [
        (code, source, reference)
        for code, of_language in testset.languages.items()
        for source, reference in _spread(of_language, lines_per_language)
    ]
    if len(chosen) < 10:
        raise ValueError(f"{testset.name} has {len(chosen)} lines; to calibrate, 10 are needed")
    codes, sources, references = zip(*chosen, strict=True)
    translations = translator.translate(
        sources,
        sources=codes if translator.routes_by_language else None,
        target=testset.target if translator.tagged else None,
        decoding=decoding,
        token_scores=True,
    )
    lines = []
    with progress_bar(*SENTENCES) as bar:
        task = bar.add_task("calibrating", total=len(sources))
        for translation in translations:
            lines.append(translation)
            bar.advance(task)
    signals = [
        risk.signals_of(translator, line, line.hypotheses[0], testset.target) for line in lines
    ]
    chrf = line_chrf([line.text for line in lines], references) / 100
    measured = np.arange(len(signals)) % _MEASURED == 0
    fitted = fit([signals[i] for i in np.flatnonzero(~measured)], chrf[~measured])
    confidence = fitted.confidence([signals[i] for i in np.flatnonzero(measured)])
    return dataclasses.replace(
        fitted,
        decode=str(decoding),
        lines=int((~measured).sum()),
        risky=float(np.quantile(confidence, _RISKY)),
        reliability=reliability(confidence, chrf[measured]),
    )


def _spread(sentences: Sentences, limit: int) -> list[tuple[str, str]]:
    """Returns up to `limit` pairs of a language, evenly spaced."""
    step = -(-len(sentences.sources) // limit)
    return list(zip(sentences.sources, sentences.references, strict=True))[::step]


def line_chrf(
    hypotheses: Sequence[str], references: Sequence[str]
) -> Float[np.ndarray, "N"]:
    """Returns the chrF++ of each line, 0 to 100."""
    return metrics.chrf(metrics.References(references).statistics(hypotheses).chrf)


def fit(signals: Sequence[Signals], chrf: Float[np.ndarray, "N"]) -> Calibration:
    """Returns the logistic regression from signals to chrF (0 to 1) of greatest likelihood.

    A weak prior gives a fault that no line has a weight that lowers the confidence.
    """
    values, prior = np.array(signals, float), np.array(_PRIOR, float)

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        logits = values @ parameters[:-1] + parameters[-1]
        away = parameters[:-1] - prior
        value = (np.logaddexp(0, logits) - chrf * logits).sum() + _STRENGTH / 2 * away @ away
        errors = 1 / (1 + np.exp(-logits)) - chrf
        return value, np.append(_FITTED * (values.T @ errors + _STRENGTH * away), errors.sum())

    solution = optimize.minimize(loss, np.append(prior, 0.0), jac=True, method="L-BFGS-B").x
    weights = dict(zip(Signals._fields, map(float, solution[:-1]), strict=True))
    return Calibration(weights, float(solution[-1]))


def reliability(
    confidence: Float[np.ndarray, "N"], chrf: Float[np.ndarray, "N"]
) -> list[list[float]]:
    """Returns [mean confidence, mean chrF, lines] of bins with equally many lines, in order."""
    order = np.argsort(confidence, kind="stable")
    return [
        [float(confidence[part].mean()), float(chrf[part].mean()), float(len(part))]
        for part in np.array_split(order, min(BINS, len(order)))
        if len(part)
    ]


def table(calibration: Calibration) -> str:
    """Returns the reliability as a table."""
    rows = ["confidence\tchrF\tlines"]
    rows += [f"{confidence:.3f}\t{chrf:.3f}\t{lines:.0f}"
             for confidence, chrf, lines in calibration.reliability]  # fmt: skip
    return "\n".join(rows)
