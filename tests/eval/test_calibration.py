"""Confidence is fitted to chrF: it is unbiased, and faults that are rare lower it."""

from pathlib import Path

import numpy as np
import pytest

from eval import calibration, testsets
from mmt.translate import Decoding, Translator
from mmt.translate.translation import Signals

OLD = Path(__file__).resolve().parents[1] / "data/old_run"


def made_up(count, seed):
    random = np.random.default_rng(seed)
    scores = -random.exponential(1, count)
    looping = random.random(count) < 0.1
    truth = 1 / (1 + np.exp(-(1.5 + scores - 2.5 * looping)))
    chrf = np.clip(truth + random.normal(0, 0.1, count), 0, 1)
    signals = [Signals(loop=float(loop), score=-score, words=score)
               for loop, score in zip(looping, scores, strict=True)]  # fmt: skip
    return signals, chrf


def test_the_confidence_of_other_lines_is_their_chrf():
    fitted = calibration.fit(*made_up(2000, 0))
    signals, chrf = made_up(2000, 1)
    for confidence, mean, lines in calibration.reliability(fitted.confidence(signals), chrf):
        assert abs(confidence - mean) < 0.05 and lines == 200
    assert fitted.weights["loop"] == pytest.approx(-2.5, abs=0.5)
    assert fitted.weights["score"] == 0  # `words` replaces it


def test_a_fault_that_no_line_has_lowers_the_confidence():
    fitted = calibration.fit(*made_up(500, 0))
    clean, copied = fitted.confidence([Signals(words=-0.5), Signals(words=-0.5, copy=1.0)])
    assert copied < clean


def test_chrf_of_lines_is_that_of_sacrebleu():
    sacrebleu = pytest.importorskip("sacrebleu")
    lines = [("one two three", "one two four"), ("same", "same"), ("", "x y")]
    found = calibration.line_chrf([a for a, _ in lines], [b for _, b in lines])
    expected = [sacrebleu.sentence_chrf(a, [b], word_order=2).score for a, b in lines]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_run_is_calibrated_on_a_test_set():
    testset = testsets.load(OLD / "numbers", split="validation")
    translator = Translator.load(OLD / "toy")
    fitted = calibration.calibrate(translator, testset, decoding=Decoding(beam=1))
    count = sum(len(lines.sources) for lines in testset.languages.values())
    assert fitted.lines + sum(row[2] for row in fitted.reliability) == count
    assert fitted.decode.startswith("beam:1") and 0 <= fitted.risky <= 1
    assert len(calibration.table(fitted).splitlines()) == 1 + calibration.BINS
    with pytest.raises(ValueError, match="has 3 lines; to calibrate, 10"):
        calibration.calibrate(translator, testset, lines_per_language=1)
    with pytest.raises(ValueError, match="lines_per_language = 0; allowed: 1 or more"):
        calibration.calibrate(translator, testset, lines_per_language=0)
