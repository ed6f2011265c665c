"""Analysis rows are looked up by their whole key."""

import dataclasses

import numpy as np
import pytest

from eval import metrics
from eval.records import analysis
from eval.records.analysis_index import OUTPUT_CHECKS, AnalysisIndex, measured, shares, sure
from eval.report.comparison import compare
from tests.eval.records.test_behaviour import ROW as BEHAVIOUR
from tests.helpers.made_up import made_up


@pytest.fixture(scope="module")
def known():
    """Rows of results, rows of analysis, and the index of the latter."""
    rows, analyses = made_up(4, ("moe",))
    return rows, analyses, AnalysisIndex(analyses)


def test_a_row_finds_its_analyses(known):
    rows, _, index = known
    for row in rows:
        for about in (index.interval, index.output_checks, index.train_overlap):
            expected = about(row)
            assert all(getattr(expected, name) == getattr(row, name) for name in expected.about)
        later = dataclasses.replace(row, checkpoint="moe/6000")
        assert index.interval(later) is index.output_checks(later) is None
    assert index.interval(None) is None
    entry = compare(rows)[0].entries[0]
    assert index.paired(entry.rows["moe"], entry.baseline).source == entry.language.code
    assert index.paired(entry.baseline, entry.rows["moe"]) is None
    assert (
        index.testset_quality("verses", entry.language.code, "eng_Latn").mark in analysis.MARKS
    )
    assert index.testset_quality("news", entry.language.code, "eng_Latn") is None


@pytest.mark.parametrize(
    ("domain", "licence", "expected"),
    [("news", "", "news"), ("", "CC0", "licence: CC0"), ("a, b", "CC0", "a, b; licence: CC0")],
)
def test_a_test_set_s_domain_and_licence_as_far_as_known(domain, licence, expected):
    texts = analysis.TestsetDescription(
        testset="set", target="eng_Latn", domain=domain, licence=licence
    )
    assert AnalysisIndex([texts]).texts("set", "eng_Latn") == expected
    assert AnalysisIndex([texts]).texts("set", "fra_Latn") == ""
    cited = dataclasses.replace(texts, citation="Numbers, 2019")
    assert AnalysisIndex([cited]).texts("set", "eng_Latn") == f"{expected}; cite: Numbers, 2019"


def test_the_last_of_equal_keys_counts(known):
    rows, analyses, _ = known
    others = [item for item in analyses if item.kind != "interval"]
    old = next(item for item in others if item.kind == "guards")
    new = dataclasses.replace(old, empty=0.5)
    row = next(item for item in rows if item.key == old.key[1:])
    assert AnalysisIndex([*others, new]).output_checks(row).empty == 0.5


def test_what_is_about_other_texts_than_the_score_s_is_left_out(known):
    rows, analyses, index = known
    row = rows[0]
    interval = index.interval(row)
    key = {name: getattr(row, name) for name in analysis.Comet.about}
    comet = analysis.Comet(**key, score=0.9, model="m", hypotheses=interval.hypotheses)
    assert AnalysisIndex([*analyses, comet]).comet(row) == comet and index.output_checks(row)
    stale = dataclasses.replace(comet, hypotheses="of another translation")
    assert AnalysisIndex([*analyses, stale]).comet(row) is None
    guards = dataclasses.replace(index.output_checks(row), hypotheses="of another translation")
    assert AnalysisIndex([*analyses, guards]).output_checks(row) is None
    later = dataclasses.replace(row, bleu=row.bleu + 40)  # its interval is of other texts too
    assert AnalysisIndex([*analyses, comet]).comet(later) is index.output_checks(later) is None
    assert index.hypotheses(row) == interval.hypotheses
    assert index.hypotheses(later) is index.hypotheses(None) is None
    without = AnalysisIndex([item for item in analyses if item.kind != "interval"])
    assert without.hypotheses(row) == interval.hypotheses, "that of the counts"
    assert AnalysisIndex([comet]).comet(later) == comet  # nothing says of which texts the score is


def test_broken_outputs_and_such_without_a_match(known):
    rows, _, _ = known
    key = {name: getattr(rows[0], name) for name in analysis.OutputChecks.about}
    shares = dict.fromkeys(("copies", "empty", "short", "long", "not_english"), 0.1)
    for looping, recited, broken in ((0.5, 0.0, True), (0.49, 1.0, False)):
        guards = analysis.OutputChecks(
            **key, **shares, looping=looping, recited=recited, sentences=80, hypotheses="x"
        )
        assert AnalysisIndex([guards]).broken(rows[0]) is broken
    counts = np.array([[9, 9, 5, 3, 1, 0, 9, 8, 7, 6], [9, 9, 5, 3, 1, 0, 9, 8, 7, 6]])
    for fours, matchless in ((0, True), (1, False)):
        counts[1, 5] = fours
        sentences = analysis.SentenceCounts(
            **key, packed=metrics.packed(counts), sentences=2, hypotheses="x", references="y"
        )
        assert AnalysisIndex([sentences]).matchless(rows[0]) is matchless
        assert AnalysisIndex([sentences]).sums(rows[0]) is None  # of another BLEU
    assert AnalysisIndex([]).broken(rows[0]) is AnalysisIndex([]).matchless(rows[0]) is None


def test_remarks_are_shown_for_any_system():
    remarks = [analysis.Remark(title=name, text="b", system=name.strip("a")) for name in "ab"]
    assert AnalysisIndex(remarks).remarks == remarks


