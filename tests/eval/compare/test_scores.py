"""Scores of two runs: differences, tests and their correction, and what is left out."""

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from eval.analyses import significance
from eval.compare import compared_run, scores
from eval.records import analysis, results
from mmt.run import Run
from tests.eval.compare.conftest import add_scores
from tests.helpers.translations import texts

GERMAN = {"deu_Latn": 0.4}


def compare(*directories):
    return scores.compare(*compared_run.read(list(directories)))


def test_differences_are_those_of_sacrebleu(made_run):
    made = compare(made_run("a", scores=GERMAN), made_run("b", scores={"deu_Latn": 0.1}, seed=2))
    (of_set,) = made.comparisons
    (row,) = of_set.languages
    (worse, references), (better, _) = texts(1, 0.4), texts(2, 0.1)
    for metric, found in ((BLEU(), row.delta), (CHRF(word_order=2), row.chrf_delta)):
        ours = metric.corpus_score(better, [references]).score
        theirs = metric.corpus_score(worse, [references]).score
        assert found == pytest.approx(ours - theirs, abs=2e-4)
    assert row.verdict == "better" and row.low < row.delta < row.high
    assert (of_set.testset, of_set.decode, row.sentences) == ("made-up", "beam:4", 60)
    assert not made.left_out


def test_a_p_value_by_hand(made_run):
    """Approximate randomisation of BLEU, from sacreBLEU's sentence counts, one trial at a time."""
    made = compare(made_run("a", scores=GERMAN), made_run("b", scores={"deu_Latn": 0.36}, seed=2))
    row = made.comparisons[0].languages[0]
    (ours, references), (theirs, _) = texts(1, 0.4), texts(2, 0.36)
    bleu = BLEU(references=[references])
    counts = [np.array(bleu._extract_corpus_statistics(h, None)) for h in (ours, theirs)]

    def score(sums):
        return bleu._compute_score_from_stats(sums.tolist()).score

    seen = abs(score(counts[0].sum(0)) - score(counts[1].sum(0)))
    rng = np.random.default_rng(7)
    above = 0
    for _ in range(2000):
        swap = rng.random(len(references)) < 0.5
        first = np.where(swap[:, None], counts[1], counts[0]).sum(0)
        second = np.where(swap[:, None], counts[0], counts[1]).sum(0)
        above += abs(score(first) - score(second)) > seen
    assert above / 2000 == pytest.approx(row.p, abs=0.06)
    assert row.p > 0.05 and row.verdict == "tie"


def test_the_correction_is_that_of_benjamini_and_hochberg():
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.uniform(0, 0.01, 30), rng.uniform(0, 1, 78)])
    order = np.argsort(p)
    ranked = p[order] * len(p) / np.arange(1, len(p) + 1)
    by_hand = np.empty_like(p)
    by_hand[order] = np.minimum.accumulate(ranked[::-1])[::-1].clip(max=1)
    np.testing.assert_allclose(significance.corrected(p.tolist()), by_hand)
    assert significance.corrected([]) == []


def test_many_languages_are_corrected_together(made_run):
    noises = {"deu_Latn": 0.1, "fra_Latn": 0.3, "swh_Latn": 0.34, "wol_Latn": 0.6}
    made = compare(made_run("a", scores=dict.fromkeys(noises, 0.3)),
                   made_run("b", scores=noises, seed=2))  # fmt: skip
    (of_set,) = made.comparisons
    assert [one.source for one in of_set.languages][0] == "deu_Latn"
    assert of_set.languages[-1].source == "wol_Latn"
    p, q = (np.array([getattr(one, name) for one in of_set.languages]) for name in "pq")
    np.testing.assert_allclose(q, significance.corrected(p.tolist()))
    assert (q >= p).all() and (q > p).any()
    counted = {verdict: of_set.count(verdict) for verdict in ("better", "worse", "tie")}
    assert counted == {"better": 1, "worse": 1, "tie": 2}
    assert [one.source for one in of_set.most(1)][0] == "deu_Latn"
    assert [one.source for one in of_set.most(-1)][0] == "wol_Latn"


def test_equal_outputs_are_a_tie(made_run):
    (row,) = compare(made_run("a", scores=GERMAN), made_run("b", scores=GERMAN)).comparisons[
        0
    ].languages
    assert (row.delta, row.p, row.q, row.verdict) == (0, 1, 1, "tie")


def test_without_counts_a_difference_is_not_tested(made_run):
    made = compare(made_run("a", scores=GERMAN), made_run("b", scores=GERMAN, counted=False))
    (row,) = made.comparisons[0].languages
    assert row.p is None and row.verdict == "untested"


