"""A whole run: arithmetic from the step to days, money and energy."""

import json

import pytest

from mmt.plan import TopologyPlan, step_time, topology
from mmt.plan.corpus_sizes import CorpusSizes, Exposure, LanguageSize
from mmt.plan.goodput import Failures
from mmt.plan.run_forecast import RunConditions, RunForecast, record_bytes


def made(answer, name: str = "v3:32x32", **given) -> RunForecast:
    plan = TopologyPlan(topology.parse(name), answer)
    given = {"failures": Failures(runs=10), "interval": 600.0, **given}
    return RunForecast(plan, step_time.forecast(plan), **given)


def test_the_parts_of_a_run_follow_from_each_other(gshard):
    run = made(gshard, conditions=RunConditions(price=2.0, power_overhead=1.0))
    assert run.steps == -(-(10**12) // 4_194_304)
    assert run.days == pytest.approx(run.steps * run.step_seconds / 86400)
    assert run.goodput.mean / 86400 > run.days
    assert run.chip_hours == pytest.approx(run.goodput.mean / 3600 * (1024 + 4))
    assert run.money == pytest.approx(2 * run.chip_hours)
    assert run.energy == pytest.approx(0.22 * run.chip_hours)
    assert sum(run.shares.values()) == pytest.approx(1)
    assert run.checkpoint["save_seconds"] == pytest.approx(gshard["checkpoint_bytes"] / 256 / 1e9)
    assert run.best.mean <= run.goodput.mean
    row = run.to_json()
    json.dumps(row)
    assert row["money"] == run.money and row["cache"] is None
    assert row["core_years_without_failures"] == 2 * row["chip_years_without_failures"]


def test_a_spare_host_is_as_large_as_one_of_the_machine(gshard):
    """A host with eight GPUs of which one is used needs a spare with one."""
    for name, chips in (("gpu:1", 2), ("gpu:4", 8), ("gpu:8", 16), ("gpu:16", 24)):
        run = made(gshard, name)
        assert run.chip_hours == pytest.approx(run.goodput.mean / 3600 * chips)


def test_gshards_published_cost_is_forecast(gshard):
    """4.0 days and 22.4 core-years (Table 1), within the goal of the benchmark."""
    row = made(gshard).to_json()
    assert 0.67 < row["days_without_failures"] / 4.0 < 1.5
    assert 0.67 < row["core_years_without_failures"] / 22.4 < 1.5


def test_slow_hosts_make_the_chips_wait(gshard):
    """A host reads 2 x 4M / 256 tokens a step; at half of what is needed a step takes twice as
    long.
    """
    fast = made(gshard)
    assert fast.input["waiting_seconds"] == 0
    half = fast.input["needed"] / 2
    slow = made(gshard, conditions=RunConditions(input_rate=half))
    assert slow.step_seconds == pytest.approx(2 * fast.step_seconds)
    assert slow.shares["waiting for input"] == pytest.approx(slow.goodput.share / 2)
    assert any("input_cores" in note for note in slow.notes)


def test_data_come_from_the_sizes(gshard):
    sizes = CorpusSizes({"deu_Latn": LanguageSize(10**9, 30.0, 15.0)})
    shown = {"deu_Latn": Exposure(10**9, 1.0, 1e12, 33.3)}
    run = made(gshard, sizes=sizes, languages=shown,
               conditions=RunConditions(cache_rate=1e4, cache_cores=100))  # fmt: skip
    assert run.cache["bytes"] == 10**9 * record_bytes(30.0, 15.0, (32_000, 32_000))
    assert run.cache["hours"] == pytest.approx(1e9 / 1e4 / 3600 / 100)
    assert run.input["needed"] == pytest.approx(made(gshard).input["needed"] * 1.5 / 2)


def test_longer_pairs_take_more_of_the_cache():
    short, long = (record_bytes(n, n, (64_000, 32_000)) for n in (20.0, 60.0))
    assert 2 * 40 < long - short < 3 * 80  # ids of one to three bytes
    assert record_bytes(30.0, 30.0, (64_000, 32_000)) > record_bytes(30.0, 30.0, (4000, 4000))


def test_a_bad_interval_is_noted(gshard):
    frequent = made(gshard, interval=60.0)
    assert any("earlier than one every 1.0" in note for note in frequent.notes)


@pytest.mark.parametrize(
    ("values", "message"),
    [({"price": -1.0}, "RunConditions.price = -1.0; allowed: 0 or more, or None"),
     ({"storage_rate": 0.0}, "storage_rate = 0.0; allowed: above 0"),
     ({"power_overhead": 0.9}, "power_overhead = 0.9; allowed: 1 or more")],
)  # fmt: skip
def test_prices_and_rates_below_zero_are_errors(values, message):
    with pytest.raises(ValueError, match=message):
        RunConditions(**values)
