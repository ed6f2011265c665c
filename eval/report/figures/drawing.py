"""How the figures of a report look: one style, one palette, PNG and SVG of the same drawing.

Each figure is one matplotlib figure, drawn once and given as PNG, as SVG, and as SVG that takes its
colours and font from the page around it. What is drawn: figures_scores.py, figures_training.py,
figures_routing.py.
"""

import contextlib
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
_BETWEEN = "\N{SYMBOL FOR UNIT SEPARATOR}"  # of tips in one id


def styled() -> contextlib.AbstractContextManager[None]:
    """Everything is drawn inside of this."""
    return matplotlib.rc_context(_STYLE)


def canvas(title: str, *, width: float = 11.5, height: float = 4.8) -> Figure:
    """An empty figure with its title; sizes in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title, x=0.006, ha="left", size=12, weight="bold")
    return figure


def empty(figure: Figure, axes: Axes, reason: str) -> Figure:
    """Says why there is nothing to see."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, reason, ha="center", color=PALETTE["muted"], transform=axes.transAxes)
    return figure


def legend(axes: Axes, *, above: float) -> None:
    """The legend over the axes, at their left, in as many columns as fit."""
    labels = axes.get_legend_handles_labels()[1]
    if not labels:
        return
    columns = _columns(labels)
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.005, above),
        ncols=columns,
        handlelength=1.6,
        borderpad=0,
        columnspacing=1.8,
    )


def legend_of_all(figure: Figure) -> None:
    """One legend for all panels, between the title and them; after everything is drawn."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    columns = _columns(labels)
    above = 0.94 - 0.05 * -(-len(labels) // columns)
    figure.set_layout_engine("constrained", rect=(0, 0, 1, above))
    figure.legend(
        handles, labels, loc="upper left", bbox_to_anchor=(0, 0.95), ncols=columns, borderpad=0.2
    )


def colour(systems: Sequence[str], system: str) -> str:
    """A system's colour, the same in every figure."""
    return PALETTE[_SERIES[systems.index(system) % len(_SERIES)]]


def dashes(systems: Sequence[str], system: str) -> str:
    """Its line, for those that have to share a colour."""
    return ("-", (0, (5, 2)), ":")[systems.index(system) // len(_SERIES) % 3]  # type: ignore[return-value]


def shortened(name: str, longest: int = 20) -> str:
    """A name that leaves room for the figure."""
    return name if len(name) <= longest else f"{name[: longest - 1].rstrip()}…"


def marker(systems: Sequence[str], system: str) -> str:
    """Its mark, likewise."""
    return "os^"[systems.index(system) // len(_SERIES) % 3]


def dots(
    axes: Axes, xs: Sequence[float], ys: Sequence[float], *, tips: Sequence[str], **style: Any
) -> None:
    """Dots of one look; who points at one sees its tip."""
    if xs:
        axes.scatter(xs, ys, gid=f"tips {_unquoted(_BETWEEN.join(tips))}", **style)


def tip(text: str) -> str:
    """The gid of a mark that shows a text to who points at it."""
    return f"tip {_unquoted(text)}"


def label(text: str) -> str:
    """A label of a legend; matplotlib leaves out one that begins with `_`."""
    return f" {text}" if text.startswith("_") else text


def png(figure: Figure) -> bytes:
    """The figure as PNG, 200 dots per inch; equal figures give equal bytes."""
    buffer = io.BytesIO()
    with styled():
        figure.savefig(buffer, format="png", dpi=200, metadata={"Software": None})
    return buffer.getvalue()


def svg(figure: Figure) -> str:
    """The figure as SVG with text as text; equal figures give equal text."""
    buffer = io.StringIO()
    with styled():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)
    text = re.sub(r'<g id="tip ([^"]*)">', r"<g><title>\1</title>", text)
    text = re.sub(r'(\n *)<g id="tips ([^"]*)">(.*?)\1</g>', _tipped, text, flags=re.DOTALL)
    text = re.sub(r' (?:d|x|y|width|height|transform|points)="[^"]*"', _rounded, text)
    # Clip paths are named by a hash of coordinates whose last digits vary: numbers instead.
    clips = dict.fromkeys(re.findall(r'<clipPath id="(\w+)"', text))
    for number, clip in enumerate(clips):
        text = re.sub(rf"(#|\")({clip})\b", rf"\1clip{number}", text)
    return text.replace("'DejaVu Sans'", _FONTS)


def inline(text: str, name: str) -> str:
    """SVG for use inside HTML: ids of its own, colours by CSS variables, no reference outside."""
    head, body = text[text.index("<svg") :].split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    assert box
    body = re.sub(r"<style[^>]*>.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r"<[^>]*>", lambda tag: _inlined(tag[0], name), body)
    return f'<svg {box[0]} role="img">{body}'


def _inlined(tag: str, name: str) -> str:
    """`inline` of one tag: what stands between tags is names, which stay as they are."""
    tag = re.sub(r'(\sid="|"#|url\(#)', rf"\g<1>{name}-", tag.replace("xlink:href", "href"))
    tag = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", tag)
    tag = re.sub(r" font-family: [^;\"]*;?", "", tag)
    for key, value in PALETTE.items():
        tag = tag.replace(value, f"var(--{key})")
    return tag


def _unquoted(text: str) -> str:
    """Text without the character that would end an id, and thereby how matplotlib writes it."""
    return text.replace('"', "”")


def _columns(labels: Sequence[str]) -> int:
    """How many columns of a legend fit side by side; at most six."""
    return max(1, min(6, 130 // (max(map(len, labels)) + 6)))


def _tipped(group: re.Match[str]) -> str:
    """A group of dots drawn with one `use` each: every one gets its title."""
    start, tips = group[1], iter(group[2].split(_BETWEEN))
    marks = re.sub(
        r"<use ([^>]*)/>", lambda use: f"<use {use[1]}><title>{next(tips)}</title></use>", group[3]
    )
    return f"{start}<g>{marks}{start}</g>"


def _rounded(attribute: re.Match[str]) -> str:
    """Coordinates to a hundredth of a point: a third of the bytes."""
    return re.sub(r"(\.\d\d)\d+", r"\1", attribute[0])
