"""Figures of training: quality against cost (GShard's Figure 1), loss against tokens (Table 2)."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from eval.analyses.mean_interval import mean_interval
from eval.records.analysis import Cost, Curve
from eval.records.analysis_index import AnalysisIndex, measured
from eval.report.cells import amount
from eval.report.comparison import Comparison
from eval.report.figures.drawing import (
    PALETTE,
    WIDE,
    canvas,
    colour,
    dashes,
    label,
    legend_of_all,
    marker,
    styled,
    tooltip,
)
from eval.report.figures.scores import titled


class Axis(NamedTuple):
    """A cost of a system. summed: whether a student's includes its teacher's."""

    label: str
    of: Callable[[Cost], float]
    summed: bool

    def total(self, costs_of: tuple[Sequence[Cost], Sequence[Cost | None]]) -> float | None:
        """Returns the sum over a system's costs and, if `summed`, those of its parents.

        None if a cost is unknown.
        """
        costs, parents = costs_of
        needed = [*costs, *(parents if self.summed else [])]
        known = [self.of(cost) for cost in needed if cost]
        return sum(known) if len(known) == len(needed) else None


COSTS = (
    Axis("device-hours", lambda cost: cost.device_hours, True),
    Axis("parameters", lambda cost: cost.parameters, False),
    Axis("target tokens seen in training", lambda cost: cost.tokens, True),
)


def quality_by_cost(
    comparison: Comparison, analyses: AnalysisIndex, width: float = WIDE
) -> Figure | None:
    """Draws mean ΔBLEU (BLEU without baselines) against device-hours, size and tokens.

    The baselines are one point: the sums of their device-hours, parameters and tokens. Device-hours
    and tokens of a student include its teacher's. Those of a system that started from another
    system's weights include that system's; if that is unknown, the panel lacks the system. A cost
    that is equal for all has no panel. None without `cost` rows of two systems, or if no cost
    differs.
    """
    group, score = comparison.compared, "delta"
    if not group.entries:
        group, score = comparison.all, "bleu"
    spent = {system: analyses.costs(system) for system in comparison.systems}
    bilingual = {e.baseline.system for e in group.entries if e.baseline}
    spent[""] = [cost for system in sorted(bilingual) for cost in analyses.costs(system)]
    points = {
        system: (group.values(system, score) if system else [0.0], costs)  # type: ignore[arg-type]
        for system, costs in spent.items()
        if costs
    }
    points = {system: point for system, point in points.items() if point[0]}
    costs_of = {system: _needed(system, costs, analyses) for system, (_, costs) in points.items()}
    totals = {
        axis: {s: total for s, n in costs_of.items() if (total := axis.total(n)) is not None}
        for axis in COSTS
    }
    axes_shown = [axis for axis in COSTS if _differs([*totals[axis].values()])]
    if len(points) < 2 or not axes_shown:
        return None
    with styled():
        y_label = "mean ΔBLEU over the baselines" if score == "delta" else "mean BLEU"
        columns = len(axes_shown) if width == WIDE else 1
        rows = len(axes_shown) // columns
        figure = canvas(titled("Quality against cost", comparison), width=width,
                        height=1.4 + 2.6 * rows)  # fmt: skip
        panels = figure.subplots(rows, columns, sharey=True, squeeze=False).flat
        for axes, axis in zip(panels, axes_shown, strict=True):
            axes.grid(True, axis="both")
            axes.set_xlabel(axis.label)
            for system, (values, costs) in points.items():
                name = system or f"{len(costs)} baseline{'' if len(costs) == 1 else 's'}"
                look = _look(comparison.palette, system)
                if axis is axes_shown[0]:
                    look["label"] = label(name)
                if system not in totals[axis]:
                    axes.plot([], [], **look)  # for the legend
                    continue
                x, y = totals[axis][system], sum(values) / len(values)
                if ends := mean_interval(values):
                    axes.vlines(x, *ends, color=look["color"], linewidth=1.2, alpha=0.5)
                message = tooltip(f"{name}: {y:.1f} {y_label}; {amount(x)} {axis.label}")
                axes.plot(x, y, gid=message, zorder=3, **look)
            axes.margins(x=0.15, y=0.15)
            _mark(axes)
        figure.axes[0].set_ylabel(y_label)
        legend_of_all(figure)
        return figure


def _needed(
    system: str, costs: Sequence[Cost], analyses: AnalysisIndex
) -> tuple[list[Cost], list[Cost | None]]:
    """Returns the costs of a system ("" for the baselines) and of the systems it started from."""
    return list(costs), list(analyses.parent_costs(system).values()) if system else []


def _look(palette: Sequence[str], system: str) -> dict[str, Any]:
    """Returns the style of a system's mark ("" for the baselines)."""
    look = {"marker": "o", "mfc": PALETTE["page"], "color": PALETTE["ink"]}
    if system:
        look = {"marker": marker(palette, system), "color": colour(palette, system)}
    return look | {"ms": 8, "ls": ""}


