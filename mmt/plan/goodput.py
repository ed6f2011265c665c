"""Simulates the failures of a run: how much of its time is training, and when it ends.

A failure costs the work since the last complete checkpoint and a restart. Failures of chips, hosts
and preemptions are independent and have constant rates; they also happen during checkpoints and
restarts. `young` and `daly` are the formulas for the case with enough spare hosts.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from mmt import checked
from mmt.checked import within

HOUR = 3600.0
_MOST = 200_000  # failures of a simulated run, after which it is given up
_TRIALS = 40  # runs of each interval in the search for the best one
_GRID = 1.25  # ratio of neighbours in the search for the best interval


@dataclass(frozen=True)
class Failures:
    """Rates of failures, and what happens after them. Raises ValueError for a negative value.

    The defaults are those of Llama 3 405B (arXiv 2407.21783, Table 5): 16,384 H100 in hosts of
    eight were interrupted 419 times in 54 days, 246 times by GPUs. None are published for TPUs.
    `restart_seconds` and `repair_hours` are assumptions.

    Attributes:
        chip_hours: mean hours between failures of one chip; 0: chips never fail.
        host_hours: the same of one host and its share of network and software; 0: never.
        preemptions_per_day: hosts that are taken away per day.
        restart_seconds: from a failure to the start of restoring: detection, scheduling, loading of
            libraries, compilation.
        repair_hours: hours until a failed host, or another one for it, is back.
        spare_hosts: hosts that wait to take over.
        elastic: whether the run continues on fewer hosts while too few are there: on the largest
            divisor of their number. Otherwise it waits.
        runs: the number of simulated runs.
        seed: of the random numbers.
    """

    chip_hours: float = field(default=86_300.0, metadata=within(0))
    host_hours: float = field(default=15_300.0, metadata=within(0))
    preemptions_per_day: float = field(default=0.0, metadata=within(0))
    restart_seconds: float = field(default=300.0, metadata=within(0))
    repair_hours: float = field(default=1.0, metadata=within(0))
    spare_hosts: int = field(default=1, metadata=within(0))
    elastic: bool = False
    runs: int = field(default=200, metadata=within(2, 100_000))
    seed: int = field(default=0, metadata=within(0))

    def __post_init__(self) -> None:
        checked.check(self)

    def rate(self, chips: int | float, hosts: int) -> float:
        """Returns the failures per second of a machine."""
        per_hour = (chips / self.chip_hours if self.chip_hours else 0.0) + (
            hosts / self.host_hours if self.host_hours else 0.0
        )
        return (per_hour + self.preemptions_per_day / 24) / HOUR


@dataclass(frozen=True)
class FailingRun:
    """A run on a machine that fails.

    Attributes:
        work: seconds of training without failures and checkpoints.
        save, restore: seconds of a checkpoint, during which no step is computed, and of reading it.
        chips, hosts: of the machine, without spare hosts.
        failures: their rates.
        write: seconds after `save` until the checkpoint is complete; training continues. A failure
            before that costs the work since the checkpoint before. The next one waits for it.
        start: seconds of the first start.
    """

    work: float = field(metadata=within(0, above=True))
    save: float = field(metadata=within(0))
    restore: float = field(metadata=within(0))
    chips: int = field(metadata=within(1))
    hosts: int = field(metadata=within(1))
    failures: Failures = Failures()
    write: float = field(default=0.0, metadata=within(0))
    start: float = field(default=0.0, metadata=within(0))

    def __post_init__(self) -> None:
        checked.check(self)

    @property
    def mean_between(self) -> float:
        """Returns the mean seconds between failures of the whole machine; inf if it never fails."""
        rate = self.failures.rate(self.chips, self.hosts)
        return 1 / rate if rate else math.inf

    @property
    def restart(self) -> float:
        """Returns the seconds from a failure, with a host at hand, to the first step."""
        return self.failures.restart_seconds + self.restore


@dataclass(frozen=True)
class Goodput:
    """Simulated runs with one interval between checkpoints.

    Attributes:
        interval: seconds of training between checkpoints.
        seconds: total time of each run, sorted.
        parts: mean seconds of training, checkpoints, lost work, starts and restarts, waiting for
            hosts, and running on fewer hosts (what it takes longer).
        failures: mean number of failures.
    """

    interval: float
    seconds: Float[np.ndarray, "runs"]
    parts: dict[str, float]
    failures: float

    @property
    def mean(self) -> float:
        """Returns the mean seconds of a run."""
        return float(self.seconds.mean())

    @property
    def share(self) -> float:
        """Returns the goodput: the part of the time in which training advances, at full speed."""
        return self.parts["training"] / self.mean

    def quantile(self, part: float) -> float:
        """Returns the seconds within which this part of the runs ends."""
        return float(np.quantile(self.seconds, part))


def young(save: float, mean_between: float) -> float:
    """Returns Young's (1974) best interval: √(2·save·mean_between), for save ≪ mean_between."""
    return math.sqrt(2 * save * mean_between)


