"""The figures of a report: GShard's ΔBLEU by language, and BLEU by training size.

Each is one matplotlib figure, drawn once and given as PNG, as SVG, and as SVG that takes its
colours and font from the page around it. What is compared is decided in comparison.py.
"""

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from eval.comparison import Comparison, Entry, sliding_mean

WINDOW = 10  # languages in a sliding mean, as in Figure 6 of GShard (Lepikhin et al., 2020)
# Colour-blind safe. A page may give each name another colour: the CSS variable --NAME.
PALETTE: Mapping[str, str] = {
    "ink": "#1c2330",
    "muted": "#667085",
    "grid": "#e4e7ec",
    "page": "#fffffe",
    "up": "#2f74b5",
    "down": "#cf6a32",
    "series-2": "#cf6a33",
    "series-3": "#2b8a6b",
    "series-4": "#8d63b3",
    "series-5": "#a67c12",
    "series-6": "#5d6f86",
}
_SERIES = ("up", "series-2", "series-3", "series-4", "series-5", "series-6")
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # matplotlib brings it along: the same everywhere
    "font.size": 10,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "mmt",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "axes.edgecolor": PALETTE["muted"],
    "axes.facecolor": "none",
    "axes.labelcolor": PALETTE["muted"],
    "axes.grid.axis": "y",
    "axes.grid": True,
    "figure.facecolor": PALETTE["page"],
    "grid.color": PALETTE["grid"],
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.labelcolor": PALETTE["ink"],
    "text.color": PALETTE["ink"],
    "xtick.color": PALETTE["muted"],
    "ytick.color": PALETTE["muted"],
    "xtick.labelcolor": PALETTE["ink"],
    "ytick.left": False,
}
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
_NAMED, _CODED = 44, 140  # so many languages fit below the axis by name, by code


def delta_bleu(comparison: Comparison) -> Figure:
    """ΔBLEU of each language against its baseline, from much to little data, and sliding means."""
    with matplotlib.rc_context(_STYLE):
        figure, axes = _canvas(
            "ΔBLEU against bilingual baselines", comparison, "ΔBLEU (multilingual − bilingual)"
        )
        entries = comparison.compared.entries
        if not entries:
            return _empty(figure, axes, "no language has both a multilingual and a bilingual score")
        _bars(axes, entries, comparison)
        _means(axes, entries, comparison)
        axes.axhline(0, color=PALETTE["muted"], linewidth=1.2, zorder=2.5)
        axes.annotate(
            "baseline",
            (1, 0),
            xycoords=("axes fraction", "data"),
            va="center",
            xytext=(5, 0),
            textcoords="offset points",
            color=PALETTE["muted"],
            size=9,
        )
        _name_languages(axes, entries)
        axes.margins(y=0.1)
        _legend(axes, above=1.05)
        return figure


def bleu_by_size(comparison: Comparison) -> Figure:
    """BLEU of each language against its training pairs, with its baseline tied to it."""
    with matplotlib.rc_context(_STYLE):
        figure, axes = _canvas("BLEU by training data", comparison, "BLEU")
        axes.grid(True, axis="both")
        zeros = any(entry.train_pairs == 0 for entry in comparison.entries)
        axes.set_xscale("symlog" if zeros else "log", **({"linthresh": 10} if zeros else {}))
        axes.invert_xaxis()
        if not zeros:
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("training pairs (logarithmic), from much to little")
        for entry in comparison.entries:
            _dots(axes, comparison, entry)
        for system in comparison.systems:
            entries = [entry for entry in comparison.entries if system in entry.rows]
            means = sliding_mean([entry.rows[system].bleu for entry in entries], WINDOW)
            sizes = [entry.train_pairs for entry in entries]
            axes.plot(sizes, means, color=PALETTE["page"], linewidth=4, zorder=3.1)
            axes.plot(sizes, means, color=_colour(comparison, system), linewidth=2, zorder=3.2)
            axes.plot(
                [],
                [],
                "o-",
                color=_colour(comparison, system),
                ms=5,
                linewidth=2,
                label=f"{system}, and its sliding mean of {WINDOW} languages",
            )
        if any(entry.baseline for entry in comparison.entries):
            axes.plot([], [], "o", mfc="none", mec=PALETTE["ink"], ms=5, label="bilingual baseline")
        axes.set_ylim(bottom=0)
        _legend(axes, above=1.0)
        return figure


