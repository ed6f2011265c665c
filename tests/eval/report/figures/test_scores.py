"""Figures of scores: a mark per language, means and intervals where they belong."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection

from eval.records.analysis_index import Evidence
from eval.report.comparison import compare, mean_interval
from eval.report.figures import drawing, scores
from tests.eval.report.figures.test_drawing import titles
from tests.eval.report.test_comparison import baseline, row, seven
from tests.helpers.made_up import made_up

NOTHING = Evidence([])


def test_a_bar_per_language_with_a_baseline():
    (found,) = compare(seven())
    tips = titles(drawing.svg(scores.delta_bleu(found, NOTHING)))
    assert len(tips) == 4
    assert tips[1] == "Swahili: 42.0 BLEU, multi; 40.0 bilingual; Δ +2.0; 998 training pairs"


def test_a_dot_per_language_and_per_baseline():
    (found,) = compare(seven())
    tips = titles(drawing.svg(scores.bleu_by_size(found, NOTHING)))
    names = [tip.split(":")[0] for tip in tips]
    assert len(set(names)) == 7 and len(tips) == 7 + 4


def test_bars_up_and_down_and_the_sliding_mean_with_its_interval():
    (found,) = compare(seven())
    axes = scores.delta_bleu(found, NOTHING).axes[0]
    assert [bar.get_height() for bar in axes.patches] == [-10, 2, 14, 26]
    assert [line for line in axes.lines if list(line.get_ydata()) == [8, 8, 8, 8]]
    assert not [one for one in axes.collections if len(one.get_paths()[0].vertices) > 8]  # too few


def test_the_sliding_mean_has_its_interval_from_five_languages_on():
    deltas = dict(zip(("deu", "fra", "spa", "swh", "zul"), (-10, 2, 14, 26, 3), strict=True))
    rows = [row(source=f"{code}_Latn", bleu=20.0 + delta) for code, delta in deltas.items()]
    (found,) = compare([*rows, *(baseline(source=one.source, bleu=20.0) for one in rows)])
    axes = scores.delta_bleu(found, NOTHING).axes[0]
    (band,) = (one for one in axes.collections if len(one.get_paths()[0].vertices) > 8)
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx(mean_interval(list(deltas.values())))


@pytest.mark.parametrize("systems", [("moe",), ("dense", "moe")])
def test_tested_languages_show_their_intervals(systems):
    rows, found = made_up(5, systems)
    (comparison,) = compare(rows)
    axes = scores.delta_bleu(comparison, Evidence(found)).axes[0]
    drawn = [tuple(segment[:, 1]) for one in axes.collections if hasattr(one, "get_segments")
             for segment in one.get_segments()]  # fmt: skip
    tests = [one for one in found if one.kind == "paired"]
    assert sorted(drawn) == sorted((one.delta_low, one.delta_high) for one in tests)
    assert len(tests) == 5 * len(systems)


@pytest.mark.parametrize(("count", "bands"), [(2, 2), (6, 6), (7, 0)])
def test_means_of_several_systems_have_their_intervals(count, bands):
    systems = tuple(f"_{place}" for place in range(count))
    rows, found = made_up(12, systems)
    axes = scores.delta_bleu(compare(rows)[0], Evidence(found)).axes[0]
    drawn = [one for one in axes.collections if isinstance(one, FillBetweenPolyCollection)]
    said = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(drawn) == bands and len(said) == count
    assert sum("95 %" in text for text in said) == bands


def test_languages_with_few_sentences_are_pale_and_in_no_mean():
    rows = [row(), baseline(bleu=40.0), row(source="swh_Latn", sentences=9, train_pairs=5),
            baseline(source="swh_Latn", sentences=9, bleu=0.0)]  # fmt: skip
    axes = scores.delta_bleu(compare(rows)[0], NOTHING).axes[0]
    assert [bar.get_alpha() == 1 for bar in axes.patches] == [True, False]
    assert any(list(line.get_ydata()) == [10] for line in axes.lines)
    assert "mean +10.0" in axes.get_legend().get_texts()[0].get_text()


def test_overlap_is_the_mean_weighted_by_lines():
    rows, found = made_up(6, ("moe",))
    (comparison,) = compare(rows)
    figure = scores.bleu_by_overlap(comparison, Evidence(found))
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[0].lines}
    counted = {e.language.code for e in comparison.all.entries}
    assert len(counted) == 5
    for label, system in (("moe", "moe"), ("bilingual baselines", "bilingual")):
        bins = [one.bins for one in found
                if one.kind == "overlap" and one.system == system and one.source in counted]
        for place, value in enumerate(lines[label]):
            here = [one[place] for one in bins]
            expected = np.average([b.bleu for b in here], weights=[b.sentences for b in here])
            assert value == pytest.approx(expected)
    assert scores.bleu_by_overlap(comparison, NOTHING) is None


@pytest.mark.parametrize("draw", [scores.delta_bleu, scores.bleu_by_size])
@pytest.mark.parametrize(
    "rows",
    [[row()], [baseline()], [row(), baseline()], [row(train_pairs=0), baseline()],
     [row(sentences=5), baseline(sentences=5)],
     [*(row(system=f"system {place} <$x^2$ & {{}}>", bleu=40.0 + place) for place in range(8)),
      baseline()]],
    ids=["no baseline", "only a baseline", "one language", "no training data", "few sentences",
         "many systems"],
)  # fmt: skip
def test_unusual_results_are_drawn_too(draw, rows):
    (found,) = compare(rows)
    ElementTree.fromstring(drawing.svg(draw(found, NOTHING)))