def _differs(values: Sequence[float]) -> bool:
    """Returns whether costs are distinguishable on a logarithmic axis."""
    return max(values, default=0) > 1.1 * min(values, default=0)


def loss_by_tokens(
    systems: Sequence[str], analyses: AnalysisIndex, width: float = WIDE
) -> Figure | None:
    """Draws training loss (thin) and validation loss against target tokens.

    A second panel has validation BLEU if it was measured more than once. None without a `curve` row
    of two points.
    """
    curves = [(system, curve) for system in systems if (curve := analyses.curve(system))]
    curves = [(system, curve) for system, curve in curves if sum(map(bool, curve.tokens)) > 1]
    if not curves:
        return None
    scored = any(len(measured(curve, curve.bleu)) > 1 for _, curve in curves)
    shape = (1, 1 + scored) if width == WIDE else (1 + scored, 1)
    with styled():
        figure = canvas("Sample efficiency: loss against target tokens", width=width,
                        height=1.4 + 3.0 * shape[0])  # fmt: skip
        panels = figure.subplots(*shape, squeeze=False).flatten()
        labels = ("loss (bold: validation)", "validation BLEU of a sample")
        for axes, what in zip(panels, labels, strict=False):
            axes.grid(True, axis="both")
            axes.set_xlabel("target tokens seen in training")
            axes.set_ylabel(what)
        for system, curve in curves:
            look: dict[str, Any] = {"color": colour(systems, system)}
            look["linestyle"] = dashes(systems, system)
            _line(panels[0], curve, curve.loss, linewidth=1, alpha=0.45, **look)
            named = {"label": label(system), **look}
            _line(panels[0], curve, curve.validation_loss, linewidth=2.2, **named)
            if scored:
                _line(panels[1], curve, curve.bleu, linewidth=2.2, marker="o", ms=3, **look)
        for axes in panels:
            _mark(axes)
        _zoom(panels[0], [curve for _, curve in curves])
        legend_of_all(figure)
        return figure


def source_use_by_tokens(
    systems: Sequence[str], analyses: AnalysisIndex, width: float = WIDE
) -> Figure | None:
    """Draws how much the source lowers the validation loss, against target tokens.

    None if no system was measured more than once.
    """
    curves = {system: curve for system in systems if (curve := analyses.curve(system))}
    curves = {
        system: curve
        for system, curve in curves.items()
        if curve.source_use and len(measured(curve, curve.source_use)) > 1
    }
    if not curves:
        return None
    with styled():
        figure = canvas("What the source tells, against target tokens", width=width, height=4.4)
        axes = figure.subplots()
        axes.grid(True, axis="both")
        axes.set_xlabel("target tokens seen in training")
        axes.set_ylabel("loss with another source - loss, nats per token")
        for system, curve in curves.items():
            look: dict[str, Any] = {"color": colour(systems, system), "label": label(system)}
            look["linestyle"] = dashes(systems, system)
            _line(axes, curve, curve.source_use, linewidth=2.2, marker="o", ms=3, **look)
        _mark(axes)
        legend_of_all(figure)
        return figure


def _line(axes: Axes, curve: Curve, values: Sequence[float | None], **look: Any) -> None:
    points = measured(curve, values)
    axes.plot([tokens for tokens, _ in points], [value for _, value in points], **look)


def _zoom(axes: Axes, curves: Sequence[Curve]) -> None:
    """Limits the axis, because the first steps' losses would dominate it.

    It ends at four times the distance of the median from the lowest training loss, or at the
    highest validation loss after the first.
    """

    def known(curve: Curve, values: Sequence[float | None]) -> list[float]:
        return [value for _, value in measured(curve, values) if math.isfinite(value)]

    losses = sorted(value for curve in curves for value in known(curve, curve.loss))
    if not losses:
        return
    validation = [v for curve in curves for v in known(curve, curve.validation_loss)[1:]]
    low, middle = losses[0], losses[len(losses) // 2]
    margin = 0.05 * (middle - low)
    highest = min(losses[-1], low + 4 * (middle - low))
    axes.set_ylim(
        min([low, *validation]) - margin,
        max([highest, *(loss + margin for loss in validation)]) + 1e-6,
    )


def _mark(axes: Axes) -> None:
    """Labels a logarithmic axis over a factor of two or more; call it after drawing.

    It has four to eight distinct labels.
    """
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    if high < 2 * low:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(2), middle * math.sqrt(2)
        axes.set_xlim(low, high)
    subs = (1, 2, 5) if high < 200 * low else (1,)
    axes.xaxis.set_major_locator(MaxNLocator(4) if high < 5 * low else LogLocator(subs=subs))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
