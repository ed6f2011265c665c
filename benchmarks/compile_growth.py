"""Measures how the cost of compiling GShard's training step grows with chips, experts and layers.

    python -m benchmarks.compile_growth [FIGURE.png] [--level default] [--largest]

The step is that of gin_configs/models/gshard_600b.gin in bfloat16 (with 60 layers: gshard_1t.gin),
with one expert and 2,048 source tokens per chip, for TPU v4. It needs the extra [plan], but no TPU.
GShard claims O(1) compile time in chips, without figures. The measure is CPU-seconds of
`compile()`, which other load affects less than wall seconds. It takes about 6 minutes on 2 free
cores at level O1, and 4 times that by default.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from eval.report.figures.drawing import PALETTE
from mmt import plan

MODEL = "gin_configs/models/gshard_600b.gin"
SHAPES = {4: "2x2x1", 64: "4x4x4", 512: "8x8x8", 2048: "8x16x16"}
LAYERS = (12, 24, 36, 60)  # at 2,048 chips: 200B, 400B, 600B, 1T


def compiled(chips: int, layers: int) -> dict[str, Any]:
    """Returns the plan's JSON for this many chips, with experts in every odd layer."""
    bindings = [
        f"BATCH_SIZE={16 * chips}", f"moe.MoeConfig.num_experts={chips}",
        f"transformer.Config.encoder_layers={layers // 2}",
        f"transformer.Config.decoder_layers={layers // 2}",
        "transformer.Config.dtype='bfloat16'",
    ]  # fmt: skip
    answer = plan.plan([MODEL], bindings, f"v4:{SHAPES[chips]}").to_json()
    if answer["compile_seconds"] is None:
        raise SystemExit(f"not compiled: {'; '.join(answer['notes'])}")
    return answer


def table(rows: dict[tuple[int, int], dict[str, Any]]) -> Table:
    """Returns a row for each (chips, layers)."""
    columns = ("chips = experts", "layers", "parameters", "CPU s", "wall s",
               "RSS GiB", "all-to-all", "all-gather", "GiB a chip")  # fmt: skip
    made = Table(*columns)
    for (chips, layers), row in rows.items():
        counts = [row["collectives"].get(kind, {"count": 0})["count"]
                  for kind in ("all-to-all", "all-gather")]  # fmt: skip
        made.add_row(
            f"{chips:,}", str(layers), f"{row['parameters']['total'] / 1e9:,.1f} B",
            f"{row['compile_cpu_seconds']:.1f}", f"{row['compile_seconds']:.1f}",
            f"{row['compile_peak_bytes'] / 2**30:.2f}", *map(str, counts),
            f"{row['bytes_per_device']['total'] / 2**30:.2f}",
        )  # fmt: skip
    return made


def figure(rows: dict[tuple[int, int], dict[str, Any]], level: str) -> Figure:
    """Draws CPU-seconds over chips at the fewest layers, and over layers at the most chips."""
    style: dict[Any, Any] = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    most = max(chips for chips, _ in rows)
    fewest = min(layers for _, layers in rows)
    series = (
        ("chips = experts", f"{fewest} layers",
         {c: row for (c, n), row in rows.items() if n == fewest}),
        ("layers", f"{most:,} chips", {n: r for (c, n), r in rows.items() if c == most}),
    )  # fmt: skip
    with matplotlib.rc_context(style):
        drawn = Figure(figsize=(8.4, 3.4), layout="constrained")
        for axes, (label, title, points) in zip(
            drawn.subplots(1, 2, sharey=True), series, strict=True
        ):
            places, seconds = list(points), [r["compile_cpu_seconds"] for r in points.values()]
            axes.plot(places, seconds, "o-", color=PALETTE["up"])
            for place, value, row in zip(places, seconds, points.values(), strict=True):
                size = f"{row['parameters']['total'] / 1e9:,.0f} B"
                axes.annotate(
                    f"{value:.0f} s\n{size}", (place, value), (0, 7), ha="center", fontsize=8.5,
                    textcoords="offset points", color=PALETTE["muted"],
                )  # fmt: skip
            if label != "layers":
                axes.set_xscale("log", base=2)
            axes.minorticks_off()
            axes.set_xticks(places, [f"{place:,}" for place in places])
            axes.margins(x=0.12)
            axes.set(xlabel=label, title=title, ylim=(0, 1.4 * max(seconds)))
            axes.grid(axis="y", color=PALETTE["grid"])
        drawn.axes[0].set_ylabel("CPU-seconds to compile")
        drawn.suptitle(f"GShard's step for TPU v4, {level} level; seconds, parameters")
    return drawn


def main() -> None:
    """Compiles, prints the table and the growth, and writes the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figure", nargs="?", type=Path, metavar="FIGURE.png")
    parser.add_argument("--level", choices=("O1", "default"), default="O1")
    parser.add_argument("--largest", action="store_true", help="only 600B and 1T, for 2,048 chips")
    args = parser.parse_args()
    if args.level == "O1":
        os.environ["JAX_OPTIMIZATION_LEVEL"] = "O1"
    least, most = min(SHAPES), max(SHAPES)
    sizes = [(chips, LAYERS[0]) for chips in SHAPES] + [(most, layers) for layers in LAYERS[1:]]
    if args.largest:
        sizes = [(most, layers) for layers in LAYERS[-2:]]
    rows = {}
    for size in sizes:
        rows[size] = compiled(*size)
        print(*size, f"{rows[size]['compile_cpu_seconds']:.1f} CPU-seconds", flush=True)
    seconds = {size: row["compile_cpu_seconds"] for size, row in rows.items()}
    print(header())
    Console(width=110).print(table(rows))
    if args.largest:
        return
    first, last = (least, LAYERS[0]), (most, LAYERS[0])
    print(f"{least} -> {most:,} chips: x {seconds[last] / seconds[first]:.2f}; "
          f"{LAYERS[0]} -> {LAYERS[-1]} layers: x "
          f"{seconds[most, LAYERS[-1]] / seconds[last]:.2f}")  # fmt: skip
    if args.figure:
        args.figure.parent.mkdir(parents=True, exist_ok=True)
        figure(rows, args.level).savefig(args.figure, dpi=150)
        print(args.figure)


if __name__ == "__main__":
    main()
