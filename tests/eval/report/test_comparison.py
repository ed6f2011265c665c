"""Comparing rows: differences, groups, and what may not be compared."""

from statistics import fmean

import numpy as np
import pytest

from eval.report.comparison import by_resource, by_size, compare, sliding
from mmt import languages
from tests.helpers.report_rows import baseline, row, seven


def test_languages_run_from_much_to_little_data_and_ties_by_code():
    rows = [row(source="swh_Latn", train_pairs=5), row(source="ita_Latn", train_pairs=9),
            row(source="deu_Latn", train_pairs=5)]  # fmt: skip
    (comparison,) = compare(rows)
    assert [e.language.code for e in comparison.entries] == ["ita_Latn", "deu_Latn", "swh_Latn"]
    assert compare(rows[::-1])[0].entries == comparison.entries


def test_delta_is_the_difference_and_absent_without_a_baseline():
    (comparison,) = compare(seven())
    deltas = [entry.delta("multi") for entry in comparison.entries]
    assert deltas == [-10, None, 2, None, 14, None, 26]
    assert comparison.all.deltas("multi") == [-10, 2, 14, 26]
    assert comparison.all.delta("multi") == comparison.compared.delta("multi") == 8
    for group in (comparison.all, comparison.compared):
        assert fmean(group.values("multi", "bleu")) == 43
    assert comparison.all.baseline_bleus == [50, 40, 30, 20]
    assert len(comparison.compared.entries) == 4


def test_scores_that_only_some_rows_have_are_averaged_over_these():
    more = {"spbleu_signature": "flores200", "ter_signature": "tercom"}
    rows = [
        row(spbleu=30.0, ter=60.0, **more), baseline(spbleu=20.0, ter=75.0, **more),
        row(source="swh_Latn", spbleu=10.0, ter=90.0, **more), baseline(source="swh_Latn"),
        row(source="ita_Latn"), baseline(source="ita_Latn", spbleu=9.0, ter=9.0, **more),
    ]  # fmt: skip
    (comparison,) = compare(rows)
    expected = {"spbleu": [30, 10], "spbleu_delta": [10], "ter": [60, 90], "ter_delta": [-15]}
    for score, values in expected.items():
        assert comparison.all.values("multi", score) == values
    assert comparison.all.values("other", "spbleu") == []
    assert set(comparison.scores) == {"bleu", "chrf", "delta", "chrf_delta", *expected}
    assert compare([row(), baseline()])[0].scores == ("bleu", "chrf", "delta", "chrf_delta")
    assert compare([row()])[0].scores == ("bleu", "chrf")


def test_few_sentences_stay_out_of_means_unless_asked():
    rows = [row(bleu=10.0), row(source="swh_Latn", bleu=50.0, sentences=99),
            baseline(bleu=5.0), baseline(source="swh_Latn", bleu=5.0, sentences=99)]  # fmt: skip
    (comparison,) = compare(rows)
    assert len(comparison.entries) == 2 and comparison.entries[1].delta("multi") == 45
    assert comparison.all.values("multi", "bleu") == [10]
    assert comparison.compared.deltas("multi") == [5]
    (with_small,) = compare(rows, allow=["small"])
    assert with_small.all.values("multi", "bleu") == [10, 50]
    assert with_small.compared.deltas("multi") == [5, 45]
    assert not compare([row(sentences=9)])[0].all.entries


@pytest.mark.parametrize(
    ("count", "sizes"), [(102, [25, 52, 25]), (108, [26, 56, 26]), (7, [2, 3, 2]), (1, [0, 1, 0])]
)
def test_resources_have_the_shares_of_m4(count, sizes):
    codes = [language.code for language in languages.all_languages()][:count]
    rows = [row(source=code, train_pairs=9000 - place) for place, code in enumerate(codes)]
    (comparison,) = compare(rows)
    groups = by_resource(comparison.all)
    assert [group.name for group in groups] == ["high", "mid", "low"]
    assert [len(group.entries) for group in groups] == sizes
    assert sum((group.entries for group in groups), ()) == comparison.entries


def test_sizes_of_152_languages_are_25_77_and_50():
    codes = [language.code for language in languages.all_languages()][:152]
    rows = [row(source=code, train_pairs=9000 - place) for place, code in enumerate(codes)]
    (comparison,) = compare(rows)
    groups = by_size(comparison.all)
    assert [group.name for group in groups] == ["largest 25", "middle 77", "smallest 50"]
    assert sum((group.entries for group in groups), ()) == comparison.entries
    assert [len(group.entries) for group in by_size(groups[0])] == [4, 13, 8]


def test_the_primary_system_is_the_best_over_the_baselines():
    rows = [row(), row(system="other", bleu=52.0),
            row(system="third", source="swh_Latn", bleu=99.0)]  # fmt: skip
    assert compare(rows)[0].primary_system == "third"
    (comparison,) = compare([*rows, baseline()])
    assert comparison.primary_system == comparison.systems[0] == "other"
    assert compare([baseline()])[0].primary_system is None


def test_a_system_with_a_few_easy_languages_does_not_lead():
    rows = [*seven(), row(system="easy", source="swh_Latn", bleu=99.0)]
    (comparison,) = compare(rows)
    assert len(comparison.all.deltas("easy")) == 1
    assert comparison.systems == ("multi", "easy")
    codes = [entry.language.code for entry in comparison.compared.entries]
    half = [row(system="easy", source=code, bleu=99.0) for code in codes[:2]]
    assert compare([*rows, *half])[0].primary_system == "easy"


