"""Forecasts of killed runs, and their tables, for benchmarks/goodput."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from mmt.plan import goodput
from mmt.plan.goodput import FailingRun, Failures, Goodput

Row = Mapping[str, Any]


def interval(constants: Row, mean: float) -> float:
    """Returns Daly's interval for the constants and the mean seconds between failures."""
    return goodput.daly(constants["save"], mean)


def mean_constants(measured: Sequence[Row]) -> dict[str, Any]:
    """Returns the means of the constants of several unkilled runs."""
    return {
        name: mean_constants([one[name] for one in measured])
        if isinstance(value, Mapping) else statistics.mean(one[name] for one in measured)
        for name, value in measured[0].items()
    }  # fmt: skip


def known(first: Row) -> dict[str, Any]:
    """Returns the constants of the first row of the runs of a number of processes."""
    constants = mean_constants(first["constants"])
    if kills := first.get("detections"):
        constants["detection"] = statistics.mean(row["seconds"] for row in kills)
    return constants


def failing(constants: Row, steps: int, mean: float) -> FailingRun:
    """Returns the run as the simulator takes it; `restart` has reading the checkpoint too.

    A single process that is killed needs no detection.
    """
    rates = Failures(
        detection_seconds=constants.get("detection", 0.0), restart_seconds=constants["restart"]
    )
    run = FailingRun(
        steps * constants["step"], constants["save"], 0.0, 1, 1, rates,
        write=constants["write"], start=constants["start"],
    )  # fmt: skip
    return goodput.with_rates(run, mean)


def with_same_kills(constants: Row, row: Row) -> Goodput:
    """Returns the simulated run that fails after the same seconds as the killed one."""
    run = failing(constants, row["steps"], row["mean"])
    return goodput.simulate(
        run, row["period"] * constants["step"], [np.random.default_rng(row["seed"])]
    )


def quantities(constants: Row, done: Goodput | Row) -> dict[str, float]:
    """Returns goodput, failures, steps again, and seconds of detection and of starting."""
    step = constants["step"]
    if isinstance(done, Goodput):
        return {"goodput": done.share, "failures": done.failures,
                "steps again": done.parts["lost work"] / step,
                "detection, s": done.parts["detection"],
                "starting, s": done.parts["restarts"]}  # fmt: skip
    return {"goodput": done["steps"] * step / done["seconds"], "failures": done["failures"],
            "steps again": done["steps_again"], "detection, s": done.get("detection", 0.0),
            "starting, s": done["starting"]}  # fmt: skip


def constants_table(constants: Row, cold: Row) -> Table:
    """Returns the constants that the simulator is given, and the parts of a start.

    cold: the row of a start that found no compiled programs.
    """
    table = Table("measured without kills", "CPU s", "seconds")
    wall = constants["wall"]
    rows = [
        ("a step", f"{constants['step']:.4f}", ""),
        ("first start", f"{constants['start']:.2f}", ""),
        ("first start without cached programs", f"{cold['cpu_seconds']:.2f}",
         f"{cold['seconds']:.2f}"),
        ("  compiling", "", f"{cold['parts']['compiling']:.2f}"),
        ("restart", f"{constants['restart']:.2f}", f"{wall['restart']:.2f}"),
        *((f"  {name}", "", f"{part:.2f}") for name, part in wall["parts"].items()),
        ("first step", "", f"{wall['first_step']:.2f}"),
        (f"a save of {wall['bytes'] / 1e6:.1f} MB, steps are later by",
         f"{constants['save']:.3f}", ""),
        ("  training waits", "", f"{wall['blocked']:.3f}"),
        ("  until it is complete", f"{constants['save'] + constants['write']:.3f}",
         f"{wall['complete']:.3f}"),
    ]  # fmt: skip
    if "detection" in constants:
        rows.append(("from a kill until all processes have ended", "",
                     f"{constants['detection']:.2f}"))  # fmt: skip
    for row in rows:
        table.add_row(*row)
    return table


def runs_table(constants: Row, rows: Sequence[Row]) -> Table:
    """Returns a row for each killed run: the simulator's forecast with the same kills, measured."""
    names = ("goodput", "failures", "steps again", "detection, s", "starting, s")
    table = Table("period", "seed", *names, "ratio of goodputs", title="forecast → measured")
    for row in sorted(rows, key=lambda row: (row["period"], row["seed"])):
        forecast = quantities(constants, with_same_kills(constants, row))
        measured = quantities(constants, row)
        cells = (_pair(name, forecast[name], measured[name]) for name in names)
        ratio = measured["goodput"] / forecast["goodput"]
        table.add_row(str(row["period"]), str(row["seed"]), *cells, f"{ratio:.3f}")
    return table


def _pair(name: str, forecast: float, measured: float) -> str:
    shown = ".1%" if name == "goodput" else ",.0f"
    return f"{forecast:{shown}} → {measured:{shown}}"


def summary_table(constants: Row, rows: Sequence[Row]) -> Table:
    """Returns goodput by interval: of 200 simulated runs, with the kills of these, and measured.

    The caption has the best intervals by formula and by simulation.
    """
    one = failing(constants, rows[0]["steps"], rows[0]["mean"])
    best = {"Young": goodput.young(one.save, one.mean_between),
            "Daly": goodput.daly(one.save, one.mean_between),
            "the simulator": goodput.best(one).interval}  # fmt: skip
    table = Table(
        "steps between saves", "seconds", "200 simulated runs", "same kills", "measured", "ratio",
        caption="best interval: "
        + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in best.items()),
    )  # fmt: skip
    for period in sorted({row["period"] for row in rows}):
        these = [row for row in rows if row["period"] == period]
        run = failing(constants, these[0]["steps"], these[0]["mean"])
        all_runs = goodput.simulate(run, period * constants["step"])
        shares = run.work / all_runs.seconds
        same, measured = (
            [quantities(constants, done)["goodput"] for done in made]
            for made in ([with_same_kills(constants, row) for row in these], these)
        )
        ratio = statistics.mean(measured) / statistics.mean(same)
        table.add_row(
            str(period), f"{period * constants['step']:.1f}", _spread(shares), _spread(same),
            _spread(measured), f"{ratio:.3f}",
        )  # fmt: skip
    return table


def _spread(shares: Sequence[float] | np.ndarray) -> str:
    deviation = float(np.std(shares, ddof=1)) if len(shares) > 1 else 0.0
    return f"{np.mean(shares):.1%} ± {deviation:.1%}"
