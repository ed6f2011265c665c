"""Tables of systems: sums, weighted shares, tokens to a loss, and recipes without repetition."""

import dataclasses
from statistics import fmean

import numpy as np
import pytest

from eval.records import analysis
from eval.records.analysis_index import OUTPUT_CHECKS, AnalysisIndex
from eval.report import system_tables
from eval.report.comparison import compare
from tests.eval.records.test_behaviour import ROW as BEHAVIOUR
from tests.eval.records.test_contrastive import ROW as CONTRASTIVE
from tests.helpers.made_up import made_up
from tests.helpers.report_rows import baseline, by_heading, row, seven

LANGUAGES = ("deu_Latn", "swh_Latn")


@pytest.fixture(scope="module")
def whole():
    rows, analyses = made_up(12)
    return compare(rows)[0], AnalysisIndex(analyses)


def test_costs_of_systems_and_of_all_baselines_together(whole):
    comparison, index = whole
    table = system_tables.costs(comparison, index)
    names = [values[0] for values in table.rows]
    assert names == [*comparison.systems, "bilingual, 12 models"]
    moe, bilingual = by_heading(table, names.index("moe")), by_heading(table, -1)
    assert (moe["Steps"], moe["Steps/s"], moe["Tokens/step"]) == (5000, 2, 20000)
    bleus = [entry.rows["moe"].bleu for entry in comparison.all.entries]
    assert moe["Mean BLEU"].value == pytest.approx(fmean(bleus)) and moe["Mean BLEU"].range
    per_hour = comparison.all.delta("moe") / moe["Device-hours"]
    assert moe["ΔBLEU per device-hour"] == pytest.approx(per_hour)
    student, teacher = by_heading(table, names.index("student")), moe["Device-hours"]
    both = student["Device-hours with its parents"]
    assert both == student["Device-hours"] + teacher and student["System"] == "student"
    per_hour = comparison.all.delta("student") / both
    assert student["ΔBLEU per device-hour"] == pytest.approx(per_hour)
    assert moe["Device-hours with its parents"] is None
    assert bilingual["Parameters"] == 48_000_000 and bilingual["Device-hours"] == 3
    bleus = [entry.baseline.bleu for entry in comparison.all.entries]
    assert bilingual["Mean BLEU"].value == pytest.approx(fmean(bleus))
    assert not system_tables.costs(comparison, AnalysisIndex([])).rows


def test_an_unknown_cost_of_a_parent_gives_no_gain_per_hour(whole):
    comparison, index = whole
    costs = [*index.costs("student"), *index.costs("dense")]
    table = system_tables.costs(comparison, AnalysisIndex([*costs, *index.recipes("student")]))
    dense, student = by_heading(table, 0), by_heading(table, 1)
    assert (dense["System"], student["System"]) == ("dense", "student")
    assert dense["ΔBLEU per device-hour"] and student["ΔBLEU per device-hour"] is None
    assert student["Device-hours"] == costs[0].device_hours
    assert "Device-hours with its parents" not in student


def test_a_bilingual_system_s_mean_is_over_its_own_languages(whole):
    (cost,) = whole[1].costs("moe")
    rows = [row(source=source) for source in LANGUAGES]
    rows += [baseline(source="deu_Latn", bleu=10.0), baseline(source="swh_Latn", bleu=30.0)]
    rows[2:] = [dataclasses.replace(each, system=each.source) for each in rows[2:]]
    costs = [dataclasses.replace(cost, system=source, source=source) for source in LANGUAGES]
    table = system_tables.costs(compare(rows)[0], AnalysisIndex(costs))
    means = {values[0]: by_heading(table, place)["Mean BLEU"].value
             for place, values in enumerate(table.rows)}  # fmt: skip
    assert means == {"deu_Latn, 1 model": 10.0, "swh_Latn, 1 model": 30.0}


def curve(system, losses, validation=None):
    count = len(losses)
    return analysis.Curve(
        system=system, steps=tuple(range(count)), tokens=tuple(1000.0 * (i + 1) for i in
        range(count)), seconds=(None,) * count, loss=tuple(losses),
        validation_loss=tuple(validation or (None,) * count), bleu=(None,) * count,
    )  # fmt: skip


