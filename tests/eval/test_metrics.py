"""Scores: sacreBLEU's, with its signatures."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
import sentencepiece
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from eval import metrics

ROOT = Path(__file__).resolve().parents[2]
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


def test_signatures_record_the_settings():
    scores = metrics.score(HYPOTHESES, REFERENCES)
    assert "tok:13a" in scores.bleu_signature and "eff:no" in scores.bleu_signature
    assert "nw:2" in scores.chrf_signature
    for signature in (scores.bleu_signature, scores.chrf_signature):
        assert f"version:{sacrebleu.__version__}" in signature


def test_perfect_and_empty_outputs_score_100_and_0():
    assert metrics.score(REFERENCES, REFERENCES).bleu == 100
    assert metrics.score(REFERENCES, REFERENCES).chrf == 100
    assert metrics.score([""] * 3, REFERENCES).bleu == 0


def test_effective_order_is_for_few_short_lines():
    """Two words contain no 4-gram, so plain BLEU cannot distinguish right from wrong."""
    assert metrics.score(["3 hours"], ["3 hours"]).bleu == 0
    scores = metrics.score(["3 hours"], ["3 hours"], effective_order=True)
    assert scores.bleu == pytest.approx(100) and "eff:yes" in scores.bleu_signature


@pytest.mark.parametrize("lines", [(["a"], ["a", "b"]), ([], [])])
def test_unequal_or_no_lines_are_errors(lines):
    with pytest.raises(ValueError, match="hypotheses for"):
        metrics.score(*lines)


def test_other_scores_are_computed_only_on_request():
    plain = metrics.score(HYPOTHESES, REFERENCES)
    assert plain.ter is plain.ter_signature is plain.spbleu is plain.spbleu_signature is None
    scores = metrics.score(HYPOTHESES, REFERENCES, also=metrics.Metrics(ter=True))
    assert scores.ter == pytest.approx(
        sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES]).score, abs=1e-4
    )
    assert scores.ter_signature.startswith("nrefs:1|case:lc|tok:tercom|")
    assert scores.bleu == plain.bleu and scores.spbleu is None
    signatures = metrics.signatures(metrics.Metrics(ter=True))
    assert signatures["ter_signature"] == scores.ter_signature
    assert signatures["spbleu_signature"] is None


def test_spbleu_is_that_of_the_command(tmp_path):
    """A made-up SentencePiece model replaces the published one."""
    texts = tmp_path / "text"
    texts.write_text("\n".join(REFERENCES * 9) + "\n")
    (tmp_path / "models").mkdir()
    model = tmp_path / "models/flores200sacrebleuspm"
    sentencepiece.SentencePieceTrainer.train(
        input=str(texts),
        model_prefix=str(model),
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    model.with_name(model.name + ".model").rename(model)
    for name, lines in (("hyp", HYPOTHESES), ("ref", REFERENCES)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    code = (
        "import dataclasses, json; from eval import metrics\n"
        f"scores = metrics.score({HYPOTHESES}, {REFERENCES}, also=metrics.Metrics('flores200'))\n"
        "print(json.dumps(dataclasses.asdict(scores)))"
    )
    command = ["-m", "sacrebleu", tmp_path / "ref", "-i", tmp_path / "hyp", "-w", "4",
               "--tokenize", "flores200"]  # fmt: skip
    ours, theirs = (
        json.loads(
            subprocess.run(
                [sys.executable, *arguments], cwd=ROOT, env=os.environ | {"SACREBLEU": tmp_path},
                check=True, capture_output=True, text=True,
            ).stdout
        )
        for arguments in (["-c", code], command)
    )  # fmt: skip
    assert ours["spbleu"] == theirs["score"] != ours["bleu"]
    assert ours["spbleu_signature"] == theirs["signature"] and "flores200" in theirs["signature"]


def test_a_missing_spbleu_model_is_an_error_at_once(monkeypatch, tmp_path):
    monkeypatch.setattr(metrics, "SACREBLEU_DIR", str(tmp_path))
    with pytest.raises(ValueError) as error:
        metrics.Metrics(spbleu="flores101")
    assert f"{tmp_path}/models/sacrebleu_tokenizer_spm.model" in str(error.value)
    assert "https://" in str(error.value)
    with pytest.raises(ValueError, match="'flores20'; allowed: .*; nearest: flores200"):
        metrics.Metrics(spbleu="flores20")
    with pytest.raises(ValueError, match="ter is 'no'"):
        metrics.Metrics(ter="no")


def test_scores_of_sums_are_sacrebleu_s():
    """Also of sums without a match, without any n-gram of an order, and of nothing."""
    rng = np.random.default_rng(0)
    words = "a king went out to the sea and taught".split()
    bleu, chrf = BLEU(), CHRF(word_order=2)
    for size in (1, 2, 5):
        for hypothesis_words, longest in ((words, 9), (["zzz", "went"], 9), (words, 3), ([""], 2)):
            references = [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(size)]
            hypotheses = [
                " ".join(rng.choice(hypothesis_words, rng.integers(1, longest)))
                for _ in range(size)
            ]
            statistics = metrics.References(references).statistics(hypotheses)
            for ours, metric in (
                (metrics.bleu(statistics.bleu.sum(axis=0)), bleu),
                (metrics.chrf(statistics.chrf.sum(axis=0)), chrf),
            ):
                theirs = metric.corpus_score(hypotheses, [references]).score
                assert float(ours) == pytest.approx(theirs, abs=1e-9)


def test_counts_of_several_languages_make_the_micro_average():
    parts = [(HYPOTHESES, REFERENCES), (REFERENCES, HYPOTHESES)]
    sums = sum(metrics.References(ref).statistics(hyp).bleu.sum(axis=0) for hyp, ref in parts)
    whole = sacrebleu.corpus_bleu(HYPOTHESES + REFERENCES, [REFERENCES + HYPOTHESES]).score
    assert float(metrics.bleu(sums)) == pytest.approx(whole)


@pytest.mark.parametrize("longest", [40, 300])
def test_packed_counts_round_trip(longest):
    rng = np.random.default_rng(0)
    words = [" ".join(map(str, rng.integers(9, size=size))) for size in (0, 1, 2, 3, 7, longest)]
    bleu = metrics.References(list(reversed(words))).statistics(words).bleu
    text = metrics.packed(bleu)
    assert (metrics.unpacked(text, len(words)) == bleu).all()
    assert json.loads(json.dumps(text)) == text and len(json.dumps(text)) == len(text) + 2
    with pytest.raises(ValueError, match="packed holds .* bytes; expected 5 sentences"):
        metrics.unpacked(text, 5)


@pytest.mark.parametrize("text", ["Z", "é", "", '"'])
def test_damaged_counts_are_refused(text):
    with pytest.raises(ValueError, match="cannot be unpacked"):
        metrics.unpacked(text, 3)


def test_counting_needs_equal_numbers_of_lines():
    with pytest.raises(ValueError, match="2 hypotheses for 3 references"):
        metrics.References(REFERENCES).statistics(HYPOTHESES[:2])


def test_words_are_those_that_bleu_sees():
    assert metrics.tokens("He said, \"Go!\" (3.5) “No”") == [
        "He", "said", ",", '"', "Go", "!", '"', "(", "3.5", ")", "“No”",
    ]  # fmt: skip
