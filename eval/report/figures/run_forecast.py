"""The picture of `mmt plan --run`: time of a step and of the run, its end, passes per language."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from eval.report.figures.drawing import PALETTE, WIDE, canvas, png, styled, svg

_PARTS = 9  # bars of a panel


def draw(run: Mapping[str, Any], seconds: Sequence[float]) -> dict[str, bytes | str]:
    """Returns {'forecast.png': bytes, 'forecast.svg': text}.

    Args:
        run: the forecast, as `RunForecast.to_json` returns it.
        seconds: total time of the simulated runs.
    """
    days = run["days"]["mean"]
    title = (f"{run['topology']}: {run['step_seconds']:.2f} s a step, {days:,.1f} days, "
             f"{run['goodput']:.0%} of them training")  # fmt: skip
    with styled():
        figure = canvas(title, width=WIDE, height=6.4)
        grid = figure.subplots(2, 2)
        _bars(grid[0, 0], run["step_parts_seconds"], "seconds of a step")
        _bars(grid[0, 1], {name: share * days for name, share in run["shares"].items()},
              "days of the run")  # fmt: skip
        _ends(grid[1, 0], np.asarray(seconds) / 86400, run["days_without_failures"])
        _passes(grid[1, 1], run["languages"])
        return {"forecast.png": png(figure), "forecast.svg": svg(figure)}


def _bars(axes: Axes, parts: Mapping[str, float], label: str) -> None:
    """Draws the largest parts as bars, and the others as one."""
    rows = sorted(parts.items(), key=lambda part: -part[1])
    remainder = sum(value for _, value in rows[_PARTS:])
    rows = rows[:_PARTS] + ([("smaller parts", remainder)] if remainder else [])
    names, values = zip(*reversed(rows), strict=True)
    axes.barh(range(len(rows)), values, color=PALETTE["up"], height=0.65)
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    for i, value in enumerate(values):
        axes.annotate(f" {value:.3g}", (value, i), va="center", size=8, color=PALETTE["muted"])
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.12)
    axes.set_xlabel(label)


def _ends(axes: Axes, days: np.ndarray, ideal: float) -> None:
    """Draws when simulated runs end, and the end without failures."""
    axes.hist(days, bins=20, color=PALETTE["up"])
    axes.axvline(ideal, color=PALETTE["down"])
    axes.annotate(" without failures", (ideal, 1), xycoords=("data", "axes fraction"), va="top",
                  size=8, color=PALETTE["down"])  # fmt: skip
    axes.set(xlabel="days until the end", ylabel="simulated runs")


def _passes(axes: Axes, languages: Mapping[str, Mapping[str, float]] | None) -> None:
    """Draws the passes over each language's pairs."""
    if not languages:
        axes.set_axis_off()
        axes.annotate("no corpus", (0.5, 0.5), xycoords="axes fraction", ha="center",
                      color=PALETTE["muted"])  # fmt: skip
        return
    pairs, passes = ([row[key] for row in languages.values()] for key in ("pairs", "passes"))
    axes.loglog(pairs, passes, "o", color=PALETTE["up"], markersize=4)
    axes.axhline(1, color=PALETTE["muted"], linewidth=0.8)
    axes.set(xlabel="pairs of a language", ylabel="passes")
