"""The figure of `mmt data forecast`: sampling rates against data sizes, and epochs."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from eval.report.figures.drawing import PALETTE, canvas, legend, png, styled, svg, tooltip
from mmt.data.forecast.forecast import Forecast, Row

_NAMED = 45  # languages whose names fit below the axis


def draw(forecast: Forecast) -> Figure:
    """Draws two logarithmic panels over the languages, largest first.

    They show sampling rates, with those at T = 1 for comparison, and epochs.
    """
    rows = sorted(forecast.rows, key=lambda row: (-row["pairs"], row["language"]))
    with styled():
        figure = canvas(f"{len(rows)} languages in {forecast.steps:,} steps", height=6.4)
        upper, lower = figure.subplots(2, 1, sharex=True)
        pairs, places = sum(row["pairs"] for row in rows), range(len(rows))
        natural = [row["pairs"] / pairs for row in rows]
        upper.plot(places, natural, color=PALETTE["muted"], lw=1.4, label="of the pairs (T = 1)")
        _bars(upper, rows, [row["share"] for row in rows], "up", "{} of the examples")
        _bars(lower, rows, [row["epochs"] for row in rows], "down", "{} epochs")
        lower.axhline(1, color=PALETTE["ink"], lw=0.8)
        upper.set_ylabel("share")
        lower.set_ylabel("epochs")
        upper.containers[0].set_label("of the examples drawn")
        legend(upper, above=4)
        if len(rows) <= _NAMED:
            lower.set_xticks(places, [row["language"] for row in rows], rotation=90, size=8)
        else:
            lower.set_xlabel("languages by their pairs")
        return figure


def save(forecast: Forecast, path: Path) -> None:
    """Writes the figure. Raises ValueError for a name that ends neither with .png nor with .svg."""
    if path.suffix not in (".png", ".svg"):
        raise ValueError(f"--figure {str(path)!r}: allowed: a name that ends with .png or .svg")
    figure = draw(forecast)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".png":
        path.write_bytes(png(figure))
    else:
        path.write_text(svg(figure), encoding="utf-8")


def _bars(axes: Axes, rows: list[Row], values: list[float], colour: str, text: str) -> None:
    bars = axes.bar(range(len(rows)), values, color=PALETTE[colour], width=0.8)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    for bar, row, value in zip(bars, rows, values, strict=True):
        label = text.format(f"{value:.3g}")
        bar.set_gid(tooltip(f"{row['name']}: {label}, {row['pairs']:,} pairs"))
