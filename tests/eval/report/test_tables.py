"""Tables of scores: a value under every column, written for people and whole for programs."""

import statistics

import pytest

from eval.analyses.mean_interval import mean_interval
from eval.records.analysis_index import OUTPUT_CHECKS, AnalysisIndex
from eval.report import micro, tables
from eval.report.comparison import by_resource, compare
from tests.helpers.made_up import made_up
from tests.helpers.report_rows import baseline, by_heading, row, seven

NOTHING = AnalysisIndex([])


@pytest.fixture
def compared():
    """Seven languages in two multilingual systems, four of them with a baseline."""
    rows = seven()
    others = [row(system="other", source=r.source, train_pairs=r.train_pairs, bleu=r.bleu + 1)
              for r in rows if r.kind == "multilingual"]  # fmt: skip
    return compare([*rows, *others[:-1]])[0]


@pytest.fixture(scope="module")
def whole():
    """A comparison with every kind of analysis."""
    rows, analyses = made_up(12)
    return compare(rows)[0], AnalysisIndex(analyses)


def test_every_row_has_a_value_under_every_column(compared, whole):
    for comparison, index in ((compared, NOTHING), whole):
        for table in (
            tables.by_language(comparison, index), tables.at_a_glance(comparison, index),
            tables.by_group(comparison, by_resource(comparison.all), "Size"),
            tables.against_each_other(comparison, index),
        ):  # fmt: skip
            assert table.rows
            assert all(len(values) == len(table.columns) for values in table.rows)
            assert len(table.tags) in (0, len(table.rows))


def test_a_language_s_row(compared):
    table = tables.by_language(compared, NOTHING)
    values = by_heading(table, 1)
    assert values["Language"] == "Swahili" and values["Code"] == "swh_Latn"
    assert values["Script"] == "Latin" and values["Train pairs"] == 998
    assert values["multi BLEU"].value == 42 and values["other BLEU"].value == 43
    assert values["baseline BLEU"].value == 40
    assert (values["multi ΔBLEU"].value, values["other ΔBLEU"].value) == (2, 3)
    last = by_heading(table, 3)
    assert last["other BLEU"] is last["other ΔBLEU"] is None
    assert table.reach == (10, 26)
    assert [values[0] for values in table.rows][3:] == ["Hindi", "Russian", "Italian", "Ukrainian"]
    assert "baseline" in table.tags[3] and "baseline" not in table.tags[4], "comparable rows first"
    assert [c.over for c in table.columns if c.kind == "delta"] == ["multi", "other"], "best first"
    unknown = {"multi risks", "multi epochs", "Test set trust", "multi TER"}
    assert not unknown & set(values), "no values"


def test_a_language_s_row_has_its_analyses(whole):
    comparison, index = whole
    entry = comparison.entries[3]
    values = by_heading(tables.by_language(comparison, index), 3)
    scored, base = entry.rows["moe"], entry.baseline
    interval, test = index.interval(scored), index.paired(scored, base)
    assert values["moe BLEU"].range == (interval.bleu_low, interval.bleu_high)
    assert values["moe chrF++"].range == (interval.chrf_low, interval.chrf_high)
    delta = values["moe ΔBLEU"]
    assert delta.range == (test.delta_low, test.delta_high)
    assert delta.sure is (test.p_bootstrap < 0.05) and str(test.p_bootstrap) in delta.tooltip
    guards = index.output_checks(scored)
    assert {g.name: share for g, share in values["moe risks"].shares} == {
        guard.name: getattr(guards, guard.name) for guard in OUTPUT_CHECKS
    }
    assert values["moe epochs"] == index.costs("moe")[0].epochs[scored.source]
    quality = index.testset_quality("verses", scored.source, "eng_Latn")
    assert values["Test set trust"].mark == quality.mark


def test_tags_are_what_a_filter_matches(whole):
    comparison, index = whole
    table = tables.by_language(comparison, index)
    headings = [column.heading for column in table.columns]
    for entry, tags, values in zip(comparison.entries, table.tags, table.rows, strict=True):
        words = tags.split()
        delta = entry.delta(comparison.primary_system)
        assert ("up" in words) is (delta > 0) and ("down" in words) is (delta <= 0)
        assert ("small" in words) is (entry.sentences < 100)
        assert ("surely-up" in words) is (delta > 1.5) and "baseline" in words
        risks = dict(zip(headings, values, strict=True))[f"{comparison.primary_system} risks"]
        assert ("risky" in words) is bool(risks.marked)
    sizes = [sum(word in tags.split() for tags in table.tags) for word in ("high", "mid", "low")]
    assert sizes == [3, 5, 3]


