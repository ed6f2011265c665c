"""benchmarks/forecast on its kept programs: published runs, and the goals that are missed."""

import statistics

import pytest

from benchmarks.forecast import __main__ as benchmark
from benchmarks.forecast import small_runs
from mmt import plan
from mmt.plan import topology
from mmt.plan.step_time import CHECKED_DEVICES, CHECKED_KIND, CHECKED_RATIOS


@pytest.fixture(scope="module")
def ratios() -> dict[str, float]:
    gathered: dict[str, float] = {}
    benchmark._gshard(gathered)
    benchmark._switch(gathered)
    return gathered


def test_the_checked_range_is_that_of_the_benchmark(ratios):
    bounds = round(min(ratios.values()), 2), round(max(ratios.values()), 2)
    assert bounds == CHECKED_RATIOS
    machines = [benchmark.forecast(name).plan.machine for name in ratios]
    assert {machine.kind for machine in machines} == {CHECKED_KIND}
    sizes = [machine.devices for machine in machines]
    assert (min(sizes), max(sizes)) == CHECKED_DEVICES


def test_faster_models_of_a_table_are_forecast_to_be_faster():
    """GShard's order within a number of cores, and Switch's by capacity."""
    for fast, slow in (("gshard_200b", "gshard_600b"), ("gshard_50b", "gshard_150b"),
                       ("gshard_12b", "gshard_37b"), ("switch_base_1.25", "switch_base_2.0"),
                       ("switch_base_2.0", "moe_base_2.0")):  # fmt: skip
        assert benchmark.forecast(fast).step_seconds < benchmark.forecast(slow).step_seconds


def test_missed_goals_are_named(ratios):
    first, second = benchmark.judged(ratios)
    assert f"median {statistics.median(ratios.values()):.2f}" in first
    outside = {name for name, ratio in ratios.items() if not 0.67 <= ratio <= 1.5}
    assert outside and all(name in second for name in outside)
    assert benchmark.judged({"a": 1.0, "b": 1.1})[1] == "outside: none"


def test_a_small_run_is_forecast_from_the_two_measured_rates():
    """A product takes the longer of its FLOPs and bytes; all others take their bytes."""
    product = {"part": "logits and loss", "flops": 8e9, "padded": 8e9, "bytes": 1e9, "executed": 1}
    small = product | {"part": "attention", "flops": 1e9, "padded": 1e9}
    profile = {"products": [product, small], "cycles": {}, "bytes": {"optimizer": 3e9}}
    answer = {"devices": 1, "profile": profile, "work": {"flops": 9e9}, "collectives": []}
    made = plan.TopologyPlan(topology.parse("cpu:1"), answer)
    rates = small_runs.Rates(flops=2e9, bandwidth=0.5e9)
    assert small_runs.forecast(made, rates) == pytest.approx(8 / 2 + 1 / 0.5 + 3 / 0.5)


@pytest.mark.slow
def test_the_step_of_a_small_run_trains():
    step = small_runs.step_of(small_runs.run(small_runs.TINY, 2, 8))
    losses = [float(step()[1]) for _ in range(20)]
    assert losses[-1] < losses[0] < 20
