"""Curves of losses, over steps and over tokens."""

import numpy as np
from matplotlib.colors import to_hex

from eval import compare
from eval.compare import figures
from eval.report.figures.drawing import NARROW, PALETTE


def test_each_run_has_its_curves(made_run):
    runs = [made_run("a", losses={100: 3.0, 200: 2.0}), made_run("b", tokens=3000)]
    for width, shape in ((None, (1, 2)), (NARROW, (2, 1))):
        figure = figures.losses(compare.compare(runs), *[width] * (width is not None))
        assert figure.axes[0].get_gridspec().get_geometry() == shape
        steps, tokens = figure.axes
        training, validation, *others = steps.lines
        assert len(others) == 2
        np.testing.assert_allclose(validation.get_xydata(), [[100, 3.0], [200, 2.0]])
        np.testing.assert_allclose(training.get_ydata(), [3.0, 2.0])
        np.testing.assert_allclose(tokens.lines[1].get_xdata(), [1000, 2000])
        np.testing.assert_allclose(tokens.lines[3].get_xdata(), [3000, 6000])
        assert to_hex(validation.get_color()) == PALETTE["up"]
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]


def test_losses_without_tokens_are_drawn_over_steps(made_run):
    runs = [made_run("a"), made_run("b")]
    for run in runs:
        text = (run / "metrics.jsonl").read_text()
        (run / "metrics.jsonl").write_text(text.replace('"target_tokens": 1000, ', ""))
    steps, tokens = figures.losses(compare.compare(runs)).axes
    assert len(steps.lines[1].get_xdata()) == 2 and not len(tokens.lines[1].get_xdata())
