"""The experts of each layer by language: a heat map, ordered by shared experts.

The tree of that order, the share of dropped tokens and the entropy of the load are beside it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from eval.records.analysis import ExpertLoad
from eval.records.analysis_index import order_of_layer
from eval.report.figures.drawing import PALETTE, WIDE, canvas, shortened, styled, tooltip
from mmt import languages

PANELS = 6  # layers in one figure
STRONG = 4.0  # times the fair share: load with full colour
_ROW, _LEAST = 0.125, 2.6  # inches: height of a language, least height of a figure


class Layers(NamedTuple):
    """Routing rows as tables. by_layer: layer -> code -> row; codes: languages with every layer."""

    by_layer: Mapping[str, Mapping[str, ExpertLoad]]
    codes: tuple[str, ...]
    left_out: int


class Tree(NamedTuple):
    """Languages in an order in which neighbours share experts; lines to draw: (depth, place)."""

    codes: tuple[str, ...]
    lines: tuple[tuple[Sequence[float], Sequence[float]], ...]


def layers(rows: Sequence[ExpertLoad]) -> Layers:
    """Returns the routing rows of one system by layer (encoder first) and language."""
    by_layer: dict[str, dict[str, ExpertLoad]] = {}
    for row in sorted(rows, key=lambda row: (order_of_layer(row.layer), row.source)):
        of_layer = by_layer.setdefault(row.layer, {})
        first = next(iter(of_layer.values()), row)
        if len(row.load) != len(first.load):
            raise ValueError(
                f"routing rows of {row.system}, {row.layer}: load of {row.source} has "
                f"{len(row.load)} experts, of {first.source} {len(first.load)}"
            )
        of_layer[row.source] = row
    everyone = dict.fromkeys(row.source for row in rows)
    codes_in_all = tuple(
        code for code in everyone if all(code in of_layer for of_layer in by_layer.values())
    )
    return Layers(by_layer, codes_in_all, len(everyone) - len(codes_in_all))


def shared(rows: Layers) -> np.ndarray:
    """Returns [L, L]: the share of tokens that two languages send to the same experts.

    It is the mean over layers of Σ_e min(load_a, load_b): 1 for equal loads, 0 without shared
    experts.
    """
    total = np.zeros((len(rows.codes), len(rows.codes)))
    for of_layer in rows.by_layer.values():
        load = np.array([of_layer[code].load for code in rows.codes])
        total += np.minimum(load[:, None], load[None]).sum(-1)
    return total / len(rows.by_layer)


def tree(rows: Layers) -> Tree:
    """Returns the languages clustered by shared experts (average linkage, optimal leaf order)."""
    if len(rows.codes) < 3:
        return Tree(rows.codes, ())
    distance = 1 - shared(rows)
    np.fill_diagonal(distance, 0)
    joined = hierarchy.linkage(
        squareform(distance.clip(0), checks=False), "average", optimal_ordering=True
    )
    drawn = hierarchy.dendrogram(joined, no_plot=True)
    lines = zip(drawn["dcoord"], drawn["icoord"], strict=True)
    return Tree(
        tuple(rows.codes[leaf] for leaf in drawn["leaves"]),
        tuple(
            (depth, [(position - 5) / 10 for position in coordinates])
            for depth, coordinates in lines
        ),
    )


def experts(system: str, rows: Sequence[ExpertLoad], width: float = WIDE) -> list[Figure]:
    """Draws heat maps of all layers of one system, six per wide figure and one per narrow one.

    Returns no figure without languages, or if no layer has more than one expert.
    """
    layer_rows = layers(rows)
    if not layer_rows.codes or all(len(row.load) < 2 for row in rows):
        return []
    order = tree(layer_rows)
    names = list(layer_rows.by_layer)
    parts = math.ceil(len(names) / PANELS) if width == WIDE else len(names)
    size = math.ceil(len(names) / parts)
    title = f"{system} at {rows[0].checkpoint}, {rows[0].testset}"
    return [
        _experts(title, layer_rows, order, names[start : start + size], width)
        for start in range(0, len(names), size)
    ]


def _experts(title: str, rows: Layers, order: Tree, names: Sequence[str], width: float) -> Figure:
    counts = [len(rows.by_layer[name][order.codes[0]].load) for name in names]
    height = max(_LEAST, 1.0 + _ROW * len(order.codes))
    with styled():
        lacking = f"; languages left out: {rows.left_out}" if rows.left_out else ""
        figure = canvas(f"Experts by language: {title}{lacking}", width=width, height=height)
        side = 0.22 + 0.05 * len(names) if width == WIDE else 0.4
        room = width - 3.3 if width == WIDE else width - 2.1  # of the heat maps, in inches
        of_tree = 1.0 if width == WIDE else 0.01  # phones have no room for it
        table = [[rows.by_layer[name][code] for name in names] for code in order.codes]
        dropped = any(row.drop_rate for of_language in table for row in of_language)
        gated = all(row.gate is not None for of_language in table for row in of_language)
        fields = (*["drop_rate"] * dropped, "entropy", *["gate"] * gated)
        widths = [of_tree, *(room * count / sum(counts) for count in counts), *[side] * len(fields)]
        panels = figure.subplots(1, len(widths), sharey=True, width_ratios=widths)
        _tree(panels[0], order if width == WIDE else Tree(order.codes, ()))
        for axes, name in zip(panels[1:], names, strict=False):
            _heat(axes, name, [rows.by_layer[name][code] for code in order.codes])
            _number(axes, round(sum(counts) * WIDE / width))
        for axes, field in zip(panels[-len(fields) :], fields, strict=True):
            _strip(axes, field, table)
        panels[1].set_yticks(
            range(len(order.codes)),
            [
                shortened(languages.find(code).name, 28 if width == WIDE else 26)
                for code in order.codes
            ],
            size=7 if width == WIDE else 6,
        )
        panels[1].tick_params(labelleft=True)
        key = f"full colour: {STRONG:g} × an expert's fair share of the tokens"
        panels[1].set_xlabel(key, size=7, color=PALETTE["muted"], loc="left")
        for axes in panels[2:]:
            axes.yaxis.set_visible(False)
        panels[0].set_ylim(len(order.codes) - 0.5, -0.5)
        _targets(panels[-1], table, reach=len(names) * sum(widths) / side)
        return figure


def _tree(axes: Axes, order: Tree) -> None:
    axes.set_axis_off()
    if order.lines:
        axes.set_title("shared experts", size=8, color=PALETTE["muted"])
    for depth, coordinates in order.lines:
        axes.plot(depth, coordinates, color=PALETTE["muted"], linewidth=0.8)
    deepest = max((max(depth) for depth, _ in order.lines), default=0)
    axes.set_xlim(deepest * 1.03 or 1, 0)


def _heat(axes: Axes, name: str, rows: Sequence[ExpertLoad]) -> None:
    """Draws the load in colour, relative to the fair share 1/E; experts in order of languages."""
    load = np.array([row.load for row in rows])
    count = load.shape[1]
    weights = load / np.maximum(load.sum(0), 1e-12)
    order = np.argsort(weights.T @ np.arange(len(rows)), kind="stable")
    _image(axes, np.minimum(load[:, order] * count / STRONG, 1), PALETTE["up"])
    axes.set_title(f"{name}, {count} experts", size=8, color=PALETTE["muted"])
    axes.set_xticks(range(count), [str(expert + 1) for expert in order])


def _number(axes: Axes, experts: int) -> None:
    """Writes expert numbers where there is room. experts: as many as a wide figure would have."""
    axes.tick_params(axis="x", labelsize=5.5, rotation=90 if experts > 60 else 0)
    if experts > 130:
        axes.set_xticks([])


def _strip(axes: Axes, field: str, rows: Sequence[Sequence[ExpertLoad]]) -> None:
    """Draws a column per layer: dropped tokens, the gate, or entropy (lower is stronger)."""
    values = np.array([[getattr(row, field) for row in of_language] for of_language in rows])
    if field == "drop_rate":
        top = max(values.max(), 1e-9)
        _image(axes, values / top, PALETTE["down"])
        title = f"dropped\n0–{values.max():.1%}"
    elif field == "gate":
        low, top = values.min(), values.max()
        _image(axes, (values - low) / max(top - low, 1e-9), PALETTE["series-4"])
        title = f"gate\n{low:.2f}–{top:.2f}"
    else:
        low = values.min()
        _image(axes, (1 - values) / max(1 - low, 1e-9), PALETTE["series-3"])
        title = f"entropy\n1–{low:.2f}"
    axes.set_title(title, size=7, color=PALETTE["muted"])
    axes.set_xticks([])


def _image(axes: Axes, strength: np.ndarray, shade: str) -> None:
    """Draws values in one hue with varying opacity, for light and dark pages."""
    rgba = np.empty((*strength.shape, 4))
    rgba[..., :3] = to_rgb(shade)
    rgba[..., 3] = strength
    axes.imshow(rgba, aspect="auto", interpolation="none")
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelleft=False)


def _targets(axes: Axes, rows: Sequence[Sequence[ExpertLoad]], *, reach: float) -> None:
    """Adds a tooltip with its numbers to each language's row, in every panel.

    axes: the last panel. reach: the extent of the other panels to the left, in its units.
    """
    left, right = axes.get_xlim()
    for i, of_language in enumerate(rows):
        numbers = "; ".join(map(_numbers, of_language))
        name = languages.find(of_language[0].source).name
        (target,) = axes.barh(
            i, reach, 1, right - reach, color=PALETTE["page"], alpha=0.01, linewidth=0,
            gid=tooltip(f"{name}: {numbers}"), clip_on=False,
        )  # fmt: skip
        target.set_in_layout(False)
    axes.set_xlim(left, right)


def _numbers(row: ExpertLoad) -> str:
    top = sorted(range(len(row.load)), key=lambda expert: -row.load[expert])[:3]
    largest = ", ".join(f"{expert + 1} {row.load[expert]:.0%}" for expert in top)
    gate = "" if row.gate is None else f", gate {row.gate:.2f}"
    return f"{row.layer} {largest}, dropped {row.drop_rate:.1%}, entropy {row.entropy:.2f}{gate}"
