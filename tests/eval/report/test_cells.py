"""How the values of a table are written."""

import pytest

from eval.analyses.mean_interval import ConfidenceInterval
from eval.records.analysis_index import OUTPUT_CHECKS
from eval.report import cells


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [(20000, "count", "20,000"), (45.67, "score", "45.7"), (3.0, "delta", "+3.0"),
     (-3.04, "delta", "−3.0"), (-0.04, "delta", "+0.0"), (-0.036, "difference", "−0.04"),
     (-0.0345, "amount", "−0.0345"), (None, "delta", ""), (None, "text", ""),
     ("x", "code", "x"),
     (0.1234, "share", "12.3 %"), (4_200_000, "amount", "4.2M"), (0.0421, "amount", "0.0421"),
     (cells.Estimate(3.0), "score", "3.0"),
     (cells.Estimate(3.0, ConfidenceInterval(-1.0, 7.0), False), "delta", "+3.0 (−1.0 to +7.0) ○"),
     (cells.Estimate(3.0, ConfidenceInterval(1.0, 7.0)), "score", "3.0 (1.0–7.0)"),
     (cells.Estimate(-0.036, ConfidenceInterval(-0.11, 0.032)), "difference",
      "−0.04 (−0.11 to +0.03)"),
     (cells.Grade("poor", ("few",)), "grade", "poor"),
     (cells.Risks(((OUTPUT_CHECKS[0], 0.2), (OUTPUT_CHECKS[1], 0.01))), "risks", "copies 20%"),
     (cells.Risks(()), "risks", "–")],
)  # fmt: skip
def test_values_are_formatted_for_people(value, kind, text):
    assert cells.text(value, kind) == text
