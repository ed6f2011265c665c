"""The heat map of behaviours: shares of failures as colour, weakest language last."""

import dataclasses

import numpy as np
import pytest

from eval.report.figures.behaviour import behaviours
from eval.report.figures.drawing import NARROW, WIDE
from tests.eval.records.test_behaviour import ROW

WEAK = dataclasses.replace(
    ROW, source="cbk_Latn", passed={"links": 1}, cases={"links": 4}, needed={"links": 0.8}
)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_failures_are_coloured(width):
    (axes,) = behaviours("tiny", [WEAK, ROW], width).axes
    (image,) = axes.images
    assert np.asarray(image.get_array())[..., 3] == pytest.approx(np.array([[0.25, 0], [0.75, 0]]))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["links", "tiny"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["German", "Chavacano"]
    assert "·" in [text.get_text() for text in axes.texts]
    tips = [bar.get_gid() for bar in axes.patches if bar.get_gid()]
    assert any("German: links 3 of 4, tiny 4 of 4" in tip for tip in tips)
    assert behaviours("tiny", [], width) is None
