"""The changes of a run's order by validation losses: ends of stages, and a schedule's decisions.

A change holds from a draw that no virtual shard has used yet. It depends on the losses alone, so
all processes make the same one.
"""

import itertools
import math
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from mmt import checked, languages, suggest
from mmt.data.curriculum import CurriculumSampler, RateChange
from mmt.data.mixing import is_monolingual, resolve
from mmt.data.schedule.late import entries
from mmt.data.schedule.rules import ENTER, WAIT, Decision, Schedule, Validation

_DIGITS = 6  # of the losses that are kept


class ScheduleState:
    """The losses of a run so far, and the changes that they caused.

    Args:
      schedule: None: the rates do not change.
      sampler: of the run; later the one with all changes so far.
      known: the codes of the data.
      held_out: validation examples by code.

    Raises ValueError for a schedule of another type, such as a gin reference without brackets, and
    for a stage that ends by the loss of a language without a validation set.
    """

    def __init__(
        self,
        schedule: Schedule | None,
        sampler: CurriculumSampler,
        known: Sequence[str],
        held_out: Mapping[str, int],
    ):
        if not isinstance(schedule, Schedule | None):
            raise ValueError(
                f"pipeline.train_batches.schedule is {checked.short(schedule)}; allowed: "
                "@schedule.Schedule(), with its brackets, or None"
            )
        self.sampler = sampler
        self.schedule = schedule
        self._losses: list[tuple[int, float]] = []  # (step, loss) of the stage, which ends by them
        self._history: list[Validation] = []
        self._decisions: list[Decision] = []  # by draw; those after the last validation are planned
        self._reported = -1  # the draw up to which decisions were returned
        self._silent: list[str] = []  # languages without a validation set
        self._units: dict[str, list[str]] = {}
        self._check_watched(known, held_out)
        if schedule is not None:
            drawn = [code for code, rate in sampler.planned_rates().items() if rate]
            pairs = [code for code in drawn if not is_monolingual(code)]
            self._silent = [code for code in pairs if not held_out.get(code)]
            acting = [code for code in pairs if held_out.get(code)]
            self._units = schedule.units(known, acting)
            self._plan_waits()

    def _check_watched(self, known: Sequence[str], held_out: Mapping[str, int]) -> None:
        """Raises ValueError for a stage that ends by a loss that is never measured."""
        for stage in self.sampler.stages:
            name, _ = stage.watched_loss() or ("", 0)
            if name and not held_out.get(code := resolve(name, known)):
                having = [other for other in known if held_out.get(other)]
                raise ValueError(
                    f"a stage has until = {dict(stage.until or {})}, but {code} has no validation "
                    f"set, so its loss is never measured{suggest.hint(code, having, 3, cutoff=0.0)}"
                )

    @property
    def waits(self) -> bool:
        """Returns whether the order depends on validation losses."""
        stages = self.sampler.stages
        return self.schedule is not None or any(stage.watched_loss() for stage in stages)

    def settings(self) -> dict[str, Any]:
        """Returns all settings that determine the changes by losses; plain JSON."""
        return {"schedule": self.schedule.settings()} if self.schedule else {}

    def state(self) -> dict[str, Any]:
        """Returns the changes so far, and the losses that decide the next ones; plain JSON."""
        state: dict[str, Any] = {}
        if len(self.sampler.stages) > 1:
            losses = [list(entry) for entry in self._losses]
            state["stages"] = {"ends": list(self.sampler.ends), "losses": losses}
        if self.schedule is not None:
            state["schedule"] = {
                "decisions": [entry._asdict() for entry in self._decisions],
                "history": [entry._asdict() for entry in self._history],
                "reported": self._reported,
            }
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues after the validation at which `state` was saved."""
        stages = state.get("stages", {"ends": [], "losses": []})
        self._losses = [  # earlier versions saved no steps
            (entry[0], entry[1]) if isinstance(entry, Sequence) else (0, entry)
            for entry in stages["losses"]
        ]
        if self.schedule is not None:
            saved = state["schedule"]
            self._decisions = [Decision(**entry) for entry in saved["decisions"]]
            self._history = [Validation(**entry) for entry in saved["history"]]
            self._reported = saved["reported"]
        self._update_sampler(stages["ends"])

    def validated(
        self, losses: Mapping[str, float], training: Mapping[str, float], draw: int, step: int
    ) -> list[dict[str, Any]]:
        """Takes losses by FLORES code, in nats per token.

        Returns the changes now and since the last validation, see `TrainBatches.validated`.
        """
        changed = self._end_stage(losses, draw, step)
        start = self.sampler.last_start()
        if self.schedule is None or start is None or draw < start:
            return changed
        self._history = [row for row in self._history if row.step < step]  # after a rollback
        self._history.append(Validation(step, draw, self._means(losses), self._means(training)))
        self._decide(draw)
        due = [decision for decision in self._decisions if self._reported < decision.draw <= draw]
        self._reported = draw
        return changed + [self._as_row(decision) for decision in due]

    def warnings(self) -> list[str]:
        """Returns warnings about rates that the schedule does not change."""
        messages = []
        if self._silent:
            messages.append(
                f"the schedule keeps the rates of {len(self._silent)} languages that have no "
                f"validation set: {', '.join(self._silent[:10])}"
            )
        if self.schedule is not None and not self._units:
            messages.append("the schedule changes nothing: no language has a validation set")
        if (epochs := self._least_epochs()) is not None:
            messages.append(
                "schedule.Schedule.late_epochs cannot be kept, so no language enters late: the run "
                f"shows all pairs together {epochs:.3g} times. Set it to more than this, or to None"
            )
        return messages

    def _end_stage(self, losses: Mapping[str, float], draw: int, step: int) -> list[dict[str, Any]]:
        """Ends the current stage if its losses no longer improve."""
        stage = self.sampler.loss_watched_stage()
        watched = stage.watched_loss() if stage else None
        if watched is None or draw < self.sampler.parts[-1].start:
            return []
        language, patience = watched
        values = list(losses.values())
        if language:
            values = [losses[resolve(language, list(losses))]]
        self._losses = [entry for entry in self._losses if entry[0] < step]  # after a rollback
        self._losses.append((step, float(np.mean(values))))
        means = [loss for _, loss in self._losses]
        best = int(np.argmin(np.where(np.isnan(means), np.inf, means)))
        if len(means) - 1 - best < patience:
            return []
        self._losses = []
        self.sampler = self.sampler.ended(draw)
        if self.schedule is not None:
            self._plan_waits()
        text = f"a stage of the data ends, after {draw:,} examples"
        return [{"step": step, "name": "", "rule": "stage", "text": text}]

    def _plan_waits(self) -> None:
        """Lets languages wait if the last stage has begun."""
        start = self.sampler.last_start()
        if start is None or self._least_epochs() is not None:
            return
        for entry in self._entries(start, set(self._units)):
            reason = f"it enters at about step {entry.step:,}"
            wait = Decision(self._step_of(start), start, entry.name, WAIT, 0.0, reason)
            self._decisions += [wait, entry]
        self._update_sampler(self.sampler.ends)

    def _decide(self, draw: int) -> None:
        """Adds the decisions of the last validation, and plans the entries again."""
        assert self.schedule is not None
        decisions = [decision for decision in self._decisions if decision.draw <= draw]
        counts = self.sampler.before(draw)
        appearances = dict(zip(self.sampler.counts, counts.tolist(), strict=True))
        for name, codes in self._units.items():
            epochs = sum(appearances[code] for code in codes) / self._pairs(name)
            earlier = [decision for decision in decisions if decision.name == name]
            new_decision = self.schedule.decide(name, earlier, self._history, epochs)
            decisions += [new_decision] if new_decision else []
        waiting = {decision.name for decision in self._decisions if decision.draw > draw}
        self._decisions = decisions
        planned = self._entries(draw, waiting)
        entering = sorted(waiting - {decision.name for decision in planned})
        self._decisions += [*(self._enter(name, draw) for name in entering), *planned]
        self._update_sampler(self.sampler.ends)

    def _entries(self, draw: int, waiting: Set[str]) -> list[Decision]:
        """Plans when those of `waiting` enter that have to wait longer than to `draw`."""
        epochs = self.schedule.late_epochs if self.schedule else None
        if epochs is None or not waiting:
            return []
        rates = self.sampler.planned_rates()
        factors = {decision.name: decision.factor for decision in self._decisions}
        factors |= dict.fromkeys(waiting, 1.0)
        weights = {
            name: sum(rates[code] for code in codes) * factors.get(name, 1.0)
            for name, codes in self._units.items()
        }
        pairs = {name: self._pairs(name) for name in self._units}
        end, acting = self._last_draw(), self._acting_rate()
        late = entries(weights, pairs, waiting, (end - draw) * acting, epochs)
        draws = {name: end - int(examples_after / acting) for name, examples_after in late.items()}
        return [self._enter(name, first) for name, first in draws.items() if first > draw]

    def _enter(self, name: str, draw: int) -> Decision:
        step = self._step_of(draw)
        return Decision(step, draw, name, ENTER, 1.0, "it is repeated as often as late_epochs")

    def _least_epochs(self) -> float | None:
        """Returns the epochs of all pairs in the last stage, if languages cannot have fewer."""
        limit = self.schedule.late_epochs if self.schedule else None
        start = self.sampler.last_start()
        if limit is None or start is None or not self._units:
            return None
        pairs = sum(map(self._pairs, self._units))
        epochs = (self._last_draw() - start) * self._acting_rate() / pairs
        return epochs if epochs > limit else None

    def _update_sampler(self, ends: Sequence[int | None]) -> None:
        """Updates the sampler to these ends and all decisions, if any of them is new."""
        self._decisions.sort(key=lambda decision: decision.draw)
        factors = {code: 1.0 for codes in self._units.values() for code in codes}
        changes = []
        for draw, decisions in itertools.groupby(
            self._decisions, key=lambda decision: decision.draw
        ):
            for decision in decisions:
                factors |= dict.fromkeys(self._units[decision.name], decision.factor)
            changes.append(RateChange(draw, dict(factors)))
        if (list(ends), tuple(changes)) != (self.sampler.ends, self.sampler.changes):
            self.sampler = self.sampler.resumed(ends, changes)

    def _as_row(self, decision: Decision) -> dict[str, Any]:
        rates_before = self.sampler.rates(decision.draw - 1)
        if decision.draw == self.sampler.last_start():
            rates_before = self.sampler.planned_rates()
        rates = [
            sum(rates[code] for code in self._units[decision.name])
            for rates in (rates_before, self.sampler.rates(decision.draw))
        ]
        name, (old_rate, new_rate) = languages.name_of(decision.name), rates
        return {
            "step": decision.step, "name": decision.name, "rule": decision.rule,
            "languages": self._units[decision.name], "before": old_rate, "after": new_rate,
            "text": f"{name}: {decision.rule}, mixing rate {old_rate:.2%} -> {new_rate:.2%}: "
            f"{decision.reason}",
        }  # fmt: skip

    def _means(self, losses: Mapping[str, float]) -> dict[str, float]:
        """Returns the mean loss of each language or group of which losses are known."""
        finite = {
            name: [losses[code] for code in codes if math.isfinite(losses.get(code, math.nan))]
            for name, codes in self._units.items()
        }
        return {
            name: round(float(np.mean(values)), _DIGITS)
            for name, values in finite.items()
            if values
        }

    def _pairs(self, name: str) -> int:
        return sum(self.sampler.counts[code] for code in self._units[name])

    def _acting_rate(self) -> float:
        planned = self.sampler.planned_rates()
        return sum(planned[code] for codes in self._units.values() for code in codes)

    def _last_draw(self) -> int:
        """Returns about how many examples the run draws."""
        steps = self.schedule.steps if self.schedule else None
        return self.sampler.draws_in((steps or 0) * self.sampler.rows)

    def _step_of(self, draw: int) -> int:
        return int(self.sampler.rows_for(draw) // self.sampler.rows)
