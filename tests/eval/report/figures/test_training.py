"""Figures of training: a point per system and one for all baselines together; a line per curve."""

import dataclasses
from statistics import fmean

import pytest

from eval.records.analysis_index import AnalysisIndex, measured
from eval.report.comparison import compare
from eval.report.figures import drawing, training
from tests.helpers.made_up import made_up
from tests.helpers.report_rows import titles


@pytest.fixture(scope="module")
def whole():
    rows, analyses = made_up(6)
    return compare(rows)[0], AnalysisIndex(analyses)


def test_quality_against_every_cost(whole):
    comparison, index = whole
    figure = training.quality_by_cost(comparison, index)
    assert [axes.get_xlabel() for axes in figure.axes] == [
        "device-hours", "parameters", "target tokens seen in training",
    ]  # fmt: skip
    for axes, field in zip(figure.axes, ("device_hours", "parameters", "tokens"), strict=True):
        points = [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines]
        spent = {s: getattr(index.costs(s)[0], field) for s in comparison.systems}
        spent["student"] += spent["moe"] if field != "parameters" else 0  # its teacher
        expected = [(cost, comparison.compared.delta(system)) for system, cost in spent.items()]
        expected.append((sum(getattr(c, field) for c in index.costs("bilingual")), 0))
        assert points == [pytest.approx(point) for point in expected]
    assert len(titles(drawing.svg(figure))) == 3 * 4
    costs = AnalysisIndex(index.costs("moe"))
    assert training.quality_by_cost(comparison, costs) is None


def test_a_system_whose_parent_s_cost_is_unknown_has_only_its_parameters(whole):
    comparison, index = whole
    known = [*index.costs("student"), *index.costs("dense"), *index.recipes("student")]
    known += index.costs("bilingual")
    figure = training.quality_by_cost(comparison, AnalysisIndex(known))
    drawn = {axes.get_xlabel(): sum(len(line.get_xdata()) for line in axes.lines)
             for axes in figure.axes}  # fmt: skip
    assert drawn == {"device-hours": 2, "parameters": 3, "target tokens seen in training": 2}
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(names) == ["6 baselines", "dense", "student"]
    assert len(titles(drawing.svg(figure))) == 2 + 3 + 2


def test_without_baselines_quality_is_bleu(whole):
    comparison, index = whole
    rows = [row for row in comparison.used if row.kind == "multilingual"]
    (without,) = compare(rows)
    axes = training.quality_by_cost(without, index).axes[0]
    assert axes.get_ylabel() == "mean BLEU" and len(axes.lines) == 3
    assert axes.lines[0].get_ydata()[0] == pytest.approx(
        fmean(without.all.values(without.systems[0], "bleu"))
    )


def test_a_cost_that_all_share_has_no_panel(whole):
    comparison, index = whole
    costs = [cost for system in ("dense", "moe") for cost in index.costs(system)]
    alike = [dataclasses.replace(cost, device_hours=1.0, tokens=9e6) for cost in costs]
    figure = training.quality_by_cost(comparison, AnalysisIndex(alike))
    assert [axes.get_xlabel() for axes in figure.axes] == ["parameters"]
    alike = [dataclasses.replace(cost, parameters=10**6) for cost in alike]
    assert training.quality_by_cost(comparison, AnalysisIndex(alike)) is None


@pytest.mark.parametrize("factor", [1.2, 3, 40])
@pytest.mark.parametrize("width", [drawing.WIDE, drawing.NARROW])
def test_no_two_numbers_of_an_axis_read_alike(whole, factor, width):
    comparison, index = whole
    costs = [cost for system in ("dense", "moe") for cost in index.costs(system)]
    hours = (0.133, 0.133 * factor)
    near = [dataclasses.replace(cost, device_hours=h) for cost, h in zip(costs, hours, strict=True)]
    axes = training.quality_by_cost(comparison, AnalysisIndex(near), width).axes[0]
    low, high = axes.get_xlim()
    ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
    labels = [axes.xaxis.get_major_formatter()(tick) for tick in ticks]
    assert len(labels) >= 2 and len(set(labels)) == len(labels)


def test_curves_are_drawn_where_measured(whole):
    comparison, index = whole
    figure = training.loss_by_tokens(comparison.systems, index)
    loss, bleu = figure.axes
    drawn = [list(zip(*line.get_data(), strict=True)) for line in (*loss.lines, *bleu.lines)]
    for system in comparison.systems:
        curve = index.curve(system)
        for values in (curve.loss, curve.validation_loss, curve.bleu):
            assert measured(curve, values) in drawn
    assert loss.get_ylim()[0] <= min(index.curve("student").loss)
    assert training.loss_by_tokens(["other"], index) is None


def test_the_validation_loss_of_an_overfitted_model_is_visible(whole):
    """It rises while the training loss falls; the high losses of the first steps are not shown."""
    _, index = whole
    curve = index.curve("moe")
    count = len(curve.tokens)
    fitted = (9.0, *(2.0 - i / count for i in range(1, count)))
    curve = dataclasses.replace(
        curve, tokens=tuple(1000 * i for i in range(1, count + 1)), loss=fitted,
        validation_loss=(8.0, *(4.0 + i / count for i in range(1, count - 1)), None),
    )  # fmt: skip
    axes = training.loss_by_tokens(["moe"], AnalysisIndex([curve])).axes[0]
    low, high = axes.get_ylim()
    assert low < min(fitted) and max(curve.validation_loss[1:-1]) < high < 8


def test_source_use_is_drawn_where_measured(whole):
    comparison, index = whole
    assert training.source_use_by_tokens(comparison.systems, index) is None
    curve = index.curve("student")
    use = tuple(i / 10 if i % 10 == 9 else None for i in range(len(curve.steps)))
    told = AnalysisIndex([dataclasses.replace(curve, source_use=use)])
    (axes,) = training.source_use_by_tokens(["student", "other"], told).axes
    (line,) = axes.lines
    assert list(zip(*line.get_data(), strict=True)) == measured(curve, use)
