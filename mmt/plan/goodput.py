"""Simulates the failures of a run: how much of its time is training, and when it ends.

A failure costs the work since the last complete checkpoint, the time until it is detected, and a
restart. Failures of chips, hosts and preemptions are independent and have constant rates; they also
happen during checkpoints and restarts, not between a failure and its detection. `young` and `daly`
are the formulas for the case with enough spare hosts.
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
_MAX_FAILURES = 200_000  # failures of a simulated run, after which it is given up
_SEARCH_RUNS = 40  # runs of each interval in the search for the best one
_GRID_RATIO = 1.25  # ratio of neighbours in the search for the best interval


@dataclass(frozen=True)
class Failures:
    """Rates of failures, and what happens after them. Raises ValueError for a negative value.

    The defaults are those of Llama 3 405B (arXiv 2407.21783, Table 5): 16,384 H100 in hosts of
    eight were interrupted 419 times in 54 days, 246 times by GPUs. None are published for TPUs.
    `detection_seconds`, `restart_seconds` and `repair_hours` are assumptions.

    Attributes:
        chip_hours: mean hours between failures of one chip; 0: chips never fail.
        host_hours: the same of one host and its share of network and software; 0: never.
        preemptions_per_day: hosts that are taken away per day.
        detection_seconds: from a failure until all processes have ended. A host that does not
            answer is given up after `distributed.start.heartbeat` seconds.
        restart_seconds: from then to the start of restoring: scheduling, loading of libraries,
            compilation.
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
    detection_seconds: float = field(default=60.0, metadata=within(0))
    restart_seconds: float = field(default=240.0, metadata=within(0))
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
        """Returns the seconds from a detected failure to the first step, if a host is available."""
        return self.failures.restart_seconds + self.restore