def test_overlap_of_other_texts_than_the_interval_is_left_out(known):
    rows, analyses, index = known
    old = index.train_overlap(rows[0])
    new = dataclasses.replace(old, hypotheses="of another translation")
    assert old and AnalysisIndex([*analyses, new]).train_overlap(rows[0]) is None


def test_systems_have_costs_recipes_and_curves(known):
    rows, _, index = known
    assert len(index.costs("moe")) == 1 and len(index.costs("bilingual")) == 4
    assert len(index.recipes("bilingual")) == 4 and not index.costs("other")
    assert index.curve("moe").system == "moe" and index.curve("bilingual") is None
    assert set(index.systems("cost")) == {"moe", "bilingual"}
    bilingual = rows[-1]
    cost = next(c for c in index.costs("bilingual") if c.source == bilingual.source)
    assert index.epochs(bilingual) == cost.epochs[bilingual.source]


def test_a_system_needs_its_parents_training_too():
    def made(system, teacher, initial=""):
        recipe = analysis.SystemRecipe(
            system=system, config="c", text="", seed=0, versions={}, teacher=teacher,
            initial=initial,
        )  # fmt: skip
        cost = analysis.Cost(
            system=system, steps=1, tokens=1.0, seconds=1.0, devices=1, device="core",
            parameters=1, active_parameters=1, device_hours=1.0, epochs={},
        )  # fmt: skip
        return [recipe, cost]

    rows = [*made("large", ""), *made("middle", "large"), *made("small", "middle")]
    rows += [*made("tuned", "", "small"), *made("both", "large", "middle"), *made("own", "", "own")]
    index = AnalysisIndex(rows)
    assert [*index.parent_costs("small")] == ["middle", "large"]
    assert [*index.parent_costs("tuned")] == ["small", "middle", "large"]
    assert [*index.parent_costs("both")] == ["large", "middle"]
    assert all(cost.system == name for name, cost in index.parent_costs("tuned").items())
    assert not index.parent_costs("large") and not index.parent_costs("other")
    assert not index.parent_costs("own")
    assert len(AnalysisIndex([*made("a", "b"), *made("b", "a")]).parent_costs("a")) == 1
    published = AnalysisIndex([*made("student", "tuned"), *made("tuned", "", "int8")])
    assert published.parent_costs("student") == {"tuned": published.costs("tuned")[0], "int8": None}


def test_routing_is_that_of_the_scored_checkpoint_or_the_last():
    old = analysis.ExpertLoad(
        system="moe", checkpoint="moe/1", testset="bible", layer="encoder.1", source="deu_Latn",
        load=(0.5, 0.5), drop_rate=0.0, entropy=1.0, tokens=9,
    )  # fmt: skip
    new = dataclasses.replace(old, checkpoint="moe/2")
    index = AnalysisIndex([old, new])
    assert index.routing("moe", ["moe/1"]) == [old]
    assert index.routing("moe", ["moe/7"]) == [new]
    assert index.routing("dense", ["moe/1"]) == []


def test_routing_is_on_the_test_set_of_most_languages():
    news, bible, more = (
        analysis.ExpertLoad(
            system="moe", checkpoint="moe/1", testset=testset, layer="encoder.1", source=source,
            load=(0.5, 0.5), drop_rate=0.0, entropy=1.0, tokens=9,
        )
        for testset, source in
        [("news", "deu_Latn"), ("bible", "deu_Latn"), ("bible", "zul_Latn")]
    )  # fmt: skip
    assert AnalysisIndex([news, bible, more]).routing("moe", ["moe/1"]) == [bible, more]


def test_both_tests_make_a_difference_significant(known):
    _, analyses, _ = known
    test = next(item for item in analyses if item.kind == "paired")
    for bootstrap, randomization, significant in ((0.01, 0.01, True), (0.01, 0.06, False)):
        item = dataclasses.replace(test, p_bootstrap=bootstrap, p_randomization=randomization)
        assert sure(item) is significant
    assert sure(None) is None


def test_every_output_check_has_a_share_unless_it_is_unknown():
    fields = {field.name for field in dataclasses.fields(analysis.OutputChecks)}
    others = {*analysis.OutputChecks.about, "sentences", "hypotheses"}
    assert {check.name for check in OUTPUT_CHECKS} == fields - others
    assert len({guard.sign for guard in OUTPUT_CHECKS}) == len(OUTPUT_CHECKS)
    _, analyses = made_up(2, ("moe",))
    row = dataclasses.replace(next(o for o in analyses if o.kind == "guards"), recited=None)
    assert [guard.name for guard, _ in shares(row)] == [g.name for g in OUTPUT_CHECKS[:-1]]


def test_measured_points_of_a_curve():
    curve = analysis.Curve(system="a", steps=(0, 1, 2), tokens=(0.0, 5.0, None),
                           seconds=(None,) * 3, loss=(9.0, 8.0, 7.0),
                           validation_loss=(None, None, 7.0), bleu=(None,) * 3)  # fmt: skip
    assert measured(curve, curve.loss) == [(5.0, 8.0)]
    assert measured(curve, curve.validation_loss) == []


def test_behaviours_are_those_of_the_last_checkpoint():
    later = dataclasses.replace(BEHAVIOUR, checkpoint="tiny/200")
    french = dataclasses.replace(BEHAVIOUR, source="fra_Latn")
    assert AnalysisIndex([BEHAVIOUR, french]).behaviour("tiny") == [BEHAVIOUR, french]
    assert AnalysisIndex([BEHAVIOUR, french, later]).behaviour("tiny") == [later]
    assert AnalysisIndex([]).behaviour("tiny") == []