def daly(save: float, mean_between: float) -> float:
    """Returns Daly's (2006, equation 37) best interval; for long saves `mean_between`."""
    if save >= 2 * mean_between:
        return mean_between
    ratio = save / (2 * mean_between)
    return young(save, mean_between) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save


def expected_seconds(run: FailingRun, interval: float) -> float:
    """Returns Daly's (2006, equation 20) mean total time, for exponential failures and hosts that
    are always at hand; inf where it overflows. It has neither `write` nor `start`.
    """
    mean = run.mean_between
    if math.isinf(mean):
        return run.work * (1 + run.save / interval)
    try:
        segment = math.expm1((interval + run.save) / mean)
        return mean * math.exp(run.restart / mean) * segment * run.work / interval
    except OverflowError:
        return math.inf


def simulate(
    run: FailingRun, interval: float, randoms: Sequence[np.random.Generator] | None = None
) -> Goodput:
    """Simulates `run.failures.runs` runs.

    Args:
        run: the run and its machine.
        interval: seconds of training between checkpoints; the end of a run has one too.
        randoms: the random numbers of each run; by default of `run.failures.seed`. Each start draws
            one, `exponential(mean_between)`: the seconds until the next failure.

    Raises:
        ValueError: an interval that is not positive; a run that does not end within 200,000
            failures.
    """
    if not interval > 0:
        raise ValueError(f"interval = {interval}; allowed: above 0")
    seeds = np.random.SeedSequence(run.failures.seed).spawn(run.failures.runs)
    randoms = randoms or [np.random.default_rng(seed) for seed in seeds]
    done = [_Run(run, interval, random).finish() for random in randoms]
    parts = {name: float(np.mean([one.parts[name] for one in done])) for name in done[0].parts}
    seconds = np.sort([one.now for one in done])
    return Goodput(interval, seconds, parts, float(np.mean([one.failures for one in done])))


def best(run: FailingRun) -> Goodput:
    """Returns the simulated runs with the interval that is best for them.

    Intervals are tried on a geometric grid around Daly's, with the same random numbers for all.

    Raises:
        ValueError: as `simulate`.
    """
    if math.isinf(run.mean_between):
        return simulate(run, run.work)
    guess = max(daly(run.save, run.mean_between), run.write, 1.0)
    fewer = dataclasses.replace(run.failures, runs=min(run.failures.runs, _TRIALS))
    trial = dataclasses.replace(run, failures=fewer)

    def interval(power: int) -> float:
        return min(guess * _GRID**power, run.work)

    mean = functools.cache(lambda power: simulate(trial, interval(power)).mean)
    power = 0
    for step in (1, -1):
        while abs(power + step) <= 12 and mean(power + step) < mean(power):
            power += step
    return simulate(run, interval(power))


