"""The reliability diagram: is the confidence of `mmt translate --risk` the chrF of the lines?"""

from collections.abc import Sequence

from matplotlib.figure import Figure

from eval.records.analysis_index import AnalysisIndex
from eval.report.figures.drawing import (
    PALETTE,
    WIDE,
    canvas,
    colour,
    dashes,
    label,
    legend_of_all,
    styled,
    tooltip,
)


def reliability(
    systems: Sequence[str], analyses: AnalysisIndex, width: float = WIDE
) -> Figure | None:
    """Draws the mean chrF of bins of lines against their mean confidence; None without rows."""
    rows = {system: row for system in systems if (row := analyses.reliability(system))}
    if not rows:
        return None
    with styled():
        figure = canvas("Reliability of the confidence", width=width, height=4.4)
        axes = figure.subplots()
        axes.grid(True, axis="both")
        axes.set_xlabel("confidence of a line, mean of the bin")
        axes.set_ylabel("chrF++ of the lines, 0 to 1")
        highest = max(value for row in rows.values() for value in (*row.confidence, *row.chrf))
        axes.plot([0, highest], [0, highest], color=PALETTE["grid"], linewidth=1.5)
        for system, row in rows.items():
            shade = colour(systems, system)
            axes.plot(
                row.confidence, row.chrf, "o", ms=5, linewidth=2, color=shade,
                linestyle=dashes(systems, system), label=label(system),
            )  # fmt: skip
            for confidence, chrf, lines in zip(row.confidence, row.chrf, row.lines, strict=True):
                message = f"{system}: chrF {chrf:.2f} of {lines:,} lines at {confidence:.2f}"
                axes.plot(confidence, chrf, "o", ms=9, alpha=0.01, gid=tooltip(message))
        legend_of_all(figure)
        return figure