def test_tokens_to_a_loss_are_interpolated():
    curves = [curve("slow", [5.0, 4.0, 3.0, 2.5]), curve("fast", [4.0, 2.4, 2.1, 1.5])]
    table = system_tables.efficiency(["slow", "fast", "other"], AnalysisIndex(curves))
    assert [values[0] for values in table.rows] == ["slow", "fast"]
    for system, place in ((curves[0], 0), (curves[1], 1)):
        values = by_heading(table, place)
        for heading, reached in values.items():
            if heading.startswith("loss") and not heading.endswith("best"):
                level = float(heading.split()[-1])
                falling = np.interp(level, system.loss[::-1], system.tokens[::-1])
                reaching = falling if level >= system.loss[-1] else None
                assert reached == (pytest.approx(reaching) if reaching else None)
        assert values["loss best"] == f"{min(system.loss):.3f}"
    assert len(table.columns) >= 5 and table.rows[1][-3] and not table.rows[0][-3]
    measured = [dataclasses.replace(item, validation_loss=item.loss) for item in curves]
    table = system_tables.efficiency(["slow", "fast"], AnalysisIndex(measured))
    assert table.columns[1].over == "validation loss"
    assert not system_tables.efficiency(["slow"], AnalysisIndex([])).rows


def test_shares_of_all_outputs_weigh_languages_by_sentences(whole):
    comparison, index = whole
    table = system_tables.risks(comparison, index)
    names = [values[0] for values in table.rows]
    assert names == [*comparison.systems, "baselines"]
    values = by_heading(table, names.index("moe"))
    rows = [index.output_checks(entry.rows["moe"]) for entry in comparison.entries]
    total = sum(item.sentences for item in rows)
    assert values["Sentences"] == total
    for guard in OUTPUT_CHECKS:
        expected = sum(getattr(item, guard.name) * item.sentences for item in rows) / total
        assert values[guard.meaning] == pytest.approx(expected)


def test_experts_by_layer(whole):
    _, index = whole
    rows = index.routing("moe", ["moe/5000"])
    table = system_tables.experts(rows)
    assert [v[0] for v in table.rows] == ["encoder.1", "encoder.3", "decoder.1", "decoder.3"]
    values = by_heading(table, 2)
    here = [row for row in rows if row.layer == "decoder.1"]
    busiest = max(sum(row.load[e] for row in here) / len(here) for e in range(4)) * 4
    assert values["Busiest expert × fair share"] == pytest.approx(busiest)
    assert values["Tokens dropped largest of a language"] == max(row.drop_rate for row in here)
    assert not any(name.startswith("Gate") for name in values)
    gated = [dataclasses.replace(row, gate=place / 100) for place, row in enumerate(rows)]
    values = by_heading(system_tables.experts(gated), 2)
    gates = [row.gate for row in gated if row.layer == "decoder.1"]
    assert values["Gate smallest of a language"] == f"{min(gates):.3f}"
    assert values["Gate largest of a language"] == f"{max(gates):.3f}"
    layers = [dataclasses.replace(here[0], layer=f"encoder.{place}") for place in (11, 1, 3)]
    names = [values[0] for values in system_tables.experts(layers).rows]
    assert names == ["encoder.1", "encoder.3", "encoder.11"]


def test_an_ablation_is_ordered_by_value():
    values = ("20", "UniMax", "5", "1", "E16", "E2")
    rows = [row(system=f"T: {value}", bleu=20.0) for value in values]
    (comparison,) = compare([*rows, row(), baseline(bleu=15.0)])
    table = system_tables.ablation(comparison.ablations[0], AnalysisIndex([]))
    assert [values[0] for values in table.rows] == [
        "1", "5", "20", "E2", "E16", "UniMax", "system multi",
    ]  # fmt: skip
    assert "Validation loss" not in {column.label for column in table.columns}  # nobody has one
    first = by_heading(table, 0)
    assert table.columns[0].label == "T" and first["Mean ΔBLEU"].value == 5
    assert first["mid BLEU"] == first["Mean BLEU"] and first["mid BLEU"].value == 20


