"""Figures of scores: a mark per language, means and intervals where they belong."""

import dataclasses
import xml.etree.ElementTree as ElementTree

import pytest
from matplotlib.collections import FillBetweenPolyCollection, PathCollection

from eval.analyses.mean_interval import mean_interval
from eval.records.analysis_index import AnalysisIndex
from eval.report import captions
from eval.report.comparison import compare
from eval.report.figures import drawing, overlap, scores
from tests.helpers.made_up import made_up
from tests.helpers.report_rows import baseline, row, seven, titles

NOTHING = AnalysisIndex([])


def test_a_bar_per_language_with_a_baseline():
    (comparison,) = compare(seven())
    tips = titles(drawing.svg(scores.delta_bleu(comparison, NOTHING)))
    assert len(tips) == 4
    assert tips[1] == "Swahili: 42.0 BLEU, multi; 40.0 bilingual; Δ +2.0; 998 training pairs"


def test_a_dot_per_language_and_per_baseline():
    (comparison,) = compare(seven())
    tips = titles(drawing.svg(scores.bleu_by_size(comparison, NOTHING)))
    names = [tooltip.split(":")[0] for tooltip in tips]
    assert len(set(names)) == 7 and len(tips) == 7 + 4


def test_bars_up_and_down_and_the_sliding_mean_with_its_interval():
    (comparison,) = compare(seven())
    axes = scores.delta_bleu(comparison, NOTHING).axes[0]
    assert [bar.get_height() for bar in axes.patches] == [-10, 2, 14, 26]
    assert [line for line in axes.lines if list(line.get_ydata()) == [8, 8, 8, 8]]
    assert max(line.get_zorder() for line in axes.lines if len(line.get_ydata()) == 4) < 2
    # too few languages for the mean's interval
    assert not [band for band in axes.collections if len(band.get_paths()[0].vertices) > 8]


def test_the_sliding_mean_has_its_interval_from_five_languages_on():
    deltas = dict(zip(("deu", "fra", "spa", "swh", "zul"), (-10, 2, 14, 26, 3), strict=True))
    rows = [row(source=f"{code}_Latn", bleu=20.0 + delta) for code, delta in deltas.items()]
    (comparison,) = compare([*rows, *(baseline(source=r.source, bleu=20.0) for r in rows)])
    axes = scores.delta_bleu(comparison, NOTHING).axes[0]
    (band,) = (c for c in axes.collections if len(c.get_paths()[0].vertices) > 8)
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx(mean_interval(list(deltas.values())))


@pytest.mark.parametrize("systems", [("moe",), ("dense", "moe")])
def test_tested_languages_show_their_intervals(systems):
    rows, analyses = made_up(5, systems)
    (comparison,) = compare(rows)
    axes = scores.delta_bleu(comparison, AnalysisIndex(analyses)).axes[0]
    drawn = [tuple(segment[:, 1]) for item in axes.collections if hasattr(item, "get_segments")
             for segment in item.get_segments()]  # fmt: skip
    tests = [item for item in analyses if item.kind == "paired"]
    assert sorted(drawn) == sorted((item.delta_low, item.delta_high) for item in tests)
    assert len(tests) == 5 * len(systems)


@pytest.mark.parametrize(("count", "bands"), [(2, 2), (6, 6), (7, 0)])
def test_means_of_several_systems_have_their_intervals(count, bands):
    systems = tuple(f"_{place}" for place in range(count))
    rows, analyses = made_up(12, systems)
    axes = scores.delta_bleu(compare(rows)[0], AnalysisIndex(analyses)).axes[0]
    drawn = [band for band in axes.collections if isinstance(band, FillBetweenPolyCollection)]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(drawn) == bands and len(labels) == count
    assert sum(" to " in text for text in labels) == bands
    assert ("95 %" in axes.get_legend().get_title().get_text()) is (bands > 0)


def test_languages_with_few_sentences_are_pale_and_in_no_mean():
    rows = [row(), baseline(bleu=40.0), row(source="swh_Latn", sentences=9, train_pairs=5),
            baseline(source="swh_Latn", sentences=9, bleu=0.0)]  # fmt: skip
    axes = scores.delta_bleu(compare(rows)[0], NOTHING).axes[0]
    assert [bar.get_alpha() == 1 for bar in axes.patches] == [True, False]
    assert any(list(line.get_ydata()) == [10] for line in axes.lines)
    assert axes.get_legend().get_texts()[0].get_text() == "multi: +10.0"