def test_counts_of_other_texts_are_not_used(made_run):
    first, other = made_run("a", scores=GERMAN), made_run("b", scores=GERMAN)
    (counts,) = analysis.read(other / "analysis.jsonl")
    (row,) = results.read_rows(other / "results.jsonl")
    text = (other / "results.jsonl").read_text()
    (other / "results.jsonl").write_text(text.replace(str(row.bleu), str(row.bleu + 1)))
    assert counts.sentences == row.sentences
    assert compare(first, other).comparisons[0].languages[0].verdict == "untested"


def test_a_stored_test_is_used(made_run, monkeypatch):
    first, other = made_run("a", scores=GERMAN), made_run("b", scores={"deu_Latn": 0.1}, seed=2)
    fresh = compare(first, other)
    runs = compared_run.read([first, other])
    judged = [
        scores._judged(run.scores.rows[0], run.scores.counts[run.scores.rows[0].key])
        for run in runs
    ]
    analysis.add(other / "analysis.jsonl", [significance.paired(judged[1], judged[0])])
    monkeypatch.setattr(significance, "paired", None)
    assert compare(first, other) == fresh


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"testset_version": "v2"}, "other version of the test set: v1 and v2"),
        ({"sentences": 61, "counted": False}, "other number of sentences: 60 and 61"),
        ({"bleu_signature": "tok:zh"}, "other bleu_signature"),
        ({"decode": "beam:1"}, "only a has decoding beam:4"),
    ],
)
def test_what_is_not_equal_is_left_out_and_named(changes, reason, made_run):
    first = made_run("a", scores=GERMAN | {"fra_Latn": 0.2}, testset_version="v1")
    other = made_run("b", scores={"fra_Latn": 0.2, "swh_Latn": 0.1}, testset_version="v1")
    add_scores(Run(other), "deu_Latn", 0.2, **{"testset_version": "v1"} | changes)
    made = compare(first, other)
    assert [one.source for one in made.comparisons[0].languages] == ["fra_Latn"]
    left = {part.reason: part.languages for part in made.left_out["made-up"]}
    (why,) = [found for found in left if found.startswith(reason)]
    assert left[why] == ("deu_Latn-eng_Latn",)
    assert left["a has no row"] == ("swh_Latn-eng_Latn",)


def test_rows_of_an_older_training_are_reported(made_run):
    first = made_run("a", scores=GERMAN, weights="f0")
    other = made_run("b", scores=GERMAN | {"fra_Latn": 0.2}, weights="f0")
    add_scores(Run(first), "fra_Latn", 0.2, weights="f1", config="c")
    add_scores(Run(first), "swh_Latn", 0.2, weights="f2")  # not compared
    (part,) = compare(first, other).comparisons
    start = "The rows of a on made-up, beam:4, have more than one"
    assert part.notes == (
        f"{start} config: abc (1), c (1)", f"{start} hash of weights: f0 (1), f1 (1)",
    )  # fmt: skip
    assert not compare(other, made_run("d", scores=GERMAN)).comparisons[0].notes


def test_an_unknown_version_needs_equal_references(made_run):
    first, other = made_run("a", scores=GERMAN, testset_version="v1"), made_run("b", scores=GERMAN)
    assert compare(first, other).comparisons
    (other / "analysis.jsonl").unlink()
    made = compare(first, other)
    assert not made.comparisons
    assert made.left_out["made-up"][0].reason == "other version of the test set: v1 and ?"


def test_languages_of_only_one_run_are_compared_separately(made_run):
    """As of a model and its extension: the old languages' mean shows what is forgotten."""
    old = dict.fromkeys(("deu_Latn", "fra_Latn", "swh_Latn"), 0.3)
    first = made_run("parent", codes=tuple(old), scores=old | {"kat_Geor": 0.9})
    other = made_run("grown", codes=(*old, "kat_Geor"), scores=old | {"kat_Geor": 0.2}, seed=2)
    both, alone = compare(first, other).comparisons
    assert {one.source for one in both.languages} == set(old) and not both.only
    assert [one.source for one in alone.languages] == ["kat_Geor"] and alone.only == "grown"
    assert alone.title == "made-up, languages only of grown"
    assert both.interval is None  # of three languages
    alone_q = alone.languages[0].q
    assert alone_q == alone.languages[0].p  # not corrected for the old ones


def test_the_mean_of_many_languages_has_an_interval(made_run):
    codes = ("deu_Latn", "fra_Latn", "swh_Latn", "wol_Latn", "yor_Latn", "zul_Latn")
    first = made_run("a", codes=codes, scores=dict.fromkeys(codes, 0.3))
    noises = dict(zip(codes, (0.1, 0.2, 0.25, 0.3, 0.35, 0.4), strict=True))
    (made,) = compare(first, made_run("b", codes=codes, scores=noises, seed=2)).comparisons
    assert made.interval.low < made.mean("delta") < made.interval.high
