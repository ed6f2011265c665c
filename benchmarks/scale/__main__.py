"""Measures caching, starting, resuming and mixing by size, and extrapolates to 25 billion pairs.

    python -m benchmarks.scale [--pairs 1e6] [--short 1e6] [--beam 0] [--index 1e8] [--out FOLDER]

Pairs are made up in a stream, in 100 languages whose sizes fall as GShard's. `--pairs` is the
largest cache with sentences of 18 words, `--short` the largest with 3 words, with
less to tokenise. `--index` is the largest cache that is opened but has no records: for starting and
resuming. `--beam 1e5` adds SeqIO's Beam job with two workers (extra [beam]) up to this number. The
mixture is measured with 100, 1,000 and 10,000 languages at 25 billion pairs.

Each measurement is a process of its own, in CPU-seconds and MiB, because other work may share the
cores. Each quantity gets a power law by least squares, without the fixed part of the smallest size.
An exponent above 1.05 is marked. Fewer than three points give no interval. `--out` gets rows.jsonl
and curves.png; `--rows FILE` shows earlier rows instead of measuring.
"""

import argparse
import json
import multiprocessing
import shutil
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from benchmarks.scale import costs, curves, made_up
from eval.report.figures import drawing
from mmt.system import environment

GOAL = 25_000_000_000  # pairs of GShard's corpus
LANGUAGES = 100
SMALLEST = 1_000  # pairs: gives the fixed part
MIXED = (100, 1_000, 10_000)
WORKERS = 2  # of Beam

Row = dict[str, Any]


def alone(work: Callable[..., costs.Values], *arguments: Any) -> costs.Values:
    """Returns the result of a function in a new process, so that memory is its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([costs.__name__])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments).result()


def powers(least: int, most: int) -> list[int]:
    """Returns the powers of ten from `least` to `most`."""
    return [10**n for n in range(1, 13) if least <= 10**n <= most]


def rows_of(series: str, size: int, values: costs.Values) -> list[Row]:
    """Returns a row per quantity."""
    return [
        {"series": series, "size": size, "quantity": name, "value": float(f"{value:.6g}"),
         "processor": environment.processor()}
        for name, value in values.items()
    ]  # fmt: skip


def measured(pairs: int, short: int, beam: int, index: int, scratch: Path) -> Iterable[list[Row]]:
    """Yields the rows of every measurement; its files are deleted after it."""
    for words, most in ((made_up.LONG, pairs), (made_up.SHORT, short)):
        series = f"pairs of {words} words"
        for size in powers(SMALLEST, most):
            yield rows_of(series, size, alone(costs.caching, scratch, size, LANGUAGES, words))
            for cost in (costs.starting, costs.resuming, costs.reading):
                yield rows_of(series, size, alone(cost, scratch))
            shutil.rmtree(scratch)
    for size in powers(SMALLEST, beam):
        seconds = alone(costs.beam_job, scratch, size, WORKERS)
        yield rows_of(f"Beam, {WORKERS} workers", size, seconds)
        shutil.rmtree(scratch)
    for size in powers(SMALLEST, index):
        yield rows_of("index alone", size, alone(costs.index, scratch, size, LANGUAGES))
        for cost in (costs.starting, costs.resuming):
            yield rows_of("index alone", size, alone(cost, scratch))
        shutil.rmtree(scratch)
    for count in MIXED:
        yield rows_of("languages", count, alone(costs.mixing_of, count, GOAL))


def points(rows: Iterable[Row]) -> dict[tuple[str, str], dict[int, float]]:
    """Returns (series, quantity) -> size -> value."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        found.setdefault((row["series"], row["quantity"]), {})[row["size"]] = row["value"]
    return found