def test_gains_are_by_size_against_the_only_reference():
    rows = seven()
    codes = [r.source for r in rows if r.kind == "multilingual"]
    control = [row(system="control", source=code, bleu=10.0, chrf=20.0) for code in codes]
    varied = [row(system="T: 5", source=code, bleu=10.0 + place, chrf=19.0)
              for place, code in enumerate(codes)]  # fmt: skip
    (comparison,) = compare([*control, *varied])
    (ablation,) = comparison.ablations
    table = system_tables.gains(ablation)
    by_code = {r.source: r.bleu - 10 for r in varied}
    of_size = [by_code[entry.language.code] for entry in ablation.entries]
    values = by_heading(table, 0)
    assert values["BLEU less control largest 1"].value == of_size[0]
    assert values["BLEU less control middle 4"].value == fmean(of_size[1:5])
    assert values["BLEU less control smallest 2"].value == fmean(of_size[5:])
    everywhere = values["BLEU less control all 7"]
    assert everywhere.value == 3 and everywhere.range.low < 3 < everywhere.range.high
    assert values["chrF++ less control all 7"].value == -1
    (several,) = compare([*control, *varied, *(row(system="other", source=c) for c in codes)])
    assert not system_tables.gains(several.ablations[0]).rows


def test_gains_are_of_the_languages_that_means_include():
    codes = [r.source for r in seven() if r.kind == "multilingual"]
    control = [row(system="control", source=code, bleu=10.0) for code in codes]
    varied = [row(system="T: 5", source=code, bleu=12.0) for code in codes]
    varied[0] = dataclasses.replace(varied[0], bleu=90.0, sentences=99)
    control[0] = dataclasses.replace(control[0], sentences=99)
    for allow, heading, mean in (((), "all 6", 2), (("small",), "all 7", (80 + 6 * 2) / 7)):
        (ablation,) = compare([*control, *varied], allow=allow)[0].ablations
        gains = by_heading(system_tables.gains(ablation), 0)
        assert gains[f"BLEU less control {heading}"].value == pytest.approx(mean)


def test_an_ablation_shows_the_steps_of_its_values_and_references(whole):
    _, index = whole
    varied = dataclasses.replace(index.costs("moe")[0], system="T:1", steps=2400)
    (comparison,) = compare([row(system="T:1"), row(system="T:5"), row(system="moe")])
    made = dataclasses.replace(index.recipes("moe")[0], system="T:1", initial="moe")
    costs = AnalysisIndex([varied, made, *index.costs("moe")])
    table = system_tables.ablation(comparison.ablations[0], costs)
    first, moe = by_heading(table, 0), by_heading(table, -1)
    both = first["Device-hours"] + moe["Device-hours"]
    assert first["Device-hours with its parents"] == both
    assert moe["Device-hours with its parents"] is None
    unknown = AnalysisIndex([varied, dataclasses.replace(made, initial="published")])
    assert "Device-hours with its parents" not in by_heading(
        system_tables.ablation(comparison.ablations[0], unknown), 0
    )
    steps = {values[0]: by_heading(table, n)["Steps"] for n, values in enumerate(table.rows)}
    assert steps == {"1": 2400, "5": None, "system moe": 5000}


def test_an_ablation_has_the_last_validation_loss_and_only_whole_references():
    curve = analysis.Curve(
        system="T:5", steps=(1, 2, 3), tokens=(10, 20, 30), seconds=(1.0, 2.0, 3.0),
        loss=(4.0, 3.0, 2.0), validation_loss=(None, 3.25, None), bleu=(None, None, None),
        source_use=(0.5, 0.75, None),
    )  # fmt: skip
    rows = [row(system=f"T:{value}", source=code) for value in "15" for code in LANGUAGES]
    (comparison,) = compare([*rows, *(row(source=code) for code in LANGUAGES[1:])])
    table = system_tables.ablation(comparison.ablations[0], AnalysisIndex([curve]))
    assert [values[0] for values in table.rows] == ["1", "5"]  # `multi` lacks a language
    assert [by_heading(table, n)["Validation loss"] for n in (0, 1)] == [None, "3.250"]
    assert [by_heading(table, n)["Source use"] for n in (0, 1)] == [None, "0.750"]


