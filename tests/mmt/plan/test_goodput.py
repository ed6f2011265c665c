"""The simulator of failures, against the formulas where they hold, and by invariants elsewhere."""

import dataclasses
import math

import numpy as np
import pytest

from mmt.plan import goodput
from mmt.plan.goodput import FailingRun, Failures

DAY = 86400.0


def run(save: float = 60.0, days: float = 20.0, hosts: int = 256, **failures) -> FailingRun:
    failures = {"runs": 40, **failures}
    return FailingRun(days * DAY, save, 100.0, 4 * hosts, hosts, Failures(**failures))


@pytest.mark.parametrize(("mean", "save"), [(10_800.0, 60.0), (1800.0, 30.0), (2 * DAY, 30.0)])
def test_with_hosts_at_hand_the_mean_is_dalys(mean, save):
    """Equation 20 is exact for exponential failures, which also hit checkpoints and restarts."""
    made = goodput.with_rates(run(save=save, days=4.0, restart_seconds=200.0), mean)
    assert made.mean_between == pytest.approx(mean)
    interval = goodput.daly(save, mean)
    done = goodput.simulate(made, interval)
    error = done.seconds.std() / math.sqrt(len(done.seconds))
    assert done.mean == pytest.approx(goodput.expected_seconds(made, interval), abs=4 * error)


def test_the_best_interval_is_dalys_where_it_holds():
    """A grid's step is 1.25; away from the best, runs are longer by the formula too."""
    made = goodput.with_rates(run(days=8.0, restart_seconds=200.0), 10_800.0)
    best = goodput.best(made)
    daly = goodput.daly(60.0, 10_800.0)
    assert daly / 1.6 < best.interval < daly * 1.6
    assert best.mean < goodput.simulate(made, 6 * daly).mean
    assert best.mean < goodput.simulate(made, daly / 6).mean


def test_the_formulas():
    assert goodput.young(60.0, 10_800.0) == pytest.approx(math.sqrt(2 * 60 * 10800))
    assert goodput.daly(60.0, 10_800.0) < goodput.young(60.0, 10_800.0)
    assert goodput.daly(60.0, 1e9) == pytest.approx(goodput.young(60.0, 1e9), rel=1e-3)
    assert goodput.daly(1000.0, 400.0) == 400


def test_parts_sum_to_the_time_and_the_work_is_all_done():
    for elastic in (False, True):
        done = goodput.simulate(run(chip_hours=20_000.0, repair_hours=5.0, spare_hosts=0,
                                    elastic=elastic), 1800.0)  # fmt: skip
        assert sum(done.parts.values()) == pytest.approx(done.mean, rel=1e-9)
        assert done.parts["training"] == pytest.approx(20 * DAY)
        assert done.quantile(0.05) <= done.mean <= done.quantile(0.95)
        assert (np.diff(done.seconds) >= 0).all()
        waits, slower = done.parts["waiting for hosts"], done.parts["fewer hosts"]
        assert (waits > 0, slower > 0) == (not elastic, elastic)


def test_spare_hosts_and_a_smaller_mesh_help():
    bad = {"host_hours": 2000.0, "repair_hours": 10.0}
    waiting, elastic, spare = (
        goodput.simulate(run(**bad, **more), 1800.0).mean
        for more in ({"spare_hosts": 0}, {"spare_hosts": 0, "elastic": True}, {"spare_hosts": 8})
    )
    assert spare < elastic < waiting


def test_it_is_repeatable_and_seeded():
    first, again, other = (goodput.simulate(run(seed=seed), 900.0).seconds for seed in (0, 0, 1))
    assert (first == again).all() and (first != other).any()


def test_without_failures_only_checkpoints_cost():
    never = run(chip_hours=0.0, host_hours=0.0)
    assert never.mean_between == math.inf
    done = goodput.simulate(never, DAY)
    assert done.mean == 20 * DAY + 20 * 60 and done.failures == 0
    assert goodput.expected_seconds(never, DAY) == pytest.approx(done.mean)
    assert goodput.best(never).mean == 20 * DAY + 60  # one save, at the end


