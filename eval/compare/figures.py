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
        curve for one in comparison.training.summaries for curve in (one.training, one.validation)
    ]
    if not any(curve.steps for curve in curves):
        return None
    shape = (1, 2) if width == WIDE else (2, 1)
    with styled():
        figure = canvas("Losses", width=width, height=1.2 + 3.2 * shape[0])
        panels = figure.subplots(*shape, sharey=True, squeeze=False).flatten()
        for axes, (field, what) in zip(panels, _PANELS, strict=True):
            axes.grid(True, axis="both")
            axes.set_xlabel(what)
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
    for run, one in zip(runs, comparison.training.summaries, strict=True):
        shade, dash = colour(runs, run), dashes(runs, run)
        xs, ys = _known(one.training, field)
        axes.plot(xs, ys, linewidth=1, alpha=0.5, color=shade, linestyle=dash)
        xs, ys = _known(one.validation, field)
        few = "o" if len(xs) <= 60 else None
        axes.plot(
            xs, ys, linewidth=2.2, marker=few, ms=3, color=shade, linestyle=dash,
            label=label(shortened(run, 40)),
        )  # fmt: skip


def _known(curve: LossCurve, field: str) -> tuple[list[float], list[float]]:
    points = zip(getattr(curve, field), curve.loss, strict=True)
    known = [(x, y) for x, y in points if math.isfinite(x)]
    return [x for x, _ in known], [y for _, y in known]


def _zoom(axes: Axes, curves: Sequence[LossCurve]) -> None:
    """Limits the axis, because the first steps' losses would dominate it."""
    seen = sorted(loss for curve in curves for loss in curve.loss)
    low, middle = seen[0], seen[len(seen) // 2]
    if middle > low:
        axes.set_ylim(low - 0.05 * (middle - low), min(seen[-1], low + 4 * (middle - low)))
