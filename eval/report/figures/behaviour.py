"""The behaviours of a system by language: a heat map, the weakest languages at the bottom."""

from collections.abc import Sequence
from statistics import fmean

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from eval.records.behaviour import BehaviourShares
from eval.report.figures.drawing import PALETTE, WIDE, canvas, shortened, styled, tooltip
from mmt import languages

_ROW, _LEAST = 0.16, 2.2  # inches: height of a language, least height of a figure
_NUMBERED = 60  # languages; a figure with more has no numbers


def behaviours(system: str, rows: Sequence[BehaviourShares], width: float = WIDE) -> Figure | None:
    """Draws the share of failed cases, languages × behaviours; None without rows.

    A language without cases of a behaviour has a dot.
    """
    if not rows:
        return None
    ordered = sorted(rows, key=lambda row: (-fmean(row.shares.values()), row.source))
    names = list(dict.fromkeys(name for row in rows for name in row.shares))
    failed = np.array(
        [[1 - row.shares.get(name, np.nan) for name in names] for row in ordered]
    )  # fmt: skip
    with styled():
        title = f"Behaviours by language: {system} at {rows[0].checkpoint}"
        height = max(_LEAST, 1.1 + _ROW * len(rows))
        figure = canvas(title, width=width, height=height)
        axes = figure.subplots()
        rgba = np.empty((*failed.shape, 4))
        rgba[..., :3] = to_rgb(PALETTE["down"])
        rgba[..., 3] = np.nan_to_num(failed)
        axes.imshow(rgba, aspect="auto", interpolation="none")
        axes.grid(False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        axes.xaxis.tick_top()
        axes.set_xticks(range(len(names)), names, rotation=0 if width == WIDE else 90, size=8)
        labels = [shortened(languages.find(row.source).name, 24) for row in ordered]
        axes.set_yticks(range(len(ordered)), labels, size=7)
        is_numbered = len(rows) <= _NUMBERED and width == WIDE
        for (y, x), share in np.ndenumerate(failed):
            if np.isnan(share):
                axes.text(x, y, "·", ha="center", va="center", size=7, color=PALETTE["muted"])
                continue
            if is_numbered and share:
                axes.text(x, y, f"{100 * (1 - share):.0f}", ha="center", va="center", size=7)
        for y, (row, name) in enumerate(zip(ordered, labels, strict=True)):
            (target,) = axes.barh(
                y, len(names), 1, -0.5, color=PALETTE["page"], alpha=0.01, linewidth=0,
                gid=tooltip(f"{name}: {_numbers(row)}"),
            )  # fmt: skip
            target.set_in_layout(False)
        axes.set_xlim(-0.5, len(names) - 0.5)
        return figure


def _numbers(row: BehaviourShares) -> str:
    counts = (f"{name} {row.passed[name]} of {cases}" for name, cases in row.cases.items())
    return ", ".join(counts)
