"""The sampler of a run: the language and example of every draw, through all stages.

A boundary between stages is a number of draws, the same for every virtual shard. So it depends
neither on the number of processes nor on packing. Nothing here reads data; `virtual_shards.py`
turns draws into examples.
"""

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mmt.data.mixing import Mixing
from mmt.data.mixture_sampler import MixtureSampler
from mmt.data.stages import Number, Stage, check_stages, epochs_of, stage_rates


class ActiveStage(NamedTuple):
    """A stage with its known start.

    Attributes:
      start: the first draw.
      base: how often each language was drawn before.
      rates: 0 for languages that are not in the mixture.
      components: the languages that are, in the sampler's order.
      sampler: draws the components.
    """

    start: int
    base: Int[np.ndarray, "languages"]
    rates: Float[np.ndarray, "languages"]
    components: Int[np.ndarray, "n"]
    sampler: MixtureSampler

    def at(self, draws: Int[np.ndarray, "n"]) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"]]:
        """Returns languages and appearances of draws of this stage."""
        numbers, appearances = self.sampler.at(draws - self.start)
        languages = self.components[numbers]
        return languages, appearances + self.base[languages]

    def before(self, draw: int) -> Int[np.ndarray, "languages"]:
        """Returns how often each language comes before a draw of this stage."""
        counts = self.base.copy()
        counts[self.components] += self.sampler.before(draw - self.start)
        return counts


class RateChange(NamedTuple):
    """A change of the last stage's rates, at a draw.

    factors: FLORES code -> factor of the planned rate, of the languages that share their rates in
      these proportions from then on. Any other language keeps its planned rate.
    """

    draw: int
    factors: Mapping[str, float]


Density = Callable[[Stage], float]  # the mean number of examples in a row of the stage


