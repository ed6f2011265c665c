"""The style of a report's figures: one look, one palette, and PNG and SVG of the same drawing.

Each matplotlib figure is drawn once. It is returned as PNG, as SVG, and as inline SVG that takes
colours and font from the page.
"""

import contextlib
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

# Colour-blind safe. Pages can override each colour by the CSS variable --NAME.
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
    "font.family": "DejaVu Sans",  # included in matplotlib, so the same on every machine
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
WIDE, NARROW = 11.5, 4.3  # inches: for a page or a file, and for a phone
_LEGEND_ROW, _TITLE = 15.0, 20.0  # points
_BETWEEN = "\N{SYMBOL FOR UNIT SEPARATOR}"  # separates the tooltips in one id


def styled() -> contextlib.AbstractContextManager[None]:
    """Applies the style within a `with` block."""
    return matplotlib.rc_context(_STYLE)


def canvas(title: str, *, width: float = WIDE, height: float = 4.8) -> Figure:
    """Returns an empty figure with its title, which `inline` omits; sizes in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title, x=0.006, ha="left", size=12, weight="bold", gid="title")
    return figure


def fitting(count: int, width: float) -> int:
    """Returns how many of `count` marks, which fit a wide figure, fit this width."""
    return int(count * width / WIDE)


def legend(axes: Axes, *, above: float, title: str = "") -> None:
    """Adds a legend above the axes, in as many columns as fit; the figure grows by its height.

    above: its distance from the axes, in points.
    """
    labels = axes.get_legend_handles_labels()[1]
    if not labels:
        return
    figure = axes.get_figure(root=True)
    assert figure
    columns = _columns(labels, figure.get_figwidth())
    rows = -(-len(labels) // columns) + bool(title)
    figure.set_figheight(figure.get_figheight() + (rows - 1) * _LEGEND_ROW / 72)
    offset = ScaledTranslation(0, above / 72, figure.dpi_scale_trans)
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        bbox_transform=axes.transAxes + offset,
        ncols=columns,
        handlelength=1.6,
        borderpad=0,
        borderaxespad=0,
        columnspacing=1.8,
        title=title or None,
        title_fontproperties={"size": 9},
        alignment="left",
    )


def legend_of_all(figure: Figure) -> None:
    """Adds one legend for all panels below the title; call it after drawing."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    columns = _columns(labels, figure.get_figwidth())
    rows = -(-len(labels) // columns)
    height = figure.get_figheight() * 72 + (rows - 1) * _LEGEND_ROW
    figure.set_figheight(height / 72)
    top = 1 - _TITLE / height
    figure.set_layout_engine("constrained", rect=(0, 0, 1, 1 - (rows * _LEGEND_ROW + 4) / height))
    figure.legend(
        handles, labels, loc="upper left", bbox_to_anchor=(0.006, top), ncols=columns,
        borderpad=0, borderaxespad=0, columnspacing=1.8,
    )  # fmt: skip


def colour(systems: Sequence[str], system: str) -> str:
    """Returns a system's colour, the same in every figure."""
    return PALETTE[_SERIES[systems.index(system) % len(_SERIES)]]


def dashes(systems: Sequence[str], system: str) -> str:
    """Returns a system's line style, which differs between systems of one colour."""
    return ("-", (0, (5, 2)), ":")[systems.index(system) // len(_SERIES) % 3]  # type: ignore[return-value]


def shortened(name: str, longest: int = 20) -> str:
    """Returns a name short enough to leave room for the figure."""
    return name if len(name) <= longest else f"{name[: longest - 1].rstrip()}…"


def marker(systems: Sequence[str], system: str) -> str:
    """Returns a system's mark, which differs between systems of one colour."""
    return "os^"[systems.index(system) // len(_SERIES) % 3]


def dots(
    axes: Axes, xs: Sequence[float], ys: Sequence[float], *, tips: Sequence[str], **style: Any
) -> None:
    """Draws dots of one style, each with a tooltip."""
    if xs:
        axes.scatter(xs, ys, gid=f"tips {_unquoted(_BETWEEN.join(tips))}", **style)


def tooltip(text: str) -> str:
    """Returns the gid of a mark with a tooltip."""
    return f"tip {_unquoted(text)}"


def label(text: str) -> str:
    """Returns a legend label that matplotlib shows, although it hides those that begin with `_`."""
    return f" {text}" if text.startswith("_") else text


def png(figure: Figure) -> bytes:
    """Returns the figure as PNG, 200 dots per inch; equal figures give equal bytes."""
    buffer = io.BytesIO()
    with styled():
        figure.savefig(buffer, format="png", dpi=200, metadata={"Software": None})
    return buffer.getvalue()


def svg(figure: Figure) -> str:
    """Returns the figure as SVG with text as text; equal figures give equal text."""
    buffer = io.StringIO()
    with styled():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)
    text = re.sub(r'<g id="tip ([^"]*)">', r"<g><title>\1</title>", text)
    text = re.sub(r'(\n *)<g id="tips ([^"]*)">(.*?)\1</g>', _tipped, text, flags=re.DOTALL)
    text = re.sub(r' (?:d|x|y|width|height|transform|points)="[^"]*"', _rounded, text)
    # Clip paths are renamed to numbers: matplotlib hashes coordinates whose last digits vary.
    clips = dict.fromkeys(re.findall(r'<clipPath id="(\w+)"', text))
    for number, clip in enumerate(clips):
        text = re.sub(rf"(#|\")({clip})\b", rf"\1clip{number}", text)
    return text.replace("'DejaVu Sans'", _FONTS)


def inline(text: str, name: str) -> str:
    """Returns SVG for use inside HTML, without its title, which is a heading of the page.

    Its ids begin with `name`, its colours are CSS variables, and it has no external references.
    """
    head, body = text[text.index("<svg") :].split(">", 1)
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', head)
    assert box
    width, height = float(box[1]), float(box[2])
    body, titled = re.subn(r'<g id="title">.*?</g>', "", body, flags=re.DOTALL)
    top = _TITLE - 2 if titled else 0.0
    body = re.sub(r'<g id="patch_1">.*?</g>', "", body, count=1, flags=re.DOTALL)  # the background
    body = re.sub(r"<style[^>]*>.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*"( ?/?)>', r"<g\1>", body)  # nothing refers to a group
    body = re.sub(r">\s+<", "><", body).replace("<g/>", "")
    body = re.sub(r"<[^>]*>", lambda tag: _inlined(tag[0], name), body)
    return f'<svg viewBox="0 {top:g} {width:g} {height - top:g}" role="img">{body}'


def _inlined(tag: str, name: str) -> str:
    """Returns one tag for `inline`; text between tags remains unchanged."""
    tag = re.sub(r'(\sid="|"#|url\(#)', rf"\g<1>{name}-", tag.replace("xlink:href", "href"))
    tag = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", tag)
    tag = re.sub(r" font-family: [^;\"]*;?", "", tag)
    for key, value in PALETTE.items():
        tag = tag.replace(value, f"var(--{key})")
    return tag


def _unquoted(text: str) -> str:
    """Returns text without the character that would end an id."""
    return text.replace('"', "”")


def _columns(labels: Sequence[str], width: float) -> int:
    """Returns how many legend columns fit side by side; at most six."""
    return max(1, min(6, len(labels), fitting(130, width) // (max(map(len, labels)) + 6)))


def _tipped(group: re.Match[str]) -> str:
    """Returns a group of dots in which each `use` has its own title."""
    start, tips = group[1], iter(group[2].split(_BETWEEN))
    marks = re.sub(
        r"<use ([^>]*)/>", lambda use: f"<use {use[1]}><title>{next(tips)}</title></use>", group[3]
    )
    return f"{start}<g>{marks}{start}</g>"


def _rounded(attribute: re.Match[str]) -> str:
    """Returns coordinates rounded to a hundredth of a point, a third of the bytes."""
    return re.sub(r"(\.\d\d)\d+", r"\1", attribute[0])
