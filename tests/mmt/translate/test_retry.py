"""Risky lines are translated again; the translation of highest confidence stays."""

import dataclasses
from pathlib import Path

import pytest

from mmt.translate import Decoding, Translator, retry
from mmt.translate.comet import CometModel, Reranker
from mmt.translate.sentences import segment
from tests.helpers import comet_command
from tests.mmt.translate.test_risk import CALIBRATION

TOY = Path(__file__).resolve().parents[3] / "tests/data/old_run/toy"
LINES = ["eins zwei drei", "", "moja. mbili tatu. nne", "ꔀꔁꔂ ꔃꔄ ꔅꔆꔇ", "un deux 12 trois", "vier"]
GREEDY = Decoding(beam=1)
ALL_RISKY = dataclasses.replace(CALIBRATION, risky=1.0)


@pytest.fixture(scope="module")
def translator():
    return Translator.load(TOY)


def test_without_retry_only_the_risk_is_added(translator):
    plain = list(translator.translate(LINES, decoding=GREEDY, token_scores=True))
    found = list(retry.translate(translator, LINES, CALIBRATION, decoding=GREEDY))
    assert [line._replace(risk=None) for line in found] == plain
    assert all(line.risk for line in found)


def test_confidence_never_falls_and_the_order_stays(translator):
    once = list(retry.translate(translator, LINES, ALL_RISKY, decoding=GREEDY))
    twice = list(retry.translate(translator, LINES, ALL_RISKY, decoding=GREEDY, retry=True))
    assert [line.source for line in twice] == LINES
    assert [line.line for line in twice] == list(range(len(LINES)))
    for before, after in zip(once, twice, strict=True):
        assert after.risk.confidence >= before.risk.confidence
    assert any(a.risk.confidence > b.risk.confidence for a, b in zip(twice, once, strict=True))


def test_with_a_neural_score_a_line_has_fewest_flags_and_then_the_highest_score(
    translator, tmp_path, monkeypatch
):
    comet_command.install(tmp_path, monkeypatch)
    file = comet_command.write_model(tmp_path / "kiwi", "referenceless_regression_metric")
    translator = dataclasses.replace(translator, reranker=Reranker(CometModel.find(file)))
    options = {"decoding": GREEDY, "source": "de"}
    once = list(retry.translate(translator, LINES, ALL_RISKY, **options))
    twice = list(retry.translate(translator, LINES, ALL_RISKY, retry=True, **options))
    keys = [
        [(-len(line.risk.flags), line.hypotheses[0].quality or 0.0) for line in lines]
        for lines in (once, twice)
    ]
    assert all(after >= before for before, after in zip(*keys, strict=True))
    assert keys[0] != keys[1] and [line.source for line in twice] == LINES


def test_lines_that_are_not_risky_are_not_translated_again(translator, monkeypatch):
    seen = []
    sure = dataclasses.replace(CALIBRATION, risky=0.0)
    once = list(retry.translate(translator, LINES, sure, decoding=GREEDY))
    risky = [line.source for line in once if line.risk.flags]
    original = Translator.translate
    monkeypatch.setattr(
        Translator, "translate",
        lambda self, lines, **options: (seen.extend(lines), original(self, lines, **options))[1],
    )  # fmt: skip
    again = retry.again(translator, once, sure, decoding=GREEDY)
    parts = [part for line in risky for part in segment(line, "") if part != line]
    assert seen == [*risky, *parts]
    for before, after in zip(once, again, strict=True):
        assert before == after or before.source in risky


def test_another_decoding_than_that_of_the_calibration_gives_a_warning(translator):
    other = dataclasses.replace(CALIBRATION, decode="beam:4|alpha:0.8")
    with pytest.warns(UserWarning, match="for the decoding beam:4.alpha:0.8, not beam:1"):
        list(retry.translate(translator, LINES[:1], other, decoding=GREEDY))


@pytest.mark.filterwarnings("error")
def test_the_split_of_lines_is_no_other_decoding(translator):
    same = dataclasses.replace(CALIBRATION, decode=str(GREEDY))
    by_sentence = dataclasses.replace(GREEDY, split="sentences")
    assert list(retry.translate(translator, LINES[:1], same, decoding=by_sentence))
