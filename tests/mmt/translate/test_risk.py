"""The risk of translations: signals, flags, confidence, and the file in a run directory."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from mmt.run import Run
from mmt.translate import Decoding, Hypothesis, Translation, Translator, format_text, to_json
from mmt.translate.retry import is_risky
from mmt.translate.risk import FLAGS, Calibration, assess
from mmt.translate.translation import Signals

TOY = Path(__file__).resolve().parents[3] / "tests/data/old_run/toy"
WEIGHTS = (-2.0, -1.0, -1.0, -2.0, -1.0, -2.0, 0.0, 0.5, 0.2, 0.1)
CALIBRATION = Calibration(dict(zip(Signals._fields, WEIGHTS, strict=True)), 1.0)


@pytest.fixture(scope="module")
def translator():
    return Translator.load(TOY)


def assessed(translator, source, text, scores=(-0.1, -0.2)):
    line = Translation(source, (Hypothesis(text, -0.1, ("a", "b"), scores),))
    return assess(translator, [line], CALIBRATION)[0]


@pytest.mark.parametrize(
    ("source", "text", "flag"),
    [
        ("eins zwei drei", "one one one one one", "loop"),
        ("eins", "one two three four five six seven eight nine ten", "length"),
        ("eins 12 zwei", "one 21 two", "numbers"),
        ("eins zwei drei", "eins zwei drei", "copy"),
        ("ꔀꔁꔂ ꔃꔄ ꔅꔆꔇ", "one two three", "uncovered"),
    ],
)
def test_each_fault_is_flagged_and_lowers_the_confidence(translator, source, text, flag):
    bad = assessed(translator, source, text).risk
    good = assessed(translator, "eins zwei drei", "one two three").risk
    assert flag in bad.flags and good.flags == ()
    assert bad.confidence < good.confidence
    assert getattr(bad.signals, flag) >= FLAGS[flag]


def test_a_recased_line_is_judged_in_lower_case(translator):
    def signals(source, text, recased):
        line = Translation(source, (Hypothesis(text, -0.1, ("a",), (-0.1,)),), recased=recased)
        return assess(translator, [line], CALIBRATION)[0].risk.signals

    good = signals("EINS ZWEI DREI VIER", "ONE TWO THREE FOUR", True)
    assert good == signals("eins zwei drei vier", "one two three four", False)
    assert signals("EINS ZWEI DREI VIER", "EINS ZWEI DREI VIER!", True).copy == 1
    assert signals("SVEN OLSON", "SVEN OLSON", True).copy == 0  # names may stay
    assert good != signals("EINS ZWEI DREI VIER", "ONE TWO THREE FOUR", False)


def test_a_translation_in_another_language_is_off_target(translator, tmp_path):
    class Identifier:
        codes = ("deu_Latn", "eng_Latn", "und")

        def probabilities(self, lines):
            return np.array([[0.97, 0.02, 0.01]] * len(lines))

    german = dataclasses.replace(translator, identifier=None)
    object.__setattr__(german, "identifier", Identifier())
    risk = assessed(german, "moja mbili tatu", "eins zwei drei vier").risk
    assert risk.flags == ("off_target",) and risk.signals.off_target == pytest.approx(0.98)
    assert assessed(german, "moja", "eins").risk.signals.off_target == 0  # too short to tell


def test_scores_of_tokens_count_in_pieces_too(translator):
    low = assessed(translator, "eins zwei", "one two", scores=(-3.0, -5.0)).risk
    high = assessed(translator, "eins zwei", "one two", scores=(-0.1, -0.1)).risk
    assert low.signals.score == -4 and low.signals.lowest == -5
    assert low.confidence < high.confidence
    parts = tuple(Translation(text, (Hypothesis(text, -1, ("x",), (score,)),))
                  for text, score in (("eins", -1.0), ("zwei", -3.0)))  # fmt: skip
    whole = Translation("eins zwei", (Hypothesis("one two", -2.0),), parts)
    signals = assess(translator, [whole], CALIBRATION)[0].risk.signals
    assert (signals.score, signals.words, signals.first, signals.lowest) == (-2, -2, -2, -3)


def test_sure_numbers_and_punctuation_do_not_raise_the_score_of_words(translator):
    def signals(text, *tokens):
        pieces, scores = zip(*tokens, strict=True)
        line = Translation("eins zwei 12", (Hypothesis(text, -0.1, pieces, scores),))
        return assess(translator, [line], CALIBRATION)[0].risk.signals

    words = (("▁one", -1.0), ("▁two", -3.0))
    sure = [("▁1", 0.0), ("2", 0.0), (",", 0.0), ("</s>", 0.0)]
    found = signals("one two 12,", *words, *sure)
    assert found.words == -2 and found.first == -1
    assert found.score > -1 and found.lowest == -3
    assert signals("12", ("▁1", -0.5), ("2", -1.5)).words == -1  # without words all tokens count


def test_a_line_without_letters_and_digits_has_no_fault(translator):
    greedy = Decoding(beam=1)
    lines = translator.translate(["  ", "* * *", "👍"], decoding=greedy, token_scores=True)
    for line in assess(translator, list(lines), CALIBRATION):
        assert line.risk.flags == () and not is_risky(line, CALIBRATION)


def test_output_formats(translator):
    line = assessed(translator, "eins zwei drei", "eins\tzwei drei")
    text, confidence, flags = format_text(line).split("\t")
    assert text == "eins zwei drei" and flags == "copy" and 0 < float(confidence) < 1
    risk = to_json(line)["risk"]
    assert risk["flags"] == ["copy"] and set(risk["signals"]) == set(Signals._fields)
    assert "risk" not in to_json(line._replace(risk=None))


def test_the_file_of_a_run(tmp_path):
    with pytest.raises(ValueError, match="no calibration of confidence.*mmt calibrate"):
        Calibration.load(tmp_path)
    full = dataclasses.replace(
        CALIBRATION, decode="beam:4", lines=9, risky=0.2, reliability=[[0.1, 0.2, 3.0]]
    )
    full.save(tmp_path)
    assert Calibration.load(tmp_path) == full
    file = Run(tmp_path).risk
    old = json.loads(file.read_text()) | {"version": 1}
    old["weights"] = {name: weight for name, weight in old["weights"].items()
                      if name not in ("words", "first")} | {"score": 0.5}  # fmt: skip
    file.write_text(json.dumps(old))
    signals = Signals(score=-1.0, words=-2.0, first=-3.0)
    without = signals._replace(words=0.0, first=0.0)
    assert len({*Calibration.load(tmp_path).confidence([signals, without])}) == 1
    full.save(tmp_path)
    for text in ("", "[]", "{}", file.read_text().replace('"version": 2', '"version": 7'),
                 file.read_text().replace('"copy"', '"copies"')):  # fmt: skip
        file.write_text(text)
        with pytest.raises(ValueError, match=f"{file} is no calibration"):
            Calibration.load(tmp_path)