def test_ablations_stand_apart_over_the_languages_of_all():
    rows = [row(), row(system="T:1", bleu=1.0), row(system="T:5", bleu=5.0), baseline(bleu=0.0),
            row(system="T:5", source="swh_Latn", bleu=50.0)]  # fmt: skip
    (comparison,) = compare(rows)
    assert comparison.systems == ("multi",) and len(comparison.entries) == 1
    (ablation,) = comparison.ablations
    assert ablation.name == "T" and ablation.systems == ("T:1", "T:5")
    assert [entry.language.code for entry in ablation.entries] == ["deu_Latn"]
    assert ablation.all.delta("T:5") == 5
    assert ablation.references == ("multi",)
    assert ablation.all.delta("multi") == comparison.all.delta("multi")
    assert {r.system for r in (*ablation.used, *ablation.rows)} == {"T:1", "T:5"}
    (alone,) = compare(rows[1:3])
    assert not alone.systems and not alone.entries and alone.ablations[0].systems == ("T:1", "T:5")


def test_groups_by_script_and_family():
    (comparison,) = compare(seven())
    scripts = comparison.by(lambda language: language.script)
    assert [(group.name, len(group.entries)) for group in scripts] == [
        ("Latin", 4), ("Cyrillic", 2), ("Devanagari", 1),
    ]  # fmt: skip
    assert sum(len(group.entries) for group in comparison.by(lambda language: language.family)) == 7


def test_sliding_windows():
    assert sliding([1, 3, 5], 2) == [[1], [1, 3], [3, 5]]
    values = np.random.default_rng(0).normal(size=40)
    means = [np.mean(window) for window in sliding(values.tolist(), 10)]
    assert len(means) == 40
    np.testing.assert_allclose(means[5:36], np.convolve(values, np.ones(10) / 10, "valid"))
    assert means[0] == pytest.approx(values[:5].mean())
    assert means[-1] == pytest.approx(values[-6:].mean())
    assert sliding([], 10) == []


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [("bleu_signature", "zh", "signatures"), ("chrf_signature", "nw:0", "signatures"),
     ("sentences", 111, "versions"), ("testset_version", "b", "versions")],
)  # fmt: skip
def test_what_differs_in_measure_is_compared_only_on_demand(field, value, what):
    rows = [row(testset_version="a"), baseline(**{"testset_version": "a", field: value})]
    with pytest.raises(ValueError) as error:
        compare(rows)
    for part in ("deu_Latn", "'cldr'", "multi/1", "bi/1", field, repr(value), f"--allow {what}"):
        assert part in str(error.value)
    assert compare(rows, allow=[what])[0].entries[0].delta("multi") == 0
    with pytest.raises(ValueError, match="cannot be compared"):
        compare(rows, allow={"signatures", "versions", "small"} - {what})


def test_signatures_are_one_for_all_languages_and_versions_one_for_each():
    with pytest.raises(ValueError, match="bleu_signature"):
        compare([row(), row(source="swh_Latn", bleu_signature="zh")])
    rows = [row(testset_version="a"), row(source="swh_Latn", testset_version="b", sentences=111),
            baseline()]  # fmt: skip
    assert len(compare(rows)[0].entries) == 2, "a row of before there were versions"
    signed = row(spbleu=1.0, spbleu_signature="flores200")
    assert compare([signed, baseline()]), "a score that the other has not is no other score"


def test_allow_is_spelt_right():
    with pytest.raises(ValueError, match="'signature'; allowed: signatures, versions, small"):
        compare([row()], allow=["signature"])


def test_an_old_row_of_another_measure_is_ignored():
    old = row(bleu_signature="old", checkpoint="multi/0")
    (comparison,) = compare([old, row(), baseline()])
    assert comparison.entries[0].rows["multi"] == row()


def test_the_newest_row_counts():
    rows = [row(checkpoint="multi/2", bleu=1.0), row(checkpoint="multi/1", bleu=2.0)]
    (comparison,) = compare(rows)
    assert comparison.used == (rows[1],) and comparison.rows == tuple(rows)


def test_the_best_of_several_baselines_counts():
    rows = [row(), baseline(bleu=30.0), row(system="big", kind="bilingual", bleu=40.0)]
    assert compare(rows)[0].entries[0].baseline == rows[2]


def test_every_test_set_and_target_by_itself():
    rows = [row(), row(testset="ntrex"), row(target="fra_Latn"), baseline(testset="ntrex")]
    comparisons = compare(rows)
    assert [(c.testset, c.target.code) for c in comparisons] == [
        ("cldr", "eng_Latn"), ("ntrex", "eng_Latn"), ("cldr", "fra_Latn"),
    ]  # fmt: skip
    assert [len(c.compared.entries) for c in comparisons] == [0, 1, 0]


def test_a_system_is_of_one_kind():
    with pytest.raises(ValueError, match="'multi' is both multilingual and bilingual"):
        compare([row(), row(kind="bilingual", source="swh_Latn")])
    with pytest.raises(ValueError, match="system is called 'baseline'"):
        compare([row(system="baseline")])