class CurriculumSampler:
    """Assigns a language to each draw of a run, and counts its earlier draws.

    Appearances are counted across stages, so an example of a language is repeated only after all
    were shown. The id of a language is its index in `counts`. With one stage this is the stage's
    `MixtureSampler`.

    Args:
      stages: all but the last have an end.
      counts: FLORES code -> examples, of all languages that any stage draws.
      ends: the first draw after each stage, where an earlier start of the run has determined it.
      rows: rows in a batch.
      density: examples per row. `rows` and `density` convert steps into draws, so a boundary in
        steps is as exact as the density.
      changes: of the rates of the last stage, in order; one before its start holds from the start.

    Raises:
      ValueError: a stage that never ends or ends before it begins, an unknown language or kind.

    >>> two = [Stage({"examples": 4}, Mixing(languages=["deu"])), Stage(mixing=Mixing(1.0))]
    >>> CurriculumSampler(two, {"deu": 3, "swh": 3}).at(np.arange(8))[:2]
    (array([0, 0, 0, 0, 1, 0, 1, 0]), array([0, 1, 2, 3, 0, 4, 1, 5]))
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        counts: Mapping[str, int],
        *,
        ends: Sequence[int | None] = (),
        rows: int = 1,
        density: Density = lambda stage: 1.0,
        changes: Sequence[RateChange] = (),
    ):
        self.stages = tuple(stages)
        self.counts = dict(counts)
        self.changes = tuple(changes)
        self.ends = [*ends, *[None] * (len(self.stages) - 1 - len(ends))]  # None: not known yet
        self.parts: list[ActiveStage] = []
        self._rebuild = functools.partial(
            CurriculumSampler, stages, counts, rows=rows, density=density
        )
        self.rows = rows
        self._density = functools.cache(lambda number: density(self.stages[number]))
        check_stages(self.stages, counts)
        for number in range(len(self.stages)):
            start = self.ends[number - 1] if number else 0
            if start is not None:
                self.parts.append(self._new_part(stage_rates(self.stages[number], counts), start))
                if number < len(self.ends) and self.ends[number] is None:
                    self.ends[number] = self._stage_end(number)
        for change in self.changes if self.last_start() is not None else ():
            self._apply_change(change)

    def at(
        self, draws: Int[np.ndarray, "n"]
    ) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"], Int[np.ndarray, "n"]]:
        """Returns each draw's language, how often that was drawn before, and its stage."""
        part_numbers = self._part_numbers(draws)
        languages = np.empty(len(draws), np.int64)
        appearances = np.empty(len(draws), np.int64)
        for number in np.unique(part_numbers).tolist():
            in_stage = part_numbers == number
            languages[in_stage], appearances[in_stage] = self.parts[number].at(draws[in_stage])
        return languages, appearances, np.minimum(part_numbers, len(self.stages) - 1)

    def before(self, draw: int) -> Int[np.ndarray, "languages"]:
        """Returns how often each language appears in the draws before `draw`."""
        return self.parts[self._part_number(draw)].before(draw)

    def when(self, language: int, appearance: int) -> int:
        """Returns the draw of a language's appearance (0, 1, ...); ValueError if there is none."""
        for part in reversed(self.parts):
            component = np.flatnonzero(part.components == language)
            remaining = appearance - int(part.base[language])
            if component.size and remaining >= 0:
                return part.start + part.sampler.when(int(component[0]), remaining)
        raise ValueError(f"appearance {appearance} of language {language} never comes")

    def last_start(self) -> int | None:
        """Returns the first draw of the last stage; None if it is not known yet."""
        number = len(self.stages) - 1
        return self.parts[number].start if number < len(self.parts) else None

    def rates(self, draw: int) -> dict[str, float]:
        """Returns the mixing rates at a draw."""
        part = self.parts[self._part_number(draw)]
        return dict(zip(self.counts, part.rates.tolist(), strict=True))

    def planned_rates(self) -> dict[str, float]:
        """Returns the rates of the last stage without changes."""
        rates = stage_rates(self.stages[-1], self.counts).tolist()
        return dict(zip(self.counts, rates, strict=True))

    def expected(self, draws: int) -> Float[np.ndarray, "languages"]:
        """Returns the expectation of `before` by the mixing rates alone."""
        ends = [*(part.start for part in self.parts[1:]), draws]
        lengths = [
            max(min(end, draws) - part.start, 0) for part, end in zip(self.parts, ends, strict=True)
        ]
        return np.array(lengths, np.float64) @ np.array([part.rates for part in self.parts])

    def draws_in(self, rows: int) -> int:
        """Returns about how many examples the first `rows` rows of the run hold."""
        for number, part in enumerate(self.parts):
            draws = part.start + (rows - self._rows_before(number)) * self._density_of(number)
            if number + 1 == len(self.parts) or draws < self.parts[number + 1].start:
                break
        return round(draws)

    def rows_for(self, draw: int) -> float:
        """Returns about how many rows precede `draw`: the inverse of `draws_in`."""
        number = self._part_number(draw)
        draws = draw - self.parts[number].start
        return self._rows_before(number) + draws / self._density_of(number)

    def warnings(self, rows: int) -> list[str]:
        """Returns warnings about a run of `rows` rows.

        They are for a stage that never begins, and for a stage with over 1 % more examples than its
        cap assumes.
        """
        messages, total = [], self.draws_in(rows)
        for number, part in enumerate(self.parts[: len(self.stages)]):
            if number and part.start >= total:
                messages.append(
                    f"stage {number + 1} of {len(self.stages)} never begins: the previous one ends "
                    f"after {part.start:,} examples, and the run draws about {total:,}"
                )
                break
        for number, part in enumerate(self.parts[: len(self.stages)]):
            mixture = self.stages[number].mixing
            if mixture is None or mixture.max_epochs is None or mixture.examples is None:
                continue
            later_parts = self.parts[number + 1 : len(self.stages)]
            end = min([total, *(later.start for later in later_parts)])
            if (examples := end - part.start) > 1.01 * mixture.examples:
                stage = f"stage {number + 1}" if len(self.stages) > 1 else "the run"
                messages.append(
                    f"mixing.Mixing.max_epochs = {mixture.max_epochs:g} is exceeded: examples = "
                    f"{mixture.examples:,}, but {stage} draws about {examples:,}; set examples to "
                    "this or more"
                )
        return messages

    def loss_watched_stage(self) -> Stage | None:
        """Returns the current stage if it ends by a validation loss; else None."""
        number = len(self.parts) - 1
        return None if number >= len(self.ends) else self.stages[number]

    def ended(self, draw: int) -> "CurriculumSampler":
        """Returns the sampler in which the stage of `loss_watched_stage` ends before `draw`."""
        return self._rebuild(ends=[*self.ends[: len(self.parts) - 1], draw])

    def resumed(
        self, ends: Sequence[int | None], changes: Sequence[RateChange] = ()
    ) -> "CurriculumSampler":
        """Returns the sampler with the ends and changes that the run has determined so far."""
        return self._rebuild(ends=ends, changes=changes)

    def settings(self) -> dict[str, Any]:
        """Returns everything that the meaning of a draw depends on, except `ends`."""
        mixtures = [self._stage_settings(stage) for stage in self.stages]
        if len(mixtures) == 1 and not (self.stages[0].modifiers or self.stages[0].max_targets):
            return mixtures[0]
        stage_options = [
            {"until": dict(stage.until or {}), "modifiers": dict(stage.modifiers or {})}
            | ({"max_targets": stage.max_targets} if stage.max_targets else {})
            | ({"context_lines": stage.context_lines} if stage.context_lines > 1 else {})
            for stage in self.stages
        ]
        pairs = zip(mixtures, stage_options, strict=True)
        return {"stages": [mixture | options for mixture, options in pairs]}

    def _stage_settings(self, stage: Stage) -> dict[str, Any]:
        mixture, rates = stage.mixing or Mixing(), stage_rates(stage, self.counts)
        settings = {
            "temperature": mixture.temperature,
            "max_epochs": mixture.max_epochs,
            "examples": mixture.examples,
            "languages": [code for code, rate in zip(self.counts, rates, strict=True) if rate],
        }
        if mixture.new_languages:
            settings |= {"new_languages": sorted(mixture.new_languages),
                         "rehearsal": mixture.rehearsal}  # fmt: skip
        fraction = mixture.monolingual_fraction(self.counts)
        return settings if fraction is None else settings | {"monolingual": fraction}

    def _part_numbers(self, draws: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        return np.searchsorted([part.start for part in self.parts[1:]], draws, side="right")

    def _part_number(self, draw: int) -> int:
        return int(self._part_numbers(np.array([draw]))[0])

    def _new_part(self, rates: Float[np.ndarray, "languages"], start: int) -> ActiveStage:
        base = self.parts[-1].before(start) if self.parts else np.zeros(len(rates), np.int64)
        components = np.flatnonzero(rates)
        sampler = MixtureSampler(rates[components].tolist())
        return ActiveStage(start, base, rates, components, sampler)

    def _apply_change(self, change: RateChange) -> None:
        """Adds a part with other rates, or replaces the last one if it begins at the same draw."""
        stage = self.parts[len(self.stages) - 1]
        start = max(change.draw, stage.start)
        acting = np.array([code in change.factors for code in self.counts])
        planned = stage_rates(self.stages[-1], self.counts)
        rates = planned * [change.factors.get(code, 1.0) for code in self.counts]
        rates[acting] *= planned[acting].sum() / max(rates[acting].sum(), 1e-300)
        changed_part = self._new_part(rates, start)
        if self.parts[-1].start == start:
            self.parts.pop()
        self.parts.append(changed_part)

    def _density_of(self, part: int) -> float:
        return self._density(min(part, len(self.stages) - 1))

    def _rows_before(self, number: int) -> float:
        pairs = enumerate(itertools.pairwise(self.parts[: number + 1]))
        return math.fsum((b.start - a.start) / self._density_of(index) for index, (a, b) in pairs)

    def _stage_end(self, number: int) -> int | None:
        """Returns the first draw after a stage; None if it is not known in advance."""
        stage, part = self.stages[number], self.parts[number]
        until = dict(stage.until or {})
        if stage.watched_loss():
            return None
        if "steps" in until:
            rows = until["steps"] * self.rows - self._rows_before(number)
            end = part.start + round(rows * self._density(number))
        elif "examples" in until:
            end = int(until["examples"])
        else:
            epochs = epochs_of(until, self.counts)
            end = max(self._draw_after(part, language, n) for language, n in epochs.items())
        if end > part.start:
            return end
        if any(earlier_stage.watched_loss() for earlier_stage in self.stages[:number]):
            return part.start  # the previous stage, which ends by a loss, ended too late
        raise ValueError(
            f"stage {number + 1} of {len(self.stages)} begins after {part.start:,} examples and "
            f"ends, by until = {until}, after {end:,}: until counts from the start of the run"
        )

    def _draw_after(self, part: ActiveStage, language: int, epochs: Number) -> int:
        """Returns the draw after which a language has been drawn for `epochs`."""
        count = math.ceil(epochs * list(self.counts.values())[language])
        if count <= part.base[language]:
            return 0
        component = int(np.flatnonzero(part.components == language)[0])
        remaining = count - int(part.base[language])
        return part.start + part.sampler.when(component, remaining - 1) + 1
