"""Forecasts a whole training run: time, failures, cost, data and storage. `mmt plan --run`."""

import dataclasses
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mmt import checked
from mmt.checked import within
from mmt.data.cache import records
from mmt.plan import goodput, step_time
from mmt.plan.corpus_sizes import CorpusSizes, Exposure
from mmt.plan.estimate import TopologyPlan
from mmt.plan.goodput import HOUR, FailingRun, Failures, Goodput
from mmt.plan.measured import MeasuredRun

DAY, YEAR = 24 * HOUR, 365.25 * 24 * HOUR
RECORD_BYTES = 4  # of an ArrayRecord file per record, beside the record: measured


@dataclass(frozen=True)
class RunConditions:
    """Prices and rates of a forecast, bound in gin. Raises ValueError for a negative value.

    Rates of input and cache are CPU time of one core of an Intel Xeon (benchmarks/data/pipeline.py,
    caching.py); those of storage are assumptions.

    Attributes:
        price: money per chip and hour; None: no cost is computed.
        currency: its name.
        power_overhead: the data centre's energy per energy of chips (PUE).
        storage_rate: bytes per second that a host writes to, and reads from, the file system.
        verify_rate: bytes per second that a host verifies of a checkpoint.
        blocked_rate: bytes per second of a host while a save keeps training waiting, before the
            rest is written in the background; None: training waits until all is written.
        restore_rate: bytes per second of a host that verifies and reads; None: what follows from
            `storage_rate` and `verify_rate`.
        input_rate: tokens of both sides per second that a core of a host mixes and packs.
        input_cores: cores of a host that do this.
        cache_rate: pairs per second that a core tokenises and writes.
        cache_cores: cores that build the cache.
    """

    price: float | None = field(default=None, metadata=within(0))
    currency: str = "USD"
    power_overhead: float = field(default=1.1, metadata=within(1))
    storage_rate: float = field(default=1e9, metadata=within(0, above=True))
    verify_rate: float = field(default=2.1e9, metadata=within(0, above=True))
    blocked_rate: float | None = field(default=None, metadata=within(0, above=True))
    restore_rate: float | None = field(default=None, metadata=within(0, above=True))
    input_rate: float = field(default=3e6, metadata=within(0, above=True))
    input_cores: int = field(default=1, metadata=within(1))
    cache_rate: float = field(default=20_000.0, metadata=within(0, above=True))
    cache_cores: int = field(default=32, metadata=within(1))

    def __post_init__(self) -> None:
        checked.check(self)