class Given(np.random.Generator):
    """Random numbers that are given: seconds until each failure."""

    def __init__(self, *seconds: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.seconds = iter(seconds)

    def exponential(self, mean: float) -> float:
        return next(self.seconds)


def fails_after(run: FailingRun, interval: float, *seconds: float) -> goodput.Goodput:
    return goodput.simulate(run, interval, [Given(*seconds, math.inf)])


@pytest.mark.parametrize(
    ("fails", "lost"),
    [(4, 0),  # while it starts
     (10 + 121, 121),  # the first save has begun and is not complete
     (10 + 122, 20),  # it is
     (10 + 223, 121)],  # the second is not
)  # fmt: skip
def test_a_failure_costs_the_work_since_the_last_complete_save(fails, lost):
    """A save blocks for 2 seconds and is complete 20 seconds later. Without a failure the run takes
    10 seconds of start, 200 of work, two saves and 20 seconds of writing.
    """
    never = {"chip_hours": 0.0, "host_hours": 1.0, "repair_hours": 0.0, "detection_seconds": 0.0,
             "restart_seconds": 5.0}  # fmt: skip
    made = FailingRun(200.0, 2.0, 2.0, 1, 1, Failures(**never), write=20.0, start=10.0)
    done = fails_after(made, 100.0)
    assert done.mean == 10 + 200 + 4 + 20 and done.parts["saves"] == 24
    done = fails_after(made, 100.0, float(fails))
    assert done.failures == 1 and done.parts["lost work"] == lost
    assert done.parts["restarts"] == min(fails, 10) + 7 and done.parts["training"] == 200
    assert sum(done.parts.values()) == pytest.approx(done.mean)


def test_a_failure_is_detected_before_the_restart():
    """Nothing else fails meanwhile: a failure every 8 seconds of 3 starts, and 4 seconds each."""
    rates = Failures(chip_hours=0.0, host_hours=1.0, repair_hours=0.0, detection_seconds=4.0,
                     restart_seconds=10.0)  # fmt: skip
    made = FailingRun(100.0, 0.0, 0.0, 1, 1, rates, start=10.0)
    done = fails_after(made, 100.0, 8.0, 8.0, 8.0)
    assert done.failures == 3 and done.parts["detection"] == 12 and done.parts["restarts"] == 34
    assert done.mean == 3 * (8 + 4) + 10 + 100 == sum(done.parts.values())


def test_a_save_waits_for_the_one_before():
    never = FailingRun(30.0, 1.0, 0.0, 1, 1, Failures(chip_hours=0.0, host_hours=0.0), write=14.0)
    assert goodput.simulate(never, 10.0).mean == 30 + 3 + 4 + 4 + 14
    assert goodput.simulate(never, 20.0).mean == 30 + 2 + 4 + 14  # the last interval is 10


def test_slow_writes_make_seldom_saves_better():
    fast = goodput.with_rates(run(days=1.0, restart_seconds=200.0, runs=20), 10_800.0)
    slow = dataclasses.replace(fast, write=3000.0)
    assert goodput.best(fast).mean < goodput.best(slow).mean
    assert goodput.best(slow).interval > goodput.best(fast).interval


def test_llama_3_is_simulated_above_its_goodput():
    """16,384 GPUs, 419 interruptions in 54 days, more than 90 % of the time effective: with a
    restart of five minutes and a save of ten seconds it is.
    """
    llama = FailingRun(54 * DAY * 0.95, 10.0, 30.0, 16_384, 2048, Failures(runs=10, spare_hosts=4))
    done = goodput.best(llama)
    assert 350 < done.failures < 480 and 0.9 < done.share < 0.97


def test_a_run_that_never_ends_is_an_error(monkeypatch):
    monkeypatch.setattr(goodput, "_MAX_FAILURES", 500)
    hopeless = goodput.with_rates(run(restart_seconds=3600.0), 60.0)
    with pytest.raises(ValueError, match="does not end.*a failure comes every 60 s"):
        goodput.simulate(hopeless, 600.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [({"chip_hours": -1.0}, "Failures.chip_hours = -1.0; allowed: 0 or more"),
     ({"preemptions_per_day": -0.5}, "preemptions_per_day = -0.5"),
     ({"spare_hosts": -1}, "spare_hosts = -1"), ({"runs": 1}, "runs = 1; allowed: 2 to")],
)  # fmt: skip
def test_rates_below_zero_are_errors(values, message):
    with pytest.raises(ValueError, match=message):
        Failures(**values)


def test_intervals_are_above_zero():
    with pytest.raises(ValueError, match="interval = 0.0; allowed: above 0"):
        goodput.simulate(run(), 0.0)
