"""Risky lines are translated again; the translation that agrees most with the others stays."""

import dataclasses
import warnings
from pathlib import Path

import numpy as np
import pytest

from mmt.identify import LanguageIdentifier
from mmt.translate import Decoding, Glossary, Hypothesis, Translation, Translator, retry
from mmt.translate.comet import CometModel, Reranker
from mmt.translate.translation import join
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


def test_a_risky_line_gets_the_alternative_that_agrees_most_with_all(translator):
    once = list(retry.translate(translator, LINES, ALL_RISKY, decoding=GREEDY))
    twice = list(retry.translate(translator, LINES, ALL_RISKY, decoding=GREEDY, retry=True))
    assert [line.source for line in twice] == LINES
    assert [line.line for line in twice] == list(range(len(LINES)))
    careful = Decoding(beam=4, nbest=4, alpha=1.0, no_repeat_ngram=3)
    alternatives = translator.translate(LINES, decoding=careful, token_scores=True)
    changed = 0
    for before, line, after in zip(once, alternatives, twice, strict=True):
        texts = [before.text, *(hypothesis.text for hypothesis in line.hypotheses)]
        assert after.text == texts[retry.most_agreeing(texts)] or not before.source
        assert after.risk is not None
        changed += before.text != after.text
    assert changed


@pytest.mark.parametrize(
    ("texts", "best"),
    [
        (["the red car is here", "a red car", "the red cars are here", "red car, here"], 2),
        (["no", "", "the red car", "a red car"], 2),
        (["xyz", "ab", "abc"], 2),
        (["", ""], 0),
    ],
)
def test_the_text_that_agrees_most_is_kept(texts, best):
    assert retry.most_agreeing(texts) == best


@pytest.mark.parametrize("split", ["long", "sentences"])
def test_the_pieces_of_an_alternative_are_those_of_its_text(translator, split):
    decoding = dataclasses.replace(GREEDY, split=split)
    lines = ["moja. mbili tatu. nne"] * 2
    for line in retry.translate(translator, lines, ALL_RISKY, decoding=decoding, retry=True):
        assert len(line.hypotheses) == 1
        if split == "sentences":
            assert len(line.pieces) > 1
            assert line.text == " ".join(filter(None, (piece.text for piece in line.pieces)))


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
    assert seen == risky
    for before, after in zip(once, again, strict=True):
        assert before == after or before.source in risky


class OneIsEnglish(LanguageIdentifier):
    """Takes lines with `one` for English, and others for German."""

    def __init__(self):
        sizes = {"alphabet": 1, "embedding": (1, 1), "output": (1, 3), "bias": 3}
        arrays = {name: np.zeros(size, np.float32) for name, size in sizes.items()}
        alphabet = arrays.pop("alphabet").astype(np.int32)
        super().__init__(("deu_Latn", "eng_Latn", "und"), alphabet, **arrays)

    def probabilities(self, lines):
        rows = [[0.0, 1.0, 0.0] if "one" in line else [1.0, 0.0, 0.0] for line in lines]
        return np.array(rows, np.float32).reshape(-1, 3)


def test_the_source_language_is_compared_with_the_whole_text_only(translator):
    translator = dataclasses.replace(translator, identifier=OneIsEnglish())
    lines = ["eins zwei drei vier", "vier drei zwei eins", "one two three four"]
    options = {"decoding": GREEDY, "source": "de"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        *good, bad = retry.translate(translator, lines, CALIBRATION, **options)
        good = [line._replace(risk=line.risk._replace(flags=())) for line in good]
        bad = bad._replace(risk=bad.risk._replace(flags=("copy",)))
        sure = dataclasses.replace(CALIBRATION, risky=0.0)
        assert len(retry.again(translator, [*good, bad], sure, **options)) == 3
        detected = options | {"source": "auto"}
        assert list(retry.translate(translator, lines, ALL_RISKY, retry=True, **detected))
    with pytest.warns(UserWarning, match="most of the text looks like English") as found:
        list(retry.translate(translator, lines[2:], ALL_RISKY, retry=True, **options))
    assert len(found) == 1


def test_another_decoding_than_that_of_the_calibration_gives_a_warning(translator):
    other = dataclasses.replace(CALIBRATION, decode="beam:4|alpha:0.8")
    with pytest.warns(UserWarning, match="for the decoding beam:4.alpha:0.8, not beam:1"):
        list(retry.translate(translator, LINES[:1], other, decoding=GREEDY))


@pytest.mark.filterwarnings("error")
def test_the_split_of_lines_is_no_other_decoding(translator):
    same = dataclasses.replace(CALIBRATION, decode=str(GREEDY))
    by_sentence = dataclasses.replace(GREEDY, split="sentences")
    assert list(retry.translate(translator, LINES[:1], same, decoding=by_sentence))


def test_samples_are_translated_again_by_a_search(translator):
    sampled = Decoding(beam=1, temperature=1.0, top_k=5, top_p=0.9)
    lines = list(retry.translate(translator, LINES, ALL_RISKY, decoding=sampled, retry=True))
    assert [line.source for line in lines] == LINES


def test_a_term_of_the_glossary_may_occur_twice(translator):
    glossary = Glossary.parse("drei\teins zwei drei vier\n")
    short = dataclasses.replace(GREEDY, max_length_ratio=1.0)
    options = {"decoding": short, "glossary": glossary, "retry": True}
    (line,) = retry.translate(translator, ["drei drei"], ALL_RISKY, **options)
    assert line.text.lower().count("eins zwei drei vier") >= 2


def test_an_alternative_has_the_tokens_of_its_own_pieces_of_pieces():
    def found(source, *texts):
        tokens = [Hypothesis(text, -1.0, (text,), (-1.0,)) for text in texts]
        return Translation(source, tuple(tokens))

    sentence = join("a b", [found("a", "A1", "A2"), found("b", "B1", "B2")])
    texts = tuple(Hypothesis(f"{each.text} {{x}}", -1.0) for each in sentence.hypotheses)
    line = Translation("a b {x}", texts, (sentence,))  # around a placeholder
    for rank, only in enumerate(retry._each(line), 1):
        (piece,) = only.pieces
        assert only.text == f"A{rank} B{rank} {{x}}"
        parts = [[hypothesis.tokens for hypothesis in part.hypotheses] for part in piece.pieces]
        assert parts == [[(f"A{rank}",)], [(f"B{rank}",)]]
