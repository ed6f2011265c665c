"""Compares forecasts of training runs with what GShard and Switch published.

    python -m benchmarks.forecast [--compile NAME ...]

The runs are those of GShard's Table 1 (seconds of a step, days, core-years for 10^12 tokens) and of
Switch's Table 1 (examples per second on 32 cores), all on TPU v3. No constant of a forecast is
fitted to these rows; `mmt.plan.chips` has their sources. The goal is a ratio from 0.67 to 1.5 in
every row and from 0.8 to 1.25 in the median.

The compiled steps are in `programs/`, so the table takes a second. `--compile` compiles runs again,
or `all`; it needs the extra [plan], but no TPU, and takes half a minute to two minutes each. They
are compiled at level O1.

Differences from the papers that are known: GShard's target tokens per batch are not published (as
many as source tokens here). At the peak of the chip the arithmetic of our 128-expert steps alone
takes longer than the paper's whole steps, so the paper's must have had less. Switch's batch is not
published: 512 rows here, for T5-Large 2,048 with all activations recomputed. Groups have 1,024
tokens, the default of Mesh TensorFlow: in groups of 8,192, the targets of 512 rows would be fewer
groups than cores. Omitted are Switch-Base+, whose widths are not published, and MoE-Base with a
capacity of 1.0.
"""

import argparse
import json
import os
import statistics
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from mmt import plan
from mmt.plan import step_time, topology
from mmt.plan.run_forecast import RunForecast
from mmt.system.atomic import write_json

PROGRAMS = Path(__file__).parent / "programs"
EVERY, MEDIAN = (0.67, 1.5), (0.8, 1.25)


class GShardRun(NamedTuple):
    """A row of GShard's Table 1, and the share of all-to-all in section 5.2, where it has one."""

    topology: str
    steps_per_second: float
    days: float
    core_years: float
    all_to_all: float | None = None


GSHARD = {
    "gshard_600b": GShardRun("v3:32x32", 0.72, 4.0, 22.4, 0.36),
    "gshard_200b": GShardRun("v3:32x32", 2.15, 1.4, 7.5),
    "gshard_150b": GShardRun("v3:16x16", 1.05, 11.0, 15.5),
    "gshard_50b": GShardRun("v3:16x16", 3.28, 3.5, 4.9),
    "gshard_37b": GShardRun("v3:8x8", 0.67, 17.3, 6.1, 0.16),
    "gshard_12b": GShardRun("v3:8x8", 2.16, 5.4, 1.9),
}
SOURCE = 512  # source tokens of an example of Switch's runs
ROWS = "BATCH_SIZE=512"
LENGTHS = "TASK_FEATURE_LENGTHS={'inputs': 512, 'targets': 114}"
GROUPS = "moe.MoeConfig.group_size=1024"
TOP2 = "moe.MoeConfig.router=@moe.gshard_top2"  # its capacity counts both choices: half the paper's
SWITCH = {  # name: gin file, bindings, examples per second
    "t5_base": ("base", [ROWS, "VOCAB_SIZE=32128", LENGTHS], 1600),
    "t5_large": ("large", ["BATCH_SIZE=2048", "VOCAB_SIZE=32128", LENGTHS], 470),
    "moe_base_2.0": ("switch_base", [ROWS, GROUPS, TOP2, "moe.MoeConfig.capacity_factor=1.0"], 840),
    "moe_base_1.25": (
        "switch_base", [ROWS, GROUPS, TOP2, "moe.MoeConfig.capacity_factor=0.625"], 790,
    ),
    "switch_base_2.0": ("switch_base", [ROWS, GROUPS, "moe.MoeConfig.capacity_factor=2.0"], 860),
    "switch_base_1.25": ("switch_base", [ROWS, GROUPS], 910),
    "switch_base_1.0": ("switch_base", [ROWS, GROUPS, "moe.MoeConfig.capacity_factor=1.0"], 1000),
}  # fmt: skip


def main() -> None:
    """Compiles what is asked for, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [*GSHARD, *SWITCH]
    parser.add_argument("--compile", nargs="+", default=[], choices=[*known, "all"], metavar="NAME")
    chosen = parser.parse_args().compile
    for name in known if "all" in chosen else chosen:
        compile_step(name)
    console = Console(width=110)
    ratios: dict[str, float] = {}
    console.print(_gshard(ratios))
    console.print(_switch(ratios))
    for line in judged(ratios):
        print(line)


def compile_step(name: str) -> None:
    """Compiles the step of a run, and writes it to `programs/`."""
    os.environ["JAX_OPTIMIZATION_LEVEL"] = "O1"
    file, bindings, machine = name, list[str](), "v3:4x4"
    if name in GSHARD:
        machine = GSHARD[name].topology
    else:
        file, bindings, _ = SWITCH[name]
    made = plan.plan([f"gin_configs/models/{file}.gin"], bindings, machine)
    write_json(PROGRAMS / f"{name}.json", dict(made.answer))


def forecast(name: str) -> RunForecast:
    """Returns the forecast of a run whose step is in `programs/`."""
    machine = GSHARD[name].topology if name in GSHARD else "v3:4x4"
    answer = json.loads((PROGRAMS / f"{name}.json").read_text("utf-8"))
    step = plan.TopologyPlan(topology.parse(machine), answer)
    return RunForecast(step, step_time.forecast(step))


def judged(ratios: dict[str, float]) -> list[str]:
    """Returns whether the goals are reached, in words."""
    values, (low, high) = list(ratios.values()), EVERY
    outside = {name: ratio for name, ratio in ratios.items() if not low <= ratio <= high}
    median = statistics.median(values)
    listed = ", ".join(f"{name} {ratio:.2f}" for name, ratio in outside.items()) or "none"
    return [
        f"ratios of the seconds of a step: median {median:.2f} "
        f"({'reached' if MEDIAN[0] <= median <= MEDIAN[1] else 'missed'}: {MEDIAN[0]} to "
        f"{MEDIAN[1]}); {len(values) - len(outside)} of {len(values)} within {low} to {high}",
        f"outside: {listed}",
    ]


def _gshard(ratios: dict[str, float]) -> Table:
    table = Table("GShard", "step, s", "paper", "ratio", "days", "paper", "core-years", "paper",
                  "all-to-all", "paper")  # fmt: skip
    for name, paper in GSHARD.items():
        run = forecast(name)
        ratios[name] = run.step_seconds * paper.steps_per_second
        years = run.to_json()["core_years_without_failures"]
        share = run.step.parts["all-to-all"] / run.step_seconds
        published = "-" if paper.all_to_all is None else f"{paper.all_to_all:.0%}"
        table.add_row(
            name, f"{run.step_seconds:.3f}", f"{1 / paper.steps_per_second:.3f}",
            f"{ratios[name]:.2f}", f"{run.days:.1f}", f"{paper.days:.1f}", f"{years:.1f}",
            f"{paper.core_years:.1f}", f"{share:.0%}", published,
        )  # fmt: skip
    return table


def _switch(ratios: dict[str, float]) -> Table:
    table = Table("Switch, 32 cores", "ms per example", "paper", "ratio", "examples/s", "paper")
    for name, (_, _, speed) in SWITCH.items():
        run = forecast(name)
        ours = run.step_seconds / (run.plan.answer["tokens_per_step"] / SOURCE)
        ratios[name] = ours * speed
        table.add_row(name, f"{1000 * ours:.3f}", f"{1000 / speed:.3f}", f"{ratios[name]:.2f}",
                      f"{1 / ours:,.0f}", f"{speed:,}")  # fmt: skip
    return table


if __name__ == "__main__":
    main()