def test_narrowed_tables_have_intervals_of_the_primary_system_alone():
    rows, found = made_up(12, ("a", "b", "c", "d"))
    comparison, analyses = compare(rows)[0], AnalysisIndex(found)
    primary, names = comparison.primary_system, list(comparison.systems)
    assert tables.is_wide(comparison)
    whole = tables.by_language(comparison, analyses)
    few = tables.narrowed(whole, comparison)
    full, kept = by_heading(whole, 3), by_heading(few, 3)
    assert not any(heading.endswith(("epochs", "Script", "Family")) for heading in kept)
    for name in names:
        for score in ("ΔBLEU", "BLEU", "chrF++"):
            estimate = kept[f"{name} {score}"]
            assert estimate.value == full[f"{name} {score}"].value
            assert (estimate.range is not None) is (name == primary and score == "ΔBLEU")
    groups = tables.by_group(comparison, comparison.by(lambda lang: lang.script), "Script")
    means = by_heading(tables.narrowed_means(groups, comparison), 0)
    assert "Script" in means and f"{primary} chrF++" in means
    assert all(f"{name} ΔBLEU" in means for name in names)
    assert not any(f"{name} BLEU" in means for name in names if name != primary)


def test_a_group_s_row(compared):
    values = by_heading(tables.by_group(compared, [compared.all], "Size"), 0)
    assert values["Languages"] == 7 and values["with baseline"] == 4
    assert values["multi BLEU"].value == 43 and values["multi ΔBLEU"].value == 8
    assert values["multi BLEU"].range == mean_interval(range(40, 47))
    assert values["multi ΔBLEU"].range is values["baseline BLEU"].range is None  # of four
    assert values["baseline BLEU"].value == 35


def test_systems_at_a_glance(whole):
    comparison, index = whole
    table = tables.at_a_glance(comparison, index)
    means = [values[1].value for values in table.rows]
    assert means == sorted(means, reverse=True), "the best first"
    names = [values[0] for values in table.rows]
    deltas = [e.delta("moe") for e in comparison.entries if e.sentences >= 100]
    values = by_heading(table, names.index("moe"))
    assert values["Mean ΔBLEU"].value == pytest.approx(statistics.fmean(deltas))
    assert values["Languages up"] == f"{sum(d > 0 for d in deltas)} of {len(deltas)}"
    assert values["significantly up"] == sum(d > 1.5 for d in deltas)
    assert values["significantly down"] == sum(d < -1.5 for d in deltas)
    best = max(statistics.fmean(comparison.all.deltas(s)) for s in comparison.systems)
    mine = statistics.fmean(deltas)
    assert values["Share of ΔBLEU of the best"] == pytest.approx(mine / best)
    assert values["Share of ΔBLEU of its teacher"] is None
    pooled = micro.bleu(comparison.all, "moe", index)
    assert (values["BLEU micro"].value, values["BLEU micro"].range) == pooled
    assert values["ΔBLEU micro"].value < values["BLEU micro"].value
    assert "BLEU micro" not in by_heading(tables.at_a_glance(comparison, NOTHING), 1)
    student = by_heading(table, names.index("student"))
    share = comparison.all.delta("student") / mine
    assert student["Share of ΔBLEU of its teacher"] == pytest.approx(share)
    assert values["Device-hours"] == index.costs("moe")[0].device_hours


def test_a_share_of_delta_is_of_the_languages_of_both():
    """Both have a mean of +4, but in the only language of the second the first has +8."""
    gains = {"deu_Latn": 8.0, "swh_Latn": 2.0, "ita_Latn": 2.0}
    rows = [baseline(source=code, bleu=20.0) for code in gains]
    rows += [row(source=code, bleu=20 + gain) for code, gain in gains.items()]
    rows += [row(system="few", source="deu_Latn", bleu=24.0), row(system="none", source="fra_Latn")]
    (comparison,) = compare(rows)
    table = tables.at_a_glance(comparison, NOTHING)
    shares = {values[0]: by_heading(table, place) for place, values in enumerate(table.rows)}
    shares = {name: values["Share of ΔBLEU of the best"] for name, values in shares.items()}
    assert comparison.primary_system == "multi" and shares == {"multi": 1, "few": 0.5, "none": None}


def test_systems_against_each_other(compared):
    table = tables.against_each_other(compared, NOTHING)
    assert [values[0] for values in table.rows] == ["multi", "other"]
    ours, theirs = table.rows[0][2], table.rows[1][1]
    assert (ours.value, theirs.value) == (-1, 1) and table.rows[0][1] is None
    assert theirs.range == (1, 1) and theirs.tooltip == "6 of 6 languages up"
