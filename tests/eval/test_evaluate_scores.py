"""Scores that are added to an evaluation: from the stored texts, beside those of the row."""

import dataclasses

import pytest
import sentencepiece
from sacrebleu.tokenizers import tokenizer_spm

from eval import evaluate, metrics
from eval.records import results
from tests.eval.test_evaluate import ANSWERS, SYSTEM, TESTSET, Dictionary


@pytest.fixture
def run(tmp_path):
    """A function that evaluates with further scores; nothing is translated but at first."""

    def evaluation(**scores):
        out = tmp_path / "results.jsonl"
        translator, is_first = Dictionary(), not out.exists()
        rows = evaluate.evaluate(
            translator, TESTSET, system=SYSTEM, out=out, scores=metrics.Metrics(**scores)
        )
        assert bool(translator.seen) is is_first
        assert results.read_rows(out) == rows
        return rows

    return evaluation


@pytest.fixture
def model(tmp_path, monkeypatch):
    """The file of a made-up model of spBLEU."""
    for module in (metrics, tokenizer_spm):
        monkeypatch.setattr(module, "SACREBLEU_DIR", str(tmp_path))
    (tmp_path / "models").mkdir()
    file = tmp_path / "models/flores200sacrebleuspm"
    with file.open("wb") as stream:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([*ANSWERS.values()] * 9), model_writer=stream, vocab_size=60,
            hard_vocab_limit=False, minloglevel=2,
        )  # fmt: skip
    return file


def test_a_further_score_keeps_the_others(run, model):
    first = run(ter=True)
    both = run(spbleu="flores200")
    for old, new in zip(first, both, strict=True):
        assert new.spbleu is not None and new.ter is not None
        assert dataclasses.replace(new, spbleu=None, spbleu_signature=None) == old
    assert run(ter=True) == run() == both


def test_spbleu_without_its_model_is_kept_while_it_is_that_of_this_sacrebleu(
    run, model, tmp_path, capsys
):
    first = run(spbleu="flores200")
    model.unlink()
    rows = run(ter=True)
    assert [row.spbleu for row in rows] == [row.spbleu for row in first]
    assert all(row.ter is not None for row in rows)
    assert "spBLEU" not in capsys.readouterr().err

    file = tmp_path / "results.jsonl"
    version = rows[0].bleu_signature.rpartition("|")[2]
    file.write_text(file.read_text().replace(version, "version:1.0"))
    rows = run()
    assert all(row.spbleu is None and row.ter is not None for row in rows)
    assert "3 rows of tiny on phrases no longer have spBLEU" in capsys.readouterr().err