@dataclass(frozen=True)
class RunForecast:
    """The forecast of a run. Money, energy and data are None where their inputs are unknown.

    Attributes:
        plan: the compiled step, and the machine.
        step: its forecast, without waiting for input.
        conditions, failures: assumptions.
        sizes: of the corpus; None without a corpus.
        languages: the exposure of each language; None without a corpus.
        interval: seconds of training between saves, by checkpoint.Policy; None: the best one.
        vocabularies: pieces of source and target, for the size of the cache.
        measured: the run whose rates of saving and restarting are used; None: no run.
    """

    plan: TopologyPlan
    step: step_time.StepTime
    conditions: RunConditions = RunConditions()
    failures: Failures = Failures()
    sizes: CorpusSizes | None = None
    languages: Mapping[str, Exposure] | None = None
    interval: float | None = None
    vocabularies: tuple[int, int] = (32_000, 32_000)
    measured: MeasuredRun | None = None

    @property
    def steps(self) -> int:
        """Returns the number of steps."""
        return math.ceil(self.plan.answer["tokens"] / self.plan.answer["tokens_per_step"])

    @functools.cached_property
    def input(self) -> dict[str, float]:
        """Returns the rates of a host's input and the seconds that a step waits for it.

        `needed` and `measured` are tokens per second, source and target together.
        """
        tokens = self.plan.answer["tokens_per_step"] * (1 + self._target_share)
        measured = self.conditions.input_rate * self.conditions.input_cores
        reading = tokens / self.plan.machine.hosts / measured
        return {
            "needed": tokens / self.plan.machine.hosts / self.step.seconds,
            "measured": measured,
            "waiting_seconds": max(reading - self.step.seconds, 0.0),
        }

    @property
    def _target_share(self) -> float:
        """Returns target tokens per source token; 1 where the corpus is unknown."""
        if self.sizes is None or self.languages is None:
            return 1.0
        sizes = self.sizes.sizes
        target = sum(
            exposure.tokens / sizes[code].source_tokens * sizes[code].target_tokens
            for code, exposure in self.languages.items()
        )
        return target / sum(exposure.tokens for exposure in self.languages.values())

    @property
    def step_seconds(self) -> float:
        """Returns the seconds of a step, waiting for input included."""
        return self.step.seconds + self.input["waiting_seconds"]

    @property
    def checkpoint(self) -> dict[str, float]:
        """Returns the bytes of a checkpoint, and the seconds to save and to restore it.

        Training waits during `blocked_seconds` of a save.
        """
        size, rates = self.plan.answer["checkpoint_bytes"], self.conditions
        host_bytes = size / self.plan.machine.hosts
        save = host_bytes / rates.storage_rate
        return {
            "bytes": float(size),
            "save_seconds": save,
            "blocked_seconds": min(host_bytes / rates.blocked_rate, save)
            if rates.blocked_rate else save,
            "restore_seconds": host_bytes / rates.restore_rate
            if rates.restore_rate else save + host_bytes / rates.verify_rate,
        }  # fmt: skip

    @functools.cached_property
    def cache(self) -> dict[str, float] | None:
        """Returns the bytes of the token cache, and the hours to build it."""
        if self.sizes is None:
            return None
        size = sum(
            s.pairs * record_bytes(s.source_tokens, s.target_tokens, self.vocabularies)
            for s in self.sizes.sizes.values()
        )
        pairs = sum(s.pairs for s in self.sizes.sizes.values())
        core_hours = pairs / self.conditions.cache_rate / HOUR
        return {"bytes": size, "pairs": float(pairs), "core_hours": core_hours,
                "hours": core_hours / self.conditions.cache_cores}  # fmt: skip

    @property
    def failing(self) -> FailingRun:
        """Returns the run as the simulator takes it."""
        checkpoint, machine = self.checkpoint, self.plan.machine
        return FailingRun(
            self.steps * self.step_seconds,
            checkpoint["blocked_seconds"], checkpoint["restore_seconds"],
            machine.chips, machine.hosts, self.failures,
            write=checkpoint["save_seconds"] - checkpoint["blocked_seconds"],
        )  # fmt: skip

    @functools.cached_property
    def best(self) -> Goodput:
        """Returns the run with the best interval between saves."""
        return goodput.best(self.failing)

    @functools.cached_property
    def goodput(self) -> Goodput:
        """Returns the run with its own interval."""
        if self.interval is None:
            return self.best
        return goodput.simulate(self.failing, min(self.interval, self.failing.work))

    @property
    def days(self) -> float:
        """Returns the days without failures."""
        return self.steps * self.step_seconds / DAY

    @property
    def chip_hours(self) -> float:
        """Returns the mean chip-hours with failures, those of spare hosts included.

        A spare host has as many chips as one of the machine, which may use a part of a host.
        """
        machine = self.plan.machine
        spare_chips = self.failures.spare_hosts * min(machine.chip.host_chips, machine.chips)
        return self.goodput.mean / HOUR * (machine.chips + spare_chips)

    @property
    def energy(self) -> float | None:
        """Returns kilowatt-hours of the chips, with the data centre's overhead."""
        watts = self.plan.machine.chip.watts
        if watts is None:
            return None
        return self.chip_hours * watts / 1000 * self.conditions.power_overhead

    @property
    def money(self) -> float | None:
        """Returns the price of all chip-hours."""
        price = self.conditions.price
        return None if price is None else self.chip_hours * price

    @property
    def shares(self) -> dict[str, float]:
        """Returns the parts of the run's time, the largest first; they sum to 1."""
        run = self.goodput
        steps = {**self.step.parts, "waiting for input": self.input["waiting_seconds"]}
        share = {
            name: seconds / self.step_seconds * run.share for name, seconds in steps.items()
        } | {name: s / run.mean for name, s in run.parts.items() if name != "training"}
        return dict(sorted(((n, s) for n, s in share.items() if s), key=lambda part: -part[1]))

    @property
    def notes(self) -> list[str]:
        """Returns limits of the forecast, and improvements of the run."""
        notes = [*self.plan.notes, *self.step.notes]
        if self.sizes is not None and self.sizes.note:
            notes.append(self.sizes.note)
        if self.measured is not None:
            notes.append(self.measured.note(self.checkpoint["bytes"] / self.plan.machine.hosts))
        if self.input["waiting_seconds"]:
            notes.append("the chips wait for input: more run_forecast.RunConditions.input_cores, "
                         "if the hosts have them")  # fmt: skip
        if self.goodput.parts["waiting for hosts"] > 0.02 * self.goodput.mean:
            notes.append("the run waits for hosts: more goodput.Failures.spare_hosts, or elastic = "
                         "True")  # fmt: skip
        if self.best.mean < 0.98 * self.goodput.mean:
            notes.append(
                f"a save every {self.best.interval / 60:,.1f} minutes would end "
                f"{(self.goodput.mean - self.best.mean) / DAY:,.2f} days earlier than one every "
                f"{self.goodput.interval / 60:,.1f} (checkpoint.Policy)"
            )
        return notes

    def to_json(self) -> dict[str, Any]:
        """Returns the forecast as JSON: times in seconds, days or hours, as the names say."""
        run, machine = self.goodput, self.plan.machine
        formulas = {}
        if math.isfinite(mean := self.failing.mean_between):
            save = self.failing.save
            formulas = {"young_seconds": goodput.young(save, mean),
                        "daly_seconds": goodput.daly(save, mean)}  # fmt: skip
        return {
            "topology": machine.name,
            "chips": machine.chips, "devices": machine.devices, "hosts": machine.hosts,
            "step_seconds": self.step_seconds,
            "step_parts_seconds": dict(self.step.parts),
            "steps": self.steps,
            "source_tokens": self.plan.answer["tokens"],
            "days_without_failures": self.days,
            "chip_years_without_failures": self.days * DAY / YEAR * machine.chips,
            "core_years_without_failures": self.days * DAY / YEAR * machine.devices,
            "days": {"mean": run.mean / DAY, "5%": run.quantile(0.05) / DAY,
                     "95%": run.quantile(0.95) / DAY},
            "goodput": run.share,
            "failures": run.failures,
            "save_interval_seconds": {"configured": run.interval, "best": self.best.interval,
                                      **formulas},
            "goodput_at_best_interval": self.best.share,
            "chip_hours": self.chip_hours,
            "energy_kwh": self.energy,
            "money": self.money, "currency": self.conditions.currency,
            "checkpoint": self.checkpoint,
            "input_tokens_per_second_and_host": self.input,
            "cache": self.cache,
            "languages": None if self.languages is None else {
                code: dataclasses.asdict(exposure) for code, exposure in self.languages.items()
            },
            "shares": self.shares,
            "assumptions": {"conditions": dataclasses.asdict(self.conditions),
                            "failures": dataclasses.asdict(self.failures)},
            "notes": self.notes,
        }  # fmt: skip


def record_bytes(
    source_tokens: float, target_tokens: float, vocabularies: tuple[int, int]
) -> float:
    """Returns the bytes of a pair in the token cache, for synthetic ids with Zipf's frequencies.

    >>> record_bytes(30, 30, (64_000, 32_000))
    167.0
    """
    sides = []
    for tokens, pieces in zip((source_tokens, target_tokens), vocabularies, strict=True):
        quantiles = (np.arange(max(round(tokens), 1)) + 0.5) / max(round(tokens), 1)
        sides.append(np.exp(quantiles * math.log(pieces)).astype(int))  # Zipf: uniform in log(rank)
    lengths = 9  # bytes in `<language>.lengths.npy` and `<language>.longest.npy`
    return float(len(records.encode(sides[0], sides[1], 1)) + RECORD_BYTES + lengths)