def png(figure: Figure) -> bytes:
    """The figure as PNG, 200 dots per inch; equal figures give equal bytes."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(buffer, format="png", dpi=200, metadata={"Software": None})
    return buffer.getvalue()


def svg(figure: Figure) -> str:
    """The figure as SVG with text as text; equal figures give equal text."""
    buffer = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)
    text = re.sub(r'<g id="tip ([^"]*)">', r"<g><title>\1</title>", text)
    return text.replace("'DejaVu Sans'", _FONTS)


def inline(text: str, name: str) -> str:
    """SVG for use inside HTML: ids of its own, colours by CSS variables, no reference outside."""
    head, body = text[text.index("<svg") :].split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    assert box
    text = f'<svg {box[0]} role="img">{body}'.replace("xlink:href", "href")
    text = re.sub(r'(\sid="|"#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r"<style[^>]*>.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    for key, colour in PALETTE.items():
        text = text.replace(colour, f"var(--{key})")
    return text


def _canvas(title: str, comparison: Comparison, label: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(11.5, 4.8), layout="constrained")
    axes = figure.add_subplot()
    figure.suptitle(
        f"{title}: {comparison.testset}, into {comparison.target.name}",
        x=0.006,
        ha="left",
        size=12,
        weight="bold",
    )
    axes.set_ylabel(label)
    return figure, axes


def _empty(figure: Figure, axes: Axes, reason: str) -> Figure:
    axes.set_axis_off()
    axes.text(0.5, 0.5, reason, ha="center", color=PALETTE["muted"], transform=axes.transAxes)
    return figure


def _legend(axes: Axes, *, above: float) -> None:
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.005, above),
        ncols=3,
        handlelength=1.6,
        borderpad=0,
        columnspacing=1.8,
    )


def _bars(axes: Axes, entries: Sequence[Entry], comparison: Comparison) -> None:
    """A bar per language and system: one system in two hues, up and down; more in a hue each."""
    systems = comparison.systems
    width = (0.68 if len(entries) <= _NAMED else 0.8) / len(systems)
    alpha = 1.0 if len(systems) == 1 else 0.5
    for place, entry in enumerate(entries):
        for index, system in enumerate(systems):
            if system not in entry.rows:
                continue
            delta = _delta(entry, system)
            way = PALETTE["up" if delta >= 0 else "down"]
            x = place + (index - (len(systems) - 1) / 2) * width
            color = way if len(systems) == 1 else _colour(comparison, system)
            for bar in axes.bar(x, delta, width, color=color, alpha=alpha, zorder=2):
                bar.set_gid(_tip(entry, system))
            if len(systems) == 1 and len(entries) <= _NAMED:
                axes.annotate(
                    f"{delta:+.1f}".replace("-", "−"),
                    (x, delta),
                    ha="center",
                    va="bottom" if delta >= 0 else "top",
                    textcoords="offset points",
                    xytext=(0, 3 if delta >= 0 else -3),
                    size=9,
                    color=PALETTE["muted"],
                    zorder=6,
                )


def _means(axes: Axes, entries: Sequence[Entry], comparison: Comparison) -> None:
    """A sliding mean per system, on a halo in the page's colour so that it reads over bars."""
    lone = len(comparison.systems) == 1
    for index, system in enumerate(comparison.systems):
        places = [place for place, entry in enumerate(entries) if system in entry.rows]
        means = sliding_mean([_delta(entries[place], system) for place in places], WINDOW)
        axes.plot(places, means, color=PALETTE["page"], linewidth=4.5, zorder=3 + index)
        axes.plot(
            places,
            means,
            linewidth=2,
            zorder=3.5 + index,
            color=PALETTE["ink"] if lone else _colour(comparison, system),
            label=f"{system}, sliding mean of {WINDOW} languages",
        )


def _dots(axes: Axes, comparison: Comparison, entry: Entry) -> None:
    for system, row in entry.rows.items():
        if entry.baseline:
            way = "up" if row.bleu >= entry.baseline.bleu else "down"
            way = way if len(comparison.systems) == 1 else "muted"
            axes.plot(
                [entry.train_pairs] * 2,
                [entry.baseline.bleu, row.bleu],
                color=PALETTE[way],
                linewidth=1.1,
                alpha=0.6,
                zorder=2,
                gid=_tip(entry, system),
            )
        axes.plot(
            entry.train_pairs,
            row.bleu,
            "o",
            ms=4.5,
            color=_colour(comparison, system),
            alpha=0.75,
            mew=0,
            zorder=3,
            gid=_tip(entry, system),
        )
    if entry.baseline:
        axes.plot(
            entry.train_pairs,
            entry.baseline.bleu,
            "o",
            ms=5,
            mfc=PALETTE["page"],
            mec=PALETTE["ink"],
            zorder=4,
            gid=f"tip {entry.language.name}: {entry.baseline.bleu:.1f} BLEU, bilingual",
        )


def _name_languages(axes: Axes, entries: Sequence[Entry]) -> None:
    """Below the axis the languages, as far as they fit; above it the two ends of the data."""
    axes.grid(False, axis="x")
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.6, len(entries) - 0.4)
    axes.set_xticks([])
    if len(entries) <= _NAMED:
        names = [entry.language.name for entry in entries]
        axes.set_xticks(range(len(entries)), names, rotation=40, ha="right", rotation_mode="anchor")
    elif len(entries) <= _CODED:
        codes = [entry.language.iso3 for entry in entries]
        axes.set_xticks(range(len(entries)), codes, rotation=90, size=6.5)
    for x, side, entry in ((0, "left", entries[0]), (1, "right", entries[-1])):
        axes.annotate(
            f"{entry.train_pairs:,} training pairs",
            (x, 1),
            xycoords="axes fraction",
            ha=side,
            size=9,
            xytext=(0, 4),
            textcoords="offset points",
            color=PALETTE["muted"],
        )


def _tip(entry: Entry, system: str) -> str:
    """What a reader sees who points at it; `svg` makes a title of it."""
    row = entry.rows[system]
    text = f"tip {entry.language.name}: {row.bleu:.1f} BLEU, {system}"
    if entry.baseline:
        text += f"; {entry.baseline.bleu:.1f} bilingual; Δ {row.bleu - entry.baseline.bleu:+.1f}"
    return f"{text}; {entry.train_pairs:,} training pairs"


def _colour(comparison: Comparison, system: str) -> str:
    return PALETTE[_SERIES[comparison.systems.index(system) % len(_SERIES)]]


def _delta(entry: Entry, system: str) -> float:
    delta = entry.delta(system)
    assert delta is not None
    return delta
