"""The figure of BLEU by overlap: means over languages, weighted by their lines."""

import numpy as np
import pytest

from eval.records.analysis_index import AnalysisIndex
from eval.report.comparison import compare
from eval.report.figures import overlap
from tests.helpers.made_up import made_up

NOTHING = AnalysisIndex([])


def test_overlap_is_the_mean_weighted_by_lines():
    rows, analyses = made_up(6, ("moe",))
    (comparison,) = compare(rows)
    figure = overlap.bleu_by_overlap(comparison, AnalysisIndex(analyses))
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[0].lines}
    counted = {e.language.code for e in comparison.all.entries}
    assert len(counted) == 5
    for label, system in (("moe", "moe"), ("bilingual baselines", "bilingual")):
        bins = [item.bins for item in analyses
                if item.kind == "overlap" and item.system == system and item.source in counted]
        for place, value in enumerate(lines[label]):
            here = [each[place] for each in bins]
            expected = np.average([b.bleu for b in here], weights=[b.sentences for b in here])
            assert value == pytest.approx(expected)
    assert overlap.bleu_by_overlap(comparison, NOTHING) is None


def test_bars_count_each_language_once():
    rows, analyses = made_up(6, ("dense", "moe"))
    (comparison,) = compare(rows)
    counted = [entry.language.code for entry in comparison.all.entries]
    of_language = {item.source: item.bins for item in analyses if item.kind == "overlap"}
    lines = [[part.sentences for part in of_language[code]] for code in counted]
    expected = np.sum(lines, axis=0).tolist()
    for missing in ("dense", "moe", "bilingual"):
        rest = [r for r in rows if (r.system, r.source) != (missing, counted[0])]
        figure = overlap.bleu_by_overlap(compare(rest)[0], AnalysisIndex(analyses))
        assert [bar.get_height() for bar in figure.axes[1].patches] == expected
