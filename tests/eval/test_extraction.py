"""Sizes and scores of an extracted model beside the whole one."""

import dataclasses
import types

import pytest

from eval import extraction, metrics
from eval.extraction import (
    BASELINE,
    EXTRACTED,
    ORIGINAL,
    ExtractionScores,
    check_baseline,
    scoring_set,
)
from eval.testsets import Sentences, TestSet
from mmt.data.cache.manifest import Manifest
from mmt.run import Run

INTO_ENGLISH = types.SimpleNamespace(source="", target="eng_Latn")


def scores(*, low=0.5, **bleu):
    """Scores of two languages by model; BLEU of the second is two more. low: of the gain."""
    def of(value):
        return metrics.Scores(value, "", value + 10, "")

    by_model = {name: {"deu": of(value), "swh": of(value + 2)} for name, value in bleu.items()}
    seconds = {ORIGINAL: 3.0, EXTRACTED: 1.5, BASELINE: 1.0}
    sizes = {ORIGINAL: 4_000_000, EXTRACTED: 1_000_000, BASELINE: 1_000_000}
    gain = {}
    if BASELINE in bleu:
        mean = bleu[ORIGINAL] - bleu[BASELINE]
        gain = {"bleu": mean, "bleu_low": low, "bleu_high": mean + 1}
        gain |= {name.replace("bleu", "chrf"): value for name, value in gain.items()}
    return ExtractionScores(
        *({name: table[name] for name in bleu} for table in (sizes, seconds)), 64, by_model, gain
    )


def test_the_share_of_the_gain_is_relative_to_the_baseline():
    made = scores(original=30.0, extracted=27.0, baseline=20.0)
    assert made.mean(EXTRACTED, "bleu") == 28.0
    assert made.kept("bleu") == pytest.approx(0.7)
    text = made.table()
    assert "extracted: 25% of the size, 2.00 times as fast (64 lines)" in text
    assert "the experts' gain: BLEU +10.00 (+0.50 to +11.00), chrF++ +10.00 (" in text
    assert "share of it that is kept: BLEU 70%, chrF++ 70%" in text
    assert "original\t4,000,000\t16.0\t3.00\t31.00\t41.00" in text
    assert "swh\textracted\t29.00\t39.00" in text


def test_there_is_no_share_without_a_gain():
    assert scores(original=30.0, extracted=27.0).kept("bleu") is None
    worse = scores(original=20.1, extracted=20.0, baseline=20.0, low=-0.2)
    assert worse.kept("chrf") is None
    assert "kept: BLEU - (no significant gain)" in worse.table()


def test_the_gain_is_the_difference_of_original_and_baseline():
    references = [f"this is sentence number {n} of all" for n in range(40)]
    better = [text if n % 2 else "this is another one" for n, text in enumerate(references)]
    worse = [text if n % 4 == 1 else "this is another one" for n, text in enumerate(references)]
    sentences = Sentences(references, references)
    testset = TestSet("toy", "eng_Latn", {"deu_Latn": sentences})
    texts = {
        name: {"deu_Latn": of_model}
        for name, of_model in ((ORIGINAL, better), (EXTRACTED, worse), (BASELINE, worse))
    }
    gain = extraction._gain(texts, testset)
    want = metrics.score(better, references).bleu - metrics.score(worse, references).bleu
    assert gain["bleu"] == pytest.approx(want, abs=1e-3)
    assert 0 < gain["bleu_low"] < want < gain["bleu_high"]
    del texts[BASELINE]
    assert extraction._gain(texts, testset) == {}


def test_without_a_test_set_sizes_are_compared():
    made = ExtractionScores({ORIGINAL: 4_000_000, EXTRACTED: 1_000_000}, {}, 0, {})
    assert made.table().splitlines() == [
        "model\tparameters\tMB (float32)", "original\t4,000,000\t16.0",
        "extracted\t1,000,000\t4.0", "extracted: 25% of the size",
    ]  # fmt: skip


def test_a_baseline_must_have_the_languages(tmp_path):
    """Otherwise the gain over it would be that over a model that never saw them."""
    run = Run(tmp_path / "swahili")
    run.checkpoint(1).mkdir(parents=True)
    run.config.write_text("")
    sides = ("source", "target")
    manifest = Manifest(
        "toy", "eng_Latn", ("swh_Latn",), {}, "", dict.fromkeys(sides, ""), dict.fromkeys(sides, 9)
    )
    manifest.write(run.directory)
    check_baseline(run.directory, ["Swahili"])
    with pytest.raises(ValueError, match="the baseline .*swahili: source language deu_Latn"):
        check_baseline(run.directory, ["swh", "deu"])
    dataclasses.replace(manifest, languages=()).write(run.directory)  # of an imported model
    check_baseline(run.directory, ["deu"])
    with pytest.raises(ValueError, match="swahil is no model directory.*nearest: .*swahili"):
        check_baseline(tmp_path / "swahil", ["swh"])


def test_the_corpus_is_the_test_set(toy_corpus, capsys):
    testset = scoring_set(None, str(toy_corpus), ["deu_Latn"], INTO_ENGLISH)
    assert list(testset.languages) == ["deu_Latn"]
    assert scoring_set(None, str(toy_corpus), ["nya_Latn"], INTO_ENGLISH) is None
    assert "no test lines of nya_Latn; --testset" in capsys.readouterr().err
    assert scoring_set(None, None, ["deu_Latn"], INTO_ENGLISH) is None
    assert "names no corpus that is here; --testset" in capsys.readouterr().err
    with pytest.raises(ValueError, match="has no nya_Latn"):
        scoring_set(str(toy_corpus), str(toy_corpus), ["nya_Latn"], INTO_ENGLISH)


def test_a_model_from_one_language_is_not_scored(toy_corpus, capsys):
    from_english = types.SimpleNamespace(source="eng_Latn", target="")
    assert scoring_set(None, str(toy_corpus), ["deu_Latn"], from_english) is None
    assert "no scores: the model translates from eng_Latn" in capsys.readouterr().err
    with pytest.raises(ValueError, match="--testset .*: the model translates from eng_Latn"):
        scoring_set(str(toy_corpus), None, ["deu_Latn"], from_english)


def test_a_test_set_is_into_the_target_of_the_model(tmp_path):
    for language in ("de", "fr"):
        (tmp_path / f"test.{language}").write_text("1\n2\n")
    into_german = types.SimpleNamespace(source="", target="deu_Latn")
    assert scoring_set(str(tmp_path), None, ["fra_Latn"], into_german).target == "deu_Latn"
