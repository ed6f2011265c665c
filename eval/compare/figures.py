"""Curves of the losses of runs, over steps and over target tokens."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from eval.compare.comparison import RunComparison
from eval.compare.training import LossCurve
from eval.report.cells import amount
from eval.report.figures.drawing import (
    WIDE,
    canvas,
    colour,
    dashes,
    label,
    legend_of_all,
    shortened,
    styled,
)

_PANELS = (("steps", "steps"), ("tokens", "target tokens seen in training"))


def losses(comparison: RunComparison, width: float = WIDE) -> Figure | None:
    """Draws training loss (thin) and validation loss over steps and over target tokens.

    None if no run has a loss.
    """
    curves = [
        curve
        for summary in comparison.training.summaries
        for curve in (summary.training, summary.validation)
    ]
    if not any(curve.steps for curve in curves):
        return None
    shape = (1, 2) if width == WIDE else (2, 1)
    with styled():
        figure = canvas("Losses", width=width, height=1.2 + 3.2 * shape[0])
        panels = figure.subplots(*shape, sharey=True, squeeze=False).flatten()
        for axes, (field, axis_label) in zip(panels, _PANELS, strict=True):
            axes.grid(True, axis="both")
            axes.set_xlabel(axis_label)
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
            if axes is panels[0] or width != WIDE:
                axes.set_ylabel("loss, nats per token (bold: validation)")
            _draw(axes, comparison, field)
        _zoom(panels[0], curves)
        legend_of_all(figure)
        return figure


def _draw(axes: Axes, comparison: RunComparison, field: str) -> None:
    runs = comparison.runs
    for run, summary in zip(runs, comparison.training.summaries, strict=True):
        shade, dash = colour(runs, run), dashes(runs, run)
        xs, ys = _known(summary.training, field)
        axes.plot(xs, ys, linewidth=1, alpha=0.5, color=shade, linestyle=dash)
        xs, ys = _known(summary.validation, field)
        marker = "o" if len(xs) <= 60 else None
        axes.plot(
            xs, ys, linewidth=2.2, marker=marker, ms=3, color=shade, linestyle=dash,
            label=label(shortened(run, 40)),
        )  # fmt: skip


def _known(curve: LossCurve, field: str) -> tuple[list[float], list[float]]:
    points = zip(getattr(curve, field), curve.loss, strict=True)
    finite_points = [(x, y) for x, y in points if math.isfinite(x)]
    return [x for x, _ in finite_points], [y for _, y in finite_points]


def _zoom(axes: Axes, curves: Sequence[LossCurve]) -> None:
    """Limits the axis, because the first steps' losses would dominate it."""
    ordered = sorted(loss for curve in curves for loss in curve.loss)
    low, middle = ordered[0], ordered[len(ordered) // 2]
    if middle > low:
        axes.set_ylim(low - 0.05 * (middle - low), min(ordered[-1], low + 4 * (middle - low)))
