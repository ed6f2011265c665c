"""Scores: sacreBLEU's, with its signatures."""

import pytest
import sacrebleu

from eval import metrics

REFERENCES = ["Monday, March 1 – Friday, March 5", "3 hours and 20 minutes", "the end of May"]
HYPOTHESES = ["Monday, March 1 - Friday, May 5", "3 hours 20 minutes", "the end of May, 2021"]


def test_scores_are_sacrebleu_s_own():
    scores = metrics.score(HYPOTHESES, REFERENCES)
    assert scores.bleu == pytest.approx(
        sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score, abs=1e-4
    )
    assert scores.chrf == pytest.approx(
        sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES], word_order=2).score, abs=1e-4
    )


def test_signatures_tell_what_was_done():
    scores = metrics.score(HYPOTHESES, REFERENCES)
    assert "tok:13a" in scores.bleu_signature and "eff:no" in scores.bleu_signature
    assert "nw:2" in scores.chrf_signature
    for signature in (scores.bleu_signature, scores.chrf_signature):
        assert f"version:{sacrebleu.__version__}" in signature


def test_perfect_and_empty():
    assert metrics.score(REFERENCES, REFERENCES).bleu == 100
    assert metrics.score(REFERENCES, REFERENCES).chrf == 100
    assert metrics.score([""] * 3, REFERENCES).bleu == 0


def test_effective_order_is_for_few_short_lines():
    """No 4-gram fits into two words, so plain BLEU cannot tell right from wrong."""
    assert metrics.score(["3 hours"], ["3 hours"]).bleu == 0
    scores = metrics.score(["3 hours"], ["3 hours"], effective_order=True)
    assert scores.bleu == pytest.approx(100) and "eff:yes" in scores.bleu_signature


@pytest.mark.parametrize("lines", [(["a"], ["a", "b"]), ([], [])])
def test_unequal_or_no_lines(lines):
    with pytest.raises(ValueError, match="hypotheses for"):
        metrics.score(*lines)
