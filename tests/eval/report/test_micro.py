"""Micro means: sacreBLEU's own BLEU of the sentences of all languages together."""

import dataclasses
from statistics import fmean

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from eval import metrics
from eval.records import analysis
from eval.records.analysis_index import AnalysisIndex
from eval.report import micro
from eval.report.comparison import compare
from tests.helpers.report_rows import CODES, baseline, row

SIZES = (40, 10, 25, 5, 30, 15, 20)
WORDS = "in the beginning was a word and it went out of all who heard".split()


def judged(make, code, size, wrong, rng):
    """A row, its counts, and its (hypothesis, reference) pairs, a share of whose words is wrong."""
    lines = []
    for _ in range(size):
        reference = rng.choice(WORDS, rng.integers(5, 20)).tolist()
        swap = rng.random(len(reference)) < wrong
        words = zip(reference, swap, strict=True)
        output = ["x" if bad else word for word, bad in words][: rng.integers(4, 30)]
        lines.append((" ".join(output), " ".join(reference)))
    score = make(source=code, sentences=size, bleu=corpus_bleu(lines))
    hypotheses, references = zip(*lines, strict=True)
    counts = analysis.SentenceCounts(
        **{name: getattr(score, name) for name in analysis.SentenceCounts.about}, sentences=size,
        packed=metrics.packed(metrics.References(references).statistics(hypotheses).bleu),
        hypotheses="x", references="y",
    )  # fmt: skip
    return score, counts, lines


def corpus_bleu(lines) -> float:
    hypotheses, references = zip(*lines, strict=True)
    return BLEU().corpus_score(hypotheses, [references]).score


@pytest.fixture(scope="module")
def seven():
    """Rows, counts and lines of a system and, but for the last language, of baselines."""
    rng = np.random.default_rng(3)
    ours = [judged(row, code, size, rng.uniform(0.1, 0.6), rng)
            for code, size in zip(CODES, SIZES, strict=True)]  # fmt: skip
    theirs = [judged(baseline, code, size, rng.uniform(0.1, 0.6), rng)
              for code, size in zip(CODES[:-1], SIZES, strict=False)]  # fmt: skip
    return ours, theirs


def of(rows, counts, score=micro.bleu):
    (comparison,) = compare(rows, allow=["small"])
    return score(comparison.all, "multi", AnalysisIndex(counts))


def test_a_micro_mean_is_the_bleu_of_all_sentences_together(seven):
    ours, theirs = seven
    rows, counts, _ = zip(*ours, *theirs, strict=True)
    everything = corpus_bleu(sum((lines for *_, lines in ours), []))
    both = corpus_bleu(sum((lines for *_, lines in ours[:-1]), []))
    base = corpus_bleu(sum((lines for *_, lines in theirs), []))
    assert of(rows, counts).value == pytest.approx(everything)
    assert of(rows, counts, micro.baseline_bleu).value == pytest.approx(base)
    assert of(rows, counts, micro.delta).value == pytest.approx(both - base)
    assert abs(everything - fmean(each.bleu for each in rows[: len(ours)])) > 0.1, "it is no macro"


def test_orders_without_a_match_are_smoothed_once_for_all_languages():
    rng = np.random.default_rng(0)
    bad = [judged(row, code, 5, 0.9, rng) for code in CODES]
    rows, counts, lines = zip(*bad, strict=True)
    assert not any(metrics.unpacked(c.packed, c.sentences)[:, 5].any() for c in counts)
    assert of(rows, counts).value == pytest.approx(corpus_bleu(sum(lines, [])))


def test_the_interval_resamples_languages(seven):
    ours, theirs = seven
    rows, counts, _ = zip(*ours[:-1], *theirs, strict=True)
    sums = np.array([metrics.unpacked(c.packed, c.sentences).sum(axis=0).astype(int)
                     for c in counts]).reshape(2, -1, 10)  # fmt: skip
    rng, made = np.random.default_rng(8), []
    for _ in range(4000):
        drawn = sums[:, rng.integers(0, sums.shape[1], sums.shape[1])].sum(axis=1)
        mine, base = (
            BLEU.compute_bleu(s[2:6].tolist(), s[6:].tolist(), int(s[0]), int(s[1])).score
            for s in drawn
        )
        made.append((mine, mine - base))
    for score, values in zip((micro.bleu, micro.delta), zip(*made, strict=True), strict=True):
        mean = of(rows, counts, score)
        assert mean.range == of(rows, counts, score).range
        below, above = (np.array(values) < mean.range.low, np.array(values) > mean.range.high)
        assert below.mean() == pytest.approx(0.025, abs=0.01) == above.mean()
        assert mean.range.low < mean.value < mean.range.high
    few, known, _ = zip(*ours[:4], strict=True)
    assert of(few, known).range is None


def test_without_the_counts_of_a_language_there_is_no_micro_mean(seven):
    ours, theirs = seven
    rows, counts, _ = zip(*ours, *theirs, strict=True)
    lacks_baseline, lacks_ours = counts[:-1], counts[1:]
    assert of(rows, lacks_baseline) and of(rows, lacks_ours) is None
    for score in (micro.delta, micro.baseline_bleu):
        assert of(rows, lacks_baseline, score) is None
    assert of(rows, lacks_ours, micro.delta) is None
    assert of(rows[:1], []) is None and of([baseline()], counts) is None
    other = dataclasses.replace(rows[0], bleu=rows[0].bleu + 1)
    assert of([other, *rows[1:]], counts) is None, "counts of other outputs than the score's"
