"""The tables for programs: full precision, and every score with its recipe."""

from statistics import fmean

import pytest

from eval.records import analysis
from eval.records.analysis_index import AnalysisIndex
from eval.report import csv_tables, micro
from eval.report.comparison import compare
from tests.helpers.made_up import made_up
from tests.helpers.report_rows import baseline, row

LANGUAGES = ("deu_Latn", "swh_Latn")
NOTHING = AnalysisIndex([])


@pytest.fixture(scope="module")
def whole():
    """A comparison with every kind of analysis."""
    rows, analyses = made_up(12)
    return compare(rows)[0], AnalysisIndex(analyses)


def test_records_carry_the_recipe_and_full_precision(whole):
    (comparison,) = compare([row(bleu=45.6789), baseline(bleu=40.0)])
    (record,) = csv_tables.records(comparison, NOTHING)
    assert record["multi BLEU"] == 45.6789 and record["multi ΔBLEU"] == 5.6789
    assert record["multi checkpoint"] == "multi/1" and record["baseline checkpoint"] == "bi/1"
    assert record["baseline system"] == "bilingual" and record["multi bleu_signature"] == "13a"
    assert record["counts in means"] == 1 and record["multi p_bootstrap"] is None
    assert record["multi hypotheses"] is record["multi testset_version"] is None
    assert "multi ter_signature" not in record
    (scored,) = compare([row(ter=9.0, ter_signature="tercom"), baseline()])
    (record,) = csv_tables.records(scored, NOTHING)
    assert (record["multi ter_signature"], record["baseline ter_signature"]) == ("tercom", None)
    (versioned,) = compare([row(testset_version="v1")])
    assert csv_tables.records(versioned, NOTHING)[0]["multi testset_version"] == "v1"
    record = csv_tables.records(*whole)[0]
    entry = whole[0].entries[0]
    assert record["moe hypotheses"] == f"moe-{entry.language.code}"
    assert record["moe BLEU low"] < record["moe BLEU"] < record["moe BLEU high"]
    assert record["moe ΔBLEU low"] < record["moe ΔBLEU"] and "moe copies" in record
    assert all(isinstance(value, str | int | float | None) for value in record.values())



def test_means_for_programs_are_those_of_the_groups(whole):
    comparison, index = whole
    records = csv_tables.means(comparison, index)
    whole_of = {r["system"]: r for r in records if r["by"] == "all"}
    assert set(whole_of) == set(comparison.systems)
    assert whole_of["moe"]["delta"] == pytest.approx(comparison.all.delta("moe"), abs=1e-4)
    pooled = micro.delta(comparison.all, "moe", index)
    written = [whole_of["moe"][f"delta micro{end}"] for end in ("", " low", " high")]
    assert written == pytest.approx([pooled.value, *pooled.range], abs=1e-4)
    ours, base = (whole_of["moe"][f"{name}bleu micro"] for name in ("", "baseline "))
    assert ours - base == pytest.approx(written[0], abs=2e-4)
    bare = csv_tables.means(comparison, AnalysisIndex([]))
    assert bare[0]["bleu"] and bare[0]["bleu micro"] is bare[0]["delta micro"] is None
    less = [e.rows["moe"].bleu - e.rows["dense"].bleu for e in comparison.all.entries]
    assert whole_of["moe"]["bleu less dense"] == pytest.approx(fmean(less), abs=1e-4)
    assert whole_of["dense"]["bleu less moe"] == pytest.approx(-fmean(less), abs=1e-4)
    for kind in ("resource", "script", "family"):
        here = [r for r in records if r["by"] == kind and r["system"] == "moe"]
        assert sum(r["languages"] for r in here) == whole_of["moe"]["languages"] == 11


def test_means_have_spbleu_and_ter_where_rows_do(whole):
    more = {"spbleu_signature": "flores200", "ter_signature": "tercom"}
    rows = [row(spbleu=30.0, ter=60.0, **more), baseline(spbleu=20.0, ter=75.0, **more)]
    record = csv_tables.means(compare(rows)[0], AnalysisIndex([]))[0]
    assert [record[name] for name in ("spbleu", "spbleu_delta", "ter", "ter_delta")] == [
        30, 10, 60, -15,
    ]  # fmt: skip
    assert not {"spbleu", "ter_delta low"} & set(csv_tables.means(*whole)[0])


def test_every_two_systems_are_compared_language_by_language():
    codes = (*LANGUAGES, "zul_Latn")
    rows = [row(source=code, bleu=30.0 + place, sentences=99 + place)
            for place, code in enumerate(codes)]  # fmt: skip
    rows += [row(system=name, source=code, bleu=28.0, sentences=99 + place) for place, code in
             enumerate(LANGUAGES) for name in ("other", "T:1", "T:5", "T:9")]  # fmt: skip
    key = {name: getattr(rows[0], name) for name in analysis.Interval.about}
    test = analysis.Paired(
        **key, against="other", against_checkpoint=row().checkpoint, delta=2.0, delta_low=0.5,
        delta_high=3.5, p_bootstrap=0.01, p_randomization=0.02, chrf_delta=0.0, resamples=9,
        seed=0, hypotheses="x", against_hypotheses="y",
    )  # fmt: skip
    (comparison,) = compare(rows)
    records = csv_tables.pairs(comparison, AnalysisIndex([test]))
    assert [(r["system"], r["less"], r["Code"]) for r in records] == [
        (system, other, code)
        for system, other in (
            ("multi", "other"), ("T:1", "T:5"), ("T:1", "T:9"), ("T:5", "T:9"),
            *((varied, other) for varied in ("T:1", "T:5", "T:9") for other in ("multi", "other")),
        ) for code in LANGUAGES
    ]
    tested, untested = records[:2]
    assert (tested["BLEU difference"], tested["low"], tested["high"]) == (2, 0.5, 3.5)
    assert (tested["p_bootstrap"], tested["p_randomization"]) == (0.01, 0.02)
    assert untested["BLEU difference"] == 3 and untested["low"] is untested["p_bootstrap"] is None
    assert [r["counts in means"] for r in records[:2]] == [0, 1], "German has 99 sentences"
    assert not csv_tables.pairs(compare(rows[:3])[0], AnalysisIndex([test]))
