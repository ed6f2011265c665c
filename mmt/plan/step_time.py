"""Forecasts the seconds of a training step from the answer of `mmt.plan.compile`.

A step is the sum of its instructions: XLA for TPUs executes one after another. Within a product,
memory and matrix unit overlap, so it takes the longer of both. Collectives overlap with nothing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mmt.plan.estimate import TopologyPlan
from mmt.plan.instructions import Products
from mmt.plan.topology import Topology

# The machines and sizes that benchmarks/forecast compares with published runs, and the least and
# greatest seconds of its forecasts per published second.
CHECKED_KIND, CHECKED_DEVICES, CHECKED_RATIOS = "v3", (32, 2048), (0.90, 2.32)


@dataclass(frozen=True)
class StepTime:
    """The forecast of a step.

    Attributes:
        parts: seconds by part: products of a part of the model ('attention: products'), other
            instructions of it ('attention: vector unit, memory'), and collectives by kind.
        products: seconds that all products would take at their peak, without memory.
        limits: the same seconds by what limits them: 'compute' (products of high intensity),
            'memory' (other products, other instructions, the state), 'links' (collectives).
        notes: what the forecast leaves out, and whether its range was checked.
    """

    parts: Mapping[str, float]
    products: float
    limits: Mapping[str, float]
    notes: tuple[str, ...] = ()
    seconds: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", math.fsum(self.parts.values()))


def forecast(plan: TopologyPlan) -> StepTime:
    """Returns the forecast of a step of a plan.

    Raises:
        ValueError: the machine is a CPU, whose rates are not in the table.
    """
    check(plan.machine)
    chip, answer = plan.machine.chip, plan.answer
    assert chip.flops is not None and chip.bandwidth is not None
    peak, bandwidth = chip.flops * chip.product_share, chip.bandwidth * chip.memory_share
    profile, notes = answer.get("profile"), []
    parts: dict[str, float] = {}
    if profile is None or (chip.clock is None and profile["cycles"]):
        parts["products"], parts["state"] = _seconds_from_shapes(answer, peak, bandwidth)
        compute = answer["work"]["flops"] / answer["devices"] / peak
        compute = compute if compute >= parts["products"] else 0.0
        notes.append(
            "no compiled program with estimates of cycles: the work of the vector unit (softmax, "
            "norms, dropout, sorting, copies) is not included; on v3 it is 20 to 45 % of a step"
        )
    else:
        parts = _seconds_of_program(profile, peak, bandwidth, chip.clock or 1.0)
        rows = [(row["padded"] / peak, row["bytes"] / bandwidth) for row in profile["products"]]
        compute = math.fsum(
            compute_seconds
            for compute_seconds, memory_seconds in rows
            if compute_seconds >= memory_seconds
        )
    limits = {"compute": compute, "memory": math.fsum(parts.values()) - compute}
    collective_seconds = {
        kind: seconds / chip.link_share for kind, seconds in plan.collective_seconds().items()
    }
    limits["links"] = math.fsum(collective_seconds.values())
    notes.append(_checked_range(plan))
    ideal_seconds = answer["work"]["flops"] / answer["devices"] / chip.flops
    parts = dict(sorted({**parts, **collective_seconds}.items(), key=lambda part: -part[1]))
    return StepTime(parts, ideal_seconds, limits, tuple(notes))


def check(machine: Topology) -> None:
    """Raises ValueError for a CPU, whose rates are not in the table."""
    if machine.chip.flops is None or machine.chip.bandwidth is None:
        raise ValueError(
            f"{machine.name}: no forecast for CPUs, whose rates are not known; allowed: "
            "v3, v4, v5e, v5p, v6e, gpu"
        )


def _seconds_of_program(
    profile: Mapping[str, Any], peak: float, bandwidth: float, clock: float
) -> dict[str, float]:
    """Returns the seconds of a compiled program's instructions, by part of the model."""
    parts: dict[str, float] = {}
    for row in (Products(**row) for row in profile["products"]):
        name = f"{row.part}: products"
        parts[name] = parts.get(name, 0.0) + max(row.padded / peak, row.bytes / bandwidth)
    for values, rate in ((profile["cycles"], clock), (profile["bytes"], bandwidth)):
        for part, amount in values.items():
            name = f"{part}: vector unit, memory"
            parts[name] = parts.get(name, 0.0) + amount / rate
    return parts


def _seconds_from_shapes(
    answer: Mapping[str, Any], peak: float, bandwidth: float
) -> tuple[float, float]:
    """Returns the seconds of products, and of reading and writing the state, from shapes alone."""
    work, devices = answer["work"], answer["devices"]
    products = max(work["flops"] / devices / peak, work["bytes"] / devices / bandwidth)
    state = 3 * answer["parameter_bytes"] + 2 * answer["optimizer_bytes"]
    return products, state / bandwidth


def _checked_range(plan: TopologyPlan) -> str:
    """Returns how well the forecast was checked, or that the machine is outside that range."""
    (min_devices, max_devices), (low_ratio, high_ratio) = CHECKED_DEVICES, CHECKED_RATIOS
    comparison = (
        f"forecasts of published steps took {low_ratio:.2f} to {high_ratio:.2f} times as long as "
        "these"
    )
    devices = plan.answer["devices"]
    if plan.machine.kind == CHECKED_KIND and min_devices <= devices <= max_devices:
        return comparison
    return (
        f"outside the checked range: {comparison}, all on {CHECKED_KIND} with {min_devices} "
        f"to {max_devices:,} cores; this is {plan.machine.name}"
    )
