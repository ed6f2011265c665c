"""The reliability diagram has the bins of each calibrated system, and the diagonal."""

from eval.records.analysis import Reliability
from eval.records.analysis_index import AnalysisIndex
from eval.report.figures.reliability import reliability


def test_bins_are_drawn_with_the_diagonal():
    row = Reliability(
        system="mine", decode="beam:4", confidence=(0.1, 0.5), chrf=(0.2, 0.4), lines=(5, 5)
    )
    index = AnalysisIndex([row])
    (axes,) = reliability(["mine", "other"], index).axes
    drawn = [tuple(map(tuple, line.get_data())) for line in axes.lines]
    assert ((0.0, 0.5), (0.0, 0.5)) in drawn and ((0.1, 0.5), (0.2, 0.4)) in drawn
    assert reliability(["other"], index) is None
    assert reliability(["mine"], AnalysisIndex([])) is None
