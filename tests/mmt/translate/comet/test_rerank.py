"""The n-best translations of each sentence are in the order of their neural scores."""

import dataclasses
from pathlib import Path

import pytest

from mmt.translate import Decoding, Translator, format_text, to_json
from mmt.translate.comet import CometModel, Reranker
from tests.helpers import comet_command

TOY = Path(__file__).resolve().parents[3] / "data/old_run/toy"
LINES = ["eins zwei drei", "", "Eins zwei. Drei vier", "eins {name} zwei", "eins zwei drei"]
FOUR = Decoding(beam=4, nbest=4, split="sentences", keep_placeholders=True)


@pytest.fixture(scope="module")
def plain():
    return Translator.load(TOY)


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """A stand-in for the command; returns a function that lists the lines scored per start."""
    return comet_command.install(tmp_path, monkeypatch)


@pytest.fixture
def translator(plain, tmp_path, calls):
    """The toy run's translator with a reranker."""
    file = comet_command.write_model(tmp_path / "kiwi", "referenceless_regression_metric")
    return dataclasses.replace(plain, reranker=Reranker(CometModel.find(file)))


def test_sentences_have_the_hypotheses_of_the_search_ordered_by_quality(plain, translator, calls):
    before = list(plain.translate(LINES, source="de", decoding=FOUR))
    after = list(translator.translate(LINES, source="de", decoding=FOUR))
    moved = 0
    for old, new in zip(before, after, strict=True):
        assert old.source == new.source
        for one, other in zip(old.pieces or [old], new.pieces or [new], strict=True):
            found = [each.text for each in other.hypotheses]
            if other.source and "{" not in other.source:
                assert sorted(found) == sorted(each.text for each in one.hypotheses)
                qualities = [comet_command.quality(other.source, text) for text in found]
                assert qualities == sorted(qualities, reverse=True)
                assert [each.quality for each in other.hypotheses] == pytest.approx(qualities)
                moved += other.text != one.text
    assert moved and after[0].hypotheses == after[4].hypotheses
    assert after[1].hypotheses[0].quality is None  # an empty line
    pieces = after[2].pieces
    assert len(pieces) == 2 and after[2].text == " ".join(piece.text for piece in pieces)
    mean = sum(piece.hypotheses[0].quality for piece in pieces) / 2
    assert after[2].hypotheses[0].quality == pytest.approx(mean)
    assert "{name}" in after[3].text
    assert len(calls()) <= 2  # the second one for lines that lost a placeholder


def test_output_has_the_quality_beside_the_score(translator):
    (line,) = translator.translate(LINES[:1], source="de", decoding=FOUR)
    best = line.hypotheses[0]
    assert len(line.best(2).hypotheses) == 2 and line.best(1).text == line.text
    first = format_text(line, nbest=2).split("\n")[0]
    assert first == f"0 ||| {best.text} ||| {best.score:.6f} ||| {best.quality:.6f}"
    assert to_json(line)["hypotheses"][0]["quality"] == pytest.approx(best.quality, abs=1e-6)


def test_languages_are_checked_at_once(translator, calls):
    for source, target, message in (
        (None, None, "needs the language of the lines"),
        ("auto", None, "needs the language of the lines"),
        ("sag", None, "no neural scores for sag_Latn"),
        ("de", "sag", "no neural scores for sag_Latn"),
    ):
        with pytest.raises(ValueError, match=message):
            translator.translate(LINES, source=source, target=target, decoding=FOUR)
    assert calls() == []


def test_a_model_that_needs_references_does_not_rerank(tmp_path, calls):
    file = comet_command.write_model(tmp_path / "da", "regression_metric")
    with pytest.raises(ValueError, match="a model that needs references; expected"):
        Reranker(CometModel.find(file))