def test_the_sliding_mean_by_size_is_over_languages_that_count():
    rows, analyses = made_up(25, ("moe",))
    rows = [dataclasses.replace(r, bleu=20.0 if r.sentences >= 100 else 99.0) for r in rows]
    axes = scores.bleu_by_size(compare(rows)[0], AnalysisIndex(analyses)).axes[0]
    lines = [line.get_ydata() for line in axes.lines if len(line.get_ydata()) > 1]
    assert lines and all(list(values) == [20.0] * 24 for values in lines)
    clouds = [c for c in axes.collections if isinstance(c, PathCollection) and c.get_alpha()]
    assert [(len(c.get_offsets()), c.get_alpha() < 0.5) for c in clouds] == [(24, False), (1, True)]


@pytest.mark.parametrize(("count", "slides"), [(12, False), (18, False), (40, True)])
def test_only_many_languages_have_a_sliding_mean(count, slides):
    rows, analyses = made_up(count + 1, ("moe",))  # one of them has few sentences
    (comparison,) = compare(rows)
    for draw in (scores.delta_bleu, scores.bleu_by_size):
        axes = draw(comparison, AnalysisIndex(analyses)).axes[0]
        means = [line.get_ydata() for line in axes.lines if len(line.get_ydata()) >= count]
        assert any(len(set(values)) > 1 for values in means) is slides
        assert f"mean over {scores.WINDOW}" in " ".join(
            captions.of(draw.__name__, comparison, AnalysisIndex(analyses))
        ) or not slides


@pytest.mark.parametrize("width", [drawing.WIDE, drawing.NARROW])
@pytest.mark.parametrize("systems", [("moe",), ("dense", "moe"), tuple("abcdefg")])
@pytest.mark.parametrize(
    "count", [7, *(pytest.param(count, marks=pytest.mark.slow) for count in (12, 30)), 70]
)
def test_no_part_of_a_figure_is_cut(width, systems, count):
    rows, analyses = made_up(count, systems)
    (comparison,) = compare(rows)
    for draw in (scores.delta_bleu, scores.bleu_by_size,
                 overlap.bleu_by_overlap):  # fmt: skip
        figure = draw(comparison, AnalysisIndex(analyses), width)
        figure.suptitle("")  # a page has it as a heading
        with drawing.styled():
            figure.draw_without_rendering()
            box = figure.get_tightbbox()
        assert box.x0 >= -0.02 and box.x1 <= figure.get_figwidth() + 0.02, draw.__name__
        assert box.y0 >= -0.02 and box.y1 <= figure.get_figheight() + 0.02, draw.__name__


@pytest.mark.parametrize("width", [drawing.WIDE, drawing.NARROW])
def test_the_numbers_of_bars_do_not_touch(width):
    rows, analyses = made_up(10, ("moe",))
    figure = scores.delta_bleu(compare(rows)[0], AnalysisIndex(analyses), width)
    with drawing.styled():
        figure.draw_without_rendering()
    numbers = [text for text in figure.axes[0].texts if text.get_text()[0] in "+−"]
    boxes = [text.get_window_extent() for text in numbers]
    assert len(boxes) == 10
    for left, right in zip(boxes, boxes[1:], strict=False):
        assert not left.overlaps(right)
    assert all(text.get_bbox_patch() and text.get_zorder() > 3.1 for text in numbers)


def test_of_many_systems_the_best_has_dots():
    rows, analyses = made_up(40, tuple("abcdefg"))
    (comparison,) = compare(rows)
    for draw in (scores.delta_bleu, scores.bleu_by_size):
        tips = titles(drawing.svg(draw(comparison, AnalysisIndex(analyses))))
        ours = [tooltip for tooltip in tips if "bilingual" not in tooltip.split(";")[0]]
        primary = f"BLEU, {comparison.primary_system};"
        assert len(ours) == 40 and all(primary in tooltip for tooltip in ours)


@pytest.mark.parametrize("draw", [scores.delta_bleu, scores.bleu_by_size])
@pytest.mark.parametrize(
    ("rows", "shown"),
    [([row()], False), ([baseline()], False), ([row(), baseline()], False),
     ([row(train_pairs=0), baseline(), row(source="swh_Latn"), baseline(source="swh_Latn")], True),
     ([row(sentences=5), baseline(sentences=5),
       row(source="swh_Latn", train_pairs=7), baseline(source="swh_Latn")], True),
     ([*(row(system=f"system {place} <$x^2$ & {{}}>", bleu=40.0 + place, source=source,
             train_pairs=len(source) * (1 + place % 2))
         for place in range(8) for source in ("deu_Latn", "swh_Latn")),
       baseline(), row(source="zul_Latn", train_pairs=9), baseline(source="swh_Latn")], True)],
    ids=["no baseline", "only a baseline", "one language", "no training data", "few sentences",
         "many systems"],
)  # fmt: skip
def test_a_figure_is_drawn_where_it_has_something_to_show(draw, rows, shown):
    (comparison,) = compare(rows)
    figure = draw(comparison, NOTHING)
    assert (figure is not None) is shown
    if figure:
        ElementTree.fromstring(drawing.svg(figure))