class _Run:
    """One simulated run: `now` is its clock, `left` the work that no checkpoint holds yet."""

    def __init__(self, run: FailingRun, interval: float, random: np.random.Generator) -> None:
        self.run, self.interval, self.random = run, interval, random
        self.now, self.left, self.failures = 0.0, run.work, 0
        self.repaired: list[float] = []  # times at which hosts come back
        self.parts = dict.fromkeys(
            ("training", "saves", "lost work", "restarts", "waiting for hosts",
             "fewer hosts"), 0.0,
        )  # fmt: skip

    def finish(self) -> "_Run":
        """Runs to the end."""
        overhead = self.run.start
        while self.left > 0:
            self._wait()
            overhead = self._go(overhead)
            if self.failures > _MOST:
                raise ValueError(
                    f"the run does not end: {_MOST:,} failures, and {self.left / HOUR:,.0f} of "
                    f"{self.run.work / HOUR:,.0f} hours of training are left; a failure comes "
                    f"every {self.run.mean_between:,.0f} s on average, a restart takes "
                    f"{self.run.restart:,.0f} s"
                )
        return self

    def _hosts(self) -> int:
        """Returns the hosts that train now: all, or (elastic) a divisor of their number; or 0."""
        self.repaired = [time for time in self.repaired if time > self.now]
        machine, failures = self.run, self.run.failures
        there = machine.hosts + failures.spare_hosts - len(self.repaired)
        if there >= machine.hosts:
            return machine.hosts
        return _divisor(machine.hosts, there) if failures.elastic else 0

    def _wait(self) -> None:
        """Waits until hosts are there."""
        while not self._hosts():
            until = min(self.repaired)
            self.parts["waiting for hosts"] += until - self.now
            self.now = until

    def _go(self, overhead: float) -> float:
        """Trains until a failure, more hosts or the end; returns the next restart's seconds."""
        run, hosts = self.run, self._hosts()
        speed = hosts / run.hosts
        rate = run.failures.rate(run.chips * speed, hosts)
        fails = self.random.exponential(1 / rate) if rate else math.inf
        late = max(run.write - self.interval, 0.0)  # a checkpoint waits for the one before
        cycle = self.interval + run.save + late
        full = math.ceil(self.left / (self.interval * speed) - 1e-12)
        last = self.left / speed - (full - 1) * self.interval
        waits = (full - 2) * late + max(run.write - last, 0.0) if full > 1 else 0.0
        ends = overhead + self.left / speed + full * run.save + waits + run.write
        grows = math.inf
        if speed < 1 and self.repaired:  # at the first checkpoint after a host has come back
            back = max(min(self.repaired) - self.now - overhead, 0.0)
            after = math.ceil((back + late) / cycle) * cycle
            grows = overhead + (after - late + run.write if after else 0.0)
        if ends <= min(fails, grows):
            self._account(overhead, self.left, full * run.save + waits + run.write, speed)
            self.now += ends
            self.left = 0.0
            return 0.0
        until = min(fails, grows)
        cycles = max(math.floor((until - overhead - run.write + late) / cycle + 1e-12), 0)
        cycles = min(cycles, full - 1)  # all are complete at the end alone
        saved = cycles * self.interval * speed
        saves = cycles * run.save + max(cycles - 1, 0) * late
        self._account(min(overhead, until), saved, saves, speed)
        self.left -= saved
        self.now += until
        self.parts["lost work"] += max(until - overhead, 0.0) - saves - cycles * self.interval
        if fails <= grows:
            self.failures += 1
            self.repaired.append(self.now + run.failures.repair_hours * HOUR)
        return run.restart

    def _account(self, overhead: float, work: float, saves: float, speed: float) -> None:
        self.parts["restarts"] += overhead
        self.parts["training"] += work
        self.parts["fewer hosts"] += work / speed - work
        self.parts["saves"] += saves


@functools.cache
def _divisor(number: int, most: int) -> int:
    """Returns the largest divisor of `number` that is at most `most`; 0 if `most` is 0."""
    return next((size for size in range(most, 0, -1) if number % size == 0), 0)


def with_rates(run: FailingRun, mean_between: float) -> FailingRun:
    """Returns the run on a machine whose mean time between failures is this many seconds, and that
    always has a host at hand: the case of the formulas.
    """
    rates = dataclasses.replace(
        run.failures, chip_hours=0.0, host_hours=0.0,
        preemptions_per_day=24 * HOUR / mean_between, repair_hours=0.0,
    )  # fmt: skip
    return dataclasses.replace(run, failures=rates)