@dataclass(frozen=True)
class Goodput:
    """Simulated runs with one interval between checkpoints.

    Attributes:
        interval: seconds of training between checkpoints.
        seconds: total time of each run, sorted.
        parts: mean seconds of training, checkpoints, lost work, detection of failures, starts and
            restarts, waiting for hosts, and running on fewer hosts (what it takes longer).
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
    """Returns Daly's (2006, equation 20) mean total time; inf where it overflows.

    It assumes exponential failures and enough spare hosts, and ignores `write` and `start`. Each
    failure adds its detection, during which nothing else can fail.
    """
    mean = run.mean_between
    if math.isinf(mean):
        return run.work * (1 + run.save / interval)
    try:
        segment = math.expm1((interval + run.save) / mean)
        seconds = mean * math.exp(run.restart / mean) * segment * run.work / interval
        return seconds * (1 + run.failures.detection_seconds / mean)
    except OverflowError:
        return math.inf


def simulate(
    run: FailingRun, interval: float, generators: Sequence[np.random.Generator] | None = None
) -> Goodput:
    """Simulates `run.failures.runs` runs.

    Args:
        run: the run and its machine.
        interval: seconds of training between checkpoints; the end of a run has one too.
        generators: the random numbers of each run; by default from `run.failures.seed`. Each start
            draws `exponential(mean_between)`: the seconds until the next failure.

    Raises:
        ValueError: an interval that is not positive; a run that does not end within 200,000
            failures.
    """
    if not interval > 0:
        raise ValueError(f"interval = {interval}; allowed: above 0")
    seeds = np.random.SeedSequence(run.failures.seed).spawn(run.failures.runs)
    generators = generators or [np.random.default_rng(seed) for seed in seeds]
    runs = [_SimulatedRun(run, interval, generator).finish() for generator in generators]
    parts = {
        name: float(np.mean([simulated.parts[name] for simulated in runs]))
        for name in runs[0].parts
    }
    seconds = np.sort([simulated.now for simulated in runs])
    return Goodput(
        interval, seconds, parts, float(np.mean([simulated.failures for simulated in runs]))
    )


def best(run: FailingRun) -> Goodput:
    """Returns the simulated runs with the interval that is best for them.

    Intervals are tried on a geometric grid around Daly's, with the same random numbers for all.

    Raises:
        ValueError: as `simulate`.
    """
    if math.isinf(run.mean_between):
        return simulate(run, run.work)
    guess = max(daly(run.save, run.mean_between), run.write, 1.0)
    trial_failures = dataclasses.replace(run.failures, runs=min(run.failures.runs, _SEARCH_RUNS))
    trial_run = dataclasses.replace(run, failures=trial_failures)

    def interval(power: int) -> float:
        return min(guess * _GRID_RATIO**power, run.work)

    mean = functools.cache(lambda power: simulate(trial_run, interval(power)).mean)
    power = 0
    for step in (1, -1):
        while abs(power + step) <= 12 and mean(power + step) < mean(power):
            power += step
    return simulate(run, interval(power))


class _SimulatedRun:
    """One simulated run.

    Attributes:
        now: seconds since its first start.
        left: seconds of work that no checkpoint holds yet.
        failures: their number.
        repaired: times at which failed hosts come back.
        parts: as `Goodput.parts`.
    """

    def __init__(self, run: FailingRun, interval: float, random: np.random.Generator) -> None:
        self.run, self.interval, self.random = run, interval, random
        self.now, self.left, self.failures = 0.0, run.work, 0
        self.repaired: list[float] = []
        self.parts = dict.fromkeys(
            ("training", "saves", "lost work", "detection", "restarts", "waiting for hosts",
             "fewer hosts"), 0.0,
        )  # fmt: skip

    def finish(self) -> "_SimulatedRun":
        """Runs to the end."""
        overhead = self.run.start
        while self.left > 0:
            self._wait_for_hosts()
            overhead = self._train_until_event(overhead)
            if self.failures > _MAX_FAILURES:
                raise ValueError(
                    f"the run does not end: {_MAX_FAILURES:,} failures, and "
                    f"{self.left / HOUR:,.0f} of {self.run.work / HOUR:,.0f} hours of training "
                    f"are left; a failure comes every {self.run.mean_between:,.0f} s on average, "
                    f"a restart takes {self.run.restart:,.0f} s"
                )
        return self

    def _training_hosts(self) -> int:
        """Returns the number of hosts that train now: all; fewer, if elastic; or 0."""
        self.repaired = [repair_time for repair_time in self.repaired if repair_time > self.now]
        run, failures = self.run, self.run.failures
        available = run.hosts + failures.spare_hosts - len(self.repaired)
        if available >= run.hosts:
            return run.hosts
        return _divisor(run.hosts, available) if failures.elastic else 0

    def _wait_for_hosts(self) -> None:
        """Advances the clock until enough hosts are available."""
        while not self._training_hosts():
            first_repair = min(self.repaired)
            self.parts["waiting for hosts"] += first_repair - self.now
            self.now = first_repair

    def _train_until_event(self, overhead: float) -> float:
        """Trains until a failure, a repaired host or the end.

        overhead: seconds of the start or restart. Returns those of the next one.
        """
        run, hosts = self.run, self._training_hosts()
        speed = hosts / run.hosts
        rate = run.failures.rate(run.chips * speed, hosts)
        failure_time = self.random.exponential(1 / rate) if rate else math.inf
        # A checkpoint waits until the one before is written.
        write_delay = max(run.write - self.interval, 0.0)
        cycle = self.interval + run.save + write_delay
        checkpoints = math.ceil(self.left / (self.interval * speed) - 1e-12)
        last_interval = self.left / speed - (checkpoints - 1) * self.interval
        write_waits = (
            (checkpoints - 2) * write_delay + max(run.write - last_interval, 0.0)
            if checkpoints > 1
            else 0.0
        )
        end_time = overhead + self.left / speed + checkpoints * run.save + write_waits + run.write
        regrow_time = math.inf
        if speed < 1 and self.repaired:  # at the first checkpoint after a host has come back
            repair_delay = max(min(self.repaired) - self.now - overhead, 0.0)
            checkpoint_delay = math.ceil((repair_delay + write_delay) / cycle) * cycle
            regrow_time = overhead + (
                checkpoint_delay - write_delay + run.write if checkpoint_delay else 0.0
            )
        if end_time <= min(failure_time, regrow_time):
            self._add_parts(
                overhead, self.left, checkpoints * run.save + write_waits + run.write, speed
            )
            self.now += end_time
            self.left = 0.0
            return 0.0
        event_time = min(failure_time, regrow_time)
        cycles = max(
            math.floor((event_time - overhead - run.write + write_delay) / cycle + 1e-12), 0
        )
        cycles = min(cycles, checkpoints - 1)  # all are complete at the end alone
        saved_work = cycles * self.interval * speed
        save_seconds = cycles * run.save + max(cycles - 1, 0) * write_delay
        self._add_parts(min(overhead, event_time), saved_work, save_seconds, speed)
        self.left -= saved_work
        self.now += event_time
        self.parts["lost work"] += (
            max(event_time - overhead, 0.0) - save_seconds - cycles * self.interval
        )
        if failure_time <= regrow_time:
            self.failures += 1
            self.repaired.append(self.now + run.failures.repair_hours * HOUR)
            self.parts["detection"] += run.failures.detection_seconds
            self.now += run.failures.detection_seconds
        return run.restart

    def _add_parts(self, overhead: float, work: float, saves: float, speed: float) -> None:
        self.parts["restarts"] += overhead
        self.parts["training"] += work
        self.parts["fewer hosts"] += work / speed - work
        self.parts["saves"] += saves


@functools.cache
def _divisor(number: int, max_divisor: int) -> int:
    """Returns the largest divisor of `number` that is at most `most`; 0 if `most` is 0."""
    return next((size for size in range(max_divisor, 0, -1) if number % size == 0), 0)


def with_rates(run: FailingRun, mean_between: float) -> FailingRun:
    """Returns the run on a machine for which the formulas hold.

    Its mean time between failures is `mean_between` seconds, and a spare host is always available.
    """
    rates = dataclasses.replace(
        run.failures, chip_hours=0.0, host_hours=0.0,
        preemptions_per_day=24 * HOUR / mean_between, repair_hours=0.0,
    )  # fmt: skip
    return dataclasses.replace(run, failures=rates)
