"""The forecast of a step: a compiled one, and what is said where nothing was compiled."""

import pytest

from mmt.plan import TopologyPlan, step_time, topology


def plan(answer, name="v3:32x32", **changes) -> TopologyPlan:
    return TopologyPlan(topology.parse(name), {**answer, **changes})


def test_a_step_is_the_sum_of_its_parts(gshard):
    step = step_time.forecast(plan(gshard))
    assert step.seconds == pytest.approx(sum(step.parts.values()))
    assert list(step.parts.values()) == sorted(step.parts.values(), reverse=True)
    assert {"all-to-all", "all-reduce", "attention: products"} <= step.parts.keys()
    assert step.notes == (
        "forecasts of published steps took 0.90 to 2.32 times as long as these",
    )
    assert step.seconds > plan(gshard).step_seconds > step.products


def test_products_take_the_longer_of_arithmetic_and_memory(gshard):
    row = {"part": "attention", "flops": 61.5e12, "padded": 61.5e12, "bytes": 0.0, "executed": 1}
    slow = row | {"bytes": 450e9, "padded": 1.0}
    profile = {"products": [row, slow], "cycles": {"attention": 940e6}, "bytes": {"routing": 45e9}}
    step = step_time.forecast(plan(gshard, profile=profile, collectives=[]))
    assert step.parts["attention: products"] == pytest.approx(1 / 0.85 + 1 / 0.8)
    assert step.parts["attention: vector unit, memory"] == pytest.approx(1.0)
    assert step.parts["routing: vector unit, memory"] == pytest.approx(0.1 / 0.8)


def test_what_is_left_out_is_said(gshard):
    """v5p prints no program, and a GPU is not compiled: products and state only."""
    unknown = {key: value for key, value in gshard.items() if key not in ("profile", "collectives")}
    step = step_time.forecast(plan(unknown, "v5p:8x8x16"))
    assert step.parts.keys() == {"products", "state"}
    vector, checked = step.notes
    assert "vector unit" in vector
    assert checked.startswith("outside the checked range") and "v5p:8x8x16" in checked


def test_machines_outside_the_checked_range_are_named(gshard):
    (note,) = step_time.forecast(plan(gshard, "v4:8x16x16")).notes
    assert note.startswith("outside the checked range")
    assert "on v3 with 32 to 2,048 cores; this is v4:8x16x16" in note


def test_cpus_have_no_forecast(gshard):
    with pytest.raises(ValueError, match="cpu:8: no forecast for CPUs"):
        step_time.forecast(plan(gshard, "cpu:8"))