def test_decoded_languages_and_sentences_are_counted():
    rows = seven()
    others = [row(system="other", source=r.source) for r in rows if r.kind == "multilingual"]
    (comparison,) = compare([*rows, *others[:-1], row(system="T:5")])
    table = system_tables.recipe(comparison)
    done = {values[0]: by_heading(table, place) for place, values in enumerate(table.rows)}
    assert done["multi"]["Languages"] == 7 and done["multi"]["Sentences"] == 1400
    assert done["multi"]["Sentences/s"] == 200 and done["other"]["Languages"] == 6
    assert done["T:5"]["Languages"] == 1
    assert system_tables.signatures(comparison) == [("BLEU", "13a"), ("chrF++", "nw:2")]


def test_validation_losses_of_an_ablation_are_over_the_same_languages():
    few_languages, all_languages = (row(system=f"languages: {name}") for name in ("few", "many"))
    (comparison,) = compare([few_languages, all_languages, baseline()])
    of_each = {"many": {"deu_Latn": 2.0, "zul_Latn": 6.0}, "few": {"deu_Latn": 2.5, "zul_Latn": 5}}
    curves = [
        dataclasses.replace(
            curve(f"languages: {name}", [5.0, 4.5], [5.0, fmean(losses.values())]),
            language_validation_loss=losses,
        )
        for name, losses in of_each.items()
    ]

    def losses(curves):
        table = system_tables.ablation(comparison.ablations[0], AnalysisIndex(curves))
        return {values[0]: by_heading(table, n)["Validation loss"]
                for n, values in enumerate(table.rows)}  # fmt: skip

    assert losses(curves) == {"few": "2.500", "many": "2.000"}  # German alone
    silent = dataclasses.replace(curves[0], language_validation_loss={})
    assert losses([silent, curves[1]]) == {"few": "3.750", "many": "4.000"}


def test_behaviours_name_the_lowest_language():
    weak = dataclasses.replace(
        BEHAVIOUR, source="fra_Latn", passed={"links": 1}, cases={"links": 4}, needed={"links": 0.8}
    )
    table = system_tables.behaviours([BEHAVIOUR, weak])
    assert table.rows == (
        ("links", 0.5, 0.8, 0.25, "French", 2, 8), ("tiny", 1.0, 0.9, 1.0, "German", 1, 4),
    )  # fmt: skip


def test_contrastive_examples_are_summed_over_languages():
    others = [
        dataclasses.replace(CONTRASTIVE, checkpoint="tiny/1", phenomenon="he"),  # an older model
        CONTRASTIVE,
        dataclasses.replace(CONTRASTIVE, source="fra_Latn", phenomenon="name"),
        dataclasses.replace(CONTRASTIVE, context_lines=2),
    ]
    table = system_tables.contrastive(AnalysisIndex(others))
    shares = 0.9, 0.2, 0.5
    assert table.rows == (
        ("tiny", "talks", 1, "she", *shares, 10, 1),
        ("tiny", "talks", 1, "pronouns", *shares, 10, 1),
        ("tiny", "talks", 1, "names", *shares, 10, 1),
        ("tiny", "talks", 2, "she", *shares, 10, 1),
        ("tiny", "talks", 2, "pronouns", *shares, 10, 1),
    )  # fmt: skip


def test_each_kind_of_contrastive_examples_has_its_own_languages():
    he, swahili = ({"phenomenon": "he"}, {"source": "swh_Latn", "phenomenon": "name"})
    of_each = [he, {"phenomenon": "name"}, swahili]
    rows = [dataclasses.replace(CONTRASTIVE, **changes) for changes in of_each]
    table = system_tables.contrastive(AnalysisIndex(rows))
    assert {line[3]: line[-1] for line in table.rows} == {"he": 1, "pronouns": 1, "names": 2}