def table(rows: list[Row]) -> Table:
    """Returns a line per quantity: the largest measured, the exponent, the value at 25 billion."""
    made = Table(title="cost by number of pairs; a quantity without an exponent has not grown yet")
    for column in ("series", "quantity", "largest size", "value", "exponent", "at 25e9", "95 %"):
        made.add_column(column, justify="left" if column in ("series", "quantity") else "right")
    for (series, quantity), values in points(rows).items():
        if len(values) < 3:
            continue
        curve, most = curves.fit(values), max(values)
        flag = " [bold red]steep[/]" if curve.steep else ""
        cells = [series, quantity, f"{most:.0e}", short_number(values[most]),
                 f"{curve.exponent:.2f}{flag}" if curve.exponent else "-"]  # fmt: skip
        if series != "languages" and curve.exponent:  # without growth there is nothing to extend
            low, high = curve.interval(GOAL)
            interval = "-" if low != low else f"{short_number(low)} … {short_number(high)}"
            cells += [short_number(curve.at(GOAL)), interval]
        made.add_row(*cells)
    return made


def short_number(value: float) -> str:
    """Returns three digits: '0.012', '3.4', '120', '1.2e+06'."""
    return f"{value:,.0f}" if 100 <= value < 1e6 else f"{value:.3g}"


def figure(rows: list[Row]) -> Figure:
    """Draws four quantities by size with their power laws, up to 25 billion pairs."""
    found = points(rows)
    panels = (
        ("CPU-seconds of caching", "caching: all", ("pairs of 18 words", "pairs of 3 words")),
        ("CPU-seconds to start", "start: time", ("pairs of 3 words", "index alone")),
        ("bytes of records", "cache: records", ("pairs of 18 words", "pairs of 3 words")),
        ("MiB to start", "start: memory", ("pairs of 3 words", "index alone")),
    )  # fmt: skip
    names = list(dict.fromkeys(name for _, _, series in panels for name in series))
    with drawing.styled():
        drawn = drawing.canvas("Caching and start by number of pairs", height=6.4)
        for axes, (title, quantity, series) in zip(
            drawn.subplots(2, 2).flat, panels, strict=True
        ):
            axes.set(xscale="log", yscale="log", title=title)
            for name in series:
                values = found.get((name, quantity), {})
                if len(values) < 3:
                    continue
                curve, colour = curves.fit(values), drawing.colour(names, name)
                line = [10**power for power in range(3, 11)] + [GOAL]
                axes.plot(list(values), list(values.values()), "o", color=colour)
                if not curve.exponent:
                    continue
                axes.plot(line, [curve.at(size) for size in line], "--", color=colour, lw=1.2)
                axes.annotate(
                    short_number(curve.at(GOAL)), (GOAL, curve.at(GOAL)), (-4, 5), ha="right",
                    textcoords="offset points", color=colour, fontsize=9,
                )  # fmt: skip
            axes.set_xlabel("pairs")
        for name in names:
            drawn.axes[0].plot([], [], "o", color=drawing.colour(names, name), label=name)
        drawing.legend_of_all(drawn)
    return drawn


def main() -> None:
    """Measures, prints the table, writes rows and figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, most in (("pairs", 1e6), ("short", 1e6), ("beam", 0), ("index", 1e8)):
        parser.add_argument(f"--{name}", type=float, default=most)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rows", type=Path)
    args = parser.parse_args()
    if args.rows:
        rows = [json.loads(line) for line in args.rows.read_text().splitlines()]
    else:
        rows = []
        with tempfile.TemporaryDirectory(prefix="scale-") as folder:
            sizes = int(args.pairs), int(args.short), int(args.beam), int(args.index)
            for new in measured(*sizes, Path(folder) / "cache"):
                rows += new
                print(*(f"{row['series']} {row['size']:,} {row['quantity']}: {row['value']:.4g}"
                        for row in new), sep="\n", flush=True)  # fmt: skip
        print(header())
    Console(width=140).print(table(rows))
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (args.out / "rows.jsonl").write_text(lines)
        figure(rows).savefig(args.out / "curves.png", dpi=150)


if __name__ == "__main__":
    main()
