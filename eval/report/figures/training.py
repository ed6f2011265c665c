"""Figures of training: quality against cost (GShard's Figure 1), loss against tokens (Table 2)."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from eval.records.analysis import Cost, Curve
from eval.records.analysis_index import Evidence, measured
from eval.report.comparison import Comparison, mean_interval
from eval.report.figures.drawing import (
    PALETTE,
    canvas,
    colour,
    dashes,
    label,
    legend_of_all,
    marker,
    styled,
    tip,
)
from eval.report.tables import amount


class Axis(NamedTuple):
    """What a system may cost. summed: whether a student needs what its teacher took, too."""

    label: str
    of: Callable[[Cost], float]
    summed: bool


COSTS = (
    Axis("device-hours", lambda cost: cost.device_hours, True),
    Axis("parameters", lambda cost: cost.parameters, False),
    Axis("target tokens seen in training", lambda cost: cost.tokens, True),
)


def quality_by_cost(comparison: Comparison, evidence: Evidence) -> Figure | None:
    """Mean ΔBLEU (BLEU where no language has a baseline) against device-hours, size and tokens.

    The baselines together are one point: their device-hours and tokens summed, the size of all of
    them. A student's device-hours and tokens are with its teacher's, and likewise those of a system
    that began with another's weights. None without `cost` rows of
    two systems.
    """
    group, score = comparison.compared, "delta"
    if not group.entries:
        group, score = comparison.all, "bleu"
    spent = {system: evidence.costs(system) for system in comparison.systems}
    bilingual = {e.baseline.system for e in group.entries if e.baseline}
    spent[""] = [cost for system in sorted(bilingual) for cost in evidence.costs(system)]
    points = {
        system: (group.values(system, score) if system else [0.0], costs)  # type: ignore[arg-type]
        for system, costs in spent.items()
        if costs
    }
    points = {system: point for system, point in points.items() if point[0]}
    if len(points) < 2:
        return None
    with styled():
        what = "mean ΔBLEU over the baselines" if score == "delta" else "mean BLEU"
        title = f"Quality against cost: {comparison.testset}, into {comparison.target.name}"
        figure = canvas(title, height=4.2)
        panels = figure.subplots(1, len(COSTS), sharey=True)
        for axes, axis in zip(panels, COSTS, strict=True):
            axes.grid(True, axis="both")
            axes.set_xlabel(axis.label)
            for system, (values, costs) in points.items():
                needed = [*costs, *(evidence.before(system) if axis.summed else [])]
                x, y = sum(axis.of(cost) for cost in needed), sum(values) / len(values)
                shade = colour(comparison.systems, system) if system else PALETTE["ink"]
                name = system or f"{len(costs)} baselines"
                if ends := mean_interval(values):
                    axes.vlines(x, *ends, color=shade, linewidth=1.2, alpha=0.5)
                said = tip(f"{name}: {y:.1f} {what}; {amount(x)} {axis.label}")
                look = {"marker": marker(comparison.systems, system)} if system else {}
                look = look or {"marker": "o", "mfc": PALETTE["page"]}
                shown = label(name) if axis is COSTS[0] else None
                axes.plot(x, y, ms=8, color=shade, gid=said, zorder=3, label=shown, ls="", **look)
            axes.margins(x=0.15, y=0.15)
            _mark(axes)
        panels[0].set_ylabel(what)
        legend_of_all(figure)
        return figure


def loss_by_tokens(systems: Sequence[str], evidence: Evidence) -> Figure | None:
    """Training loss (thin) and validation loss against target tokens; None without `curve` rows.

    A second panel has validation BLEU where it was measured more than once.
    """
    curves = [(system, curve) for system in systems if (curve := evidence.curve(system))]
    curves = [(system, curve) for system, curve in curves if any(curve.tokens)]
    if not curves:
        return None
    scored = any(len(measured(curve, curve.bleu)) > 1 for _, curve in curves)
    with styled():
        figure = canvas("Sample efficiency: loss against target tokens", height=4.4)
        panels = figure.subplots(1, 2 if scored else 1, squeeze=False)[0]
        labels = ("loss (bold: validation)", "validation BLEU, of few sentences")
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


def _line(axes: Axes, curve: Curve, values: Sequence[float | None], **look: Any) -> None:
    seen = measured(curve, values)
    axes.plot([tokens for tokens, _ in seen], [value for _, value in seen], **look)


def _zoom(axes: Axes, curves: Sequence[Curve]) -> None:
    """The first steps' losses would hide all others: the axis ends above the median's double."""
    seen = sorted(value for curve in curves for _, value in measured(curve, curve.loss))
    if seen:
        low, middle = seen[0], seen[len(seen) // 2]
        axes.set_ylim(low - 0.05 * (middle - low), min(seen[-1], low + 4 * (middle - low)) + 1e-6)


def _mark(axes: Axes) -> None:
    """A logarithmic axis with some four to eight numbers, after everything is drawn."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    subs = (1, 2, 5) if high < 200 * low else (1,)
    axes.xaxis.set_major_locator(MaxNLocator(4) if high < 5 * low else LogLocator(subs=subs))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
