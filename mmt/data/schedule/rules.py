"""`Schedule`: the rules by which validation losses change the mixing rates; and `Decision`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from mmt import checked
from mmt.checked import within
from mmt.data.mixing import resolve
from mmt.data.schedule.overfitting import PATIENCE, Losses, overfitting

WAIT, ENTER, LOWER, END = "wait", "enter", "lower", "end"


class Decision(NamedTuple):
    """A change of the rate of a language, or of a group of languages.

    Attributes:
      step: about when.
      draw: the first draw with the new rate.
      name: FLORES code, or name of a group.
      rule: 'wait', 'enter', 'lower' or 'end'.
      factor: of the planned rate, from now on.
      reason: for people.
    """

    step: int
    draw: int
    name: str
    rule: str
    factor: float
    reason: str


class Validation(NamedTuple):
    """The measurements at a step: validation `losses` and `training` losses by language or group.
    """

    step: int
    draw: int
    losses: Mapping[str, float]
    training: Mapping[str, float]


@dataclass(frozen=True)
class Schedule:
    """Rules that change the mixing rates of a run, or of its last stage, by validation losses.

    A language without a validation set, and monolingual text, keep their rates. The rate that a
    language loses goes to the others in proportion.

    Attributes:
      steps: of the run; `late_epochs` needs them.
      lower: factor of the rate of a language that overfits, see `overfitting`; again after
        `patience` more validations. 1: never.
      patience: validations after the best one, each over 1 % worse, that show overfitting.
      end_after: validations without a new best loss that end the repetition of a language: if it
        was shown for an epoch or more, its rate falls to the floor. None: never.
      floor: the least factor. Above 0, so that no language is forgotten.
      late_epochs: a language that the run would show more often than this enters late, and is then
        shown as often as this. None: all languages are there from the start.
      groups: name -> languages, by any name, that are treated as one: by the mean of their losses,
        with one factor. Any other language is on its own.

    Raises:
      ValueError: a value out of range, `late_epochs` without `steps`.
    """

    steps: int | None = field(default=None, metadata=within(1))
    lower: float = field(default=0.5, metadata=within(0, 1, above=True))
    patience: int = field(default=PATIENCE, metadata=within(1))
    end_after: int | None = field(default=6, metadata=within(1))
    floor: float = field(default=0.1, metadata=within(0, 1, above=True))
    late_epochs: float | None = field(default=10.0, metadata=within(0, above=True))
    groups: Mapping[str, Sequence[str]] | None = None

    def __post_init__(self) -> None:
        checked.check(self)
        if self.late_epochs is not None and self.steps is None:
            raise ValueError(
                f"schedule.Schedule.late_epochs is {self.late_epochs:g}, which needs steps, the "
                "number of steps of the run; bind schedule.Schedule.steps = %TRAIN_STEPS, or "
                "late_epochs = None"
            )

    def units(self, known: Sequence[str], acting: Sequence[str]) -> dict[str, list[str]]:
        """Returns the groups, and the languages without one, each with its codes among `acting`.

        Raises:
          ValueError: a group of an unknown language, without languages, or with one of another
            group; a group with the name of a language.
        """
        owner: dict[str, str] = {}
        for name, members in (self.groups or {}).items():
            option = f"schedule.Schedule.groups[{name!r}]"
            if name in known or not members:
                fault = "is the code of a language" if name in known else "has no languages"
                raise ValueError(f"{option} {fault}; allowed: another name, and its languages")
            for member in members:
                try:
                    code = resolve(member, known)
                except ValueError as error:
                    raise ValueError(f"{option}: {error}") from None
                if (group := owner.setdefault(code, name)) != name:
                    raise ValueError(f"{option}: {code} is in the group {group!r} already")
        units: dict[str, list[str]] = {}
        for code in acting:
            units.setdefault(owner.get(code, code), []).append(code)
        return units

    def settings(self) -> dict[str, Any]:
        """Returns all settings that decisions depend on, except `steps`; plain JSON."""
        groups = {name: list(members) for name, members in (self.groups or {}).items()}
        return {k: v for k, v in asdict(self).items() if k != "steps"} | {"groups": groups}

    def decide(
        self,
        name: str,
        decided: Sequence[Decision],
        history: Sequence[Validation],
        epochs: float,
    ) -> Decision | None:
        """Returns the decision on a language or group at the last validation, or None.

        Args:
          name: of the language or group.
          decided: the decisions on it so far.
          history: the validations of the run so far.
          epochs: how often its pairs were shown.
        """
        latest = decided[-1] if decided else None
        if latest is not None and latest.rule in (WAIT, END):
            return None
        entered = max((decision.draw for decision in decided if decision.rule == ENTER), default=-1)
        rows = [row for row in history if name in row.losses and row.draw > entered]
        if not rows or rows[-1] is not history[-1]:
            return None
        factor = latest.factor if latest else 1.0
        step, draw = rows[-1][:2]
        losses = [row.losses[name] for row in rows]
        stale_validations = len(losses) - 1 - int(np.argmin(losses))
        if self.end_after is not None and stale_validations >= self.end_after and epochs >= 1:
            reason = f"no better loss in {stale_validations} validations, after {epochs:.1f} epochs"
            return Decision(step, draw, name, END, min(factor, self.floor), reason)
        new_validations = sum(row.draw > (latest.draw if latest else -1) for row in rows)
        if new_validations < self.patience or factor * self.lower >= factor or factor <= self.floor:
            return None
        training_rows = [(row.step, row.training[name]) for row in rows if name in row.training]
        overfit = overfitting(
            Losses([row.step for row in rows], losses),
            Losses(*zip(*training_rows, strict=True)) if training_rows else None,
            patience=self.patience,
        )
        if overfit is None:
            return None
        reason = (
            f"overfits since step {overfit.onset:,}: validation loss {overfit.best:.3f} there, "
            f"{overfit.last:.3f} now"
        )
        return Decision(step, draw, name, LOWER, max(factor * self.lower, self.floor), reason)
