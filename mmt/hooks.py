"""Hooks: what the trainer does every n steps besides training. A hook is a function of `Step`.

Where a run has several processes, each calls every hook, and each has to get the same answer.

Validation by loss and stopping early are here; validation by BLEU is in `eval`, since it
translates. Any importable callable can be bound in gin as another.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import numpy as np

from mmt import distributed
from mmt.metrics import Meters
from mmt.train import Step


@dataclasses.dataclass
class ValidationLoss:
    """Every `period` steps, and at the end, the loss per target token on held-out text.

    batches: a finite sequence of batches with `decoder_language_ids`; all languages may be mixed.
    Writes `validation_loss` (the mean over languages, so that a small language counts as much as
    a large one) and `language_validation_loss`, in nats per token.
    """

    batches: Iterable[Mapping[str, np.ndarray]]
    period: int
    gives_losses: ClassVar[bool] = True  # stages of the data may wait for them

    def __post_init__(self) -> None:
        if self.period < 1:
            raise ValueError(f"EVAL_PERIOD is {self.period}; allowed: 1 or more")

    def __call__(self, now: Step) -> None:
        if now.number % self.period and not now.last:
            return
        languages = now.batches.manifest.languages
        now.program.share(self.batches)
        total: Any = None
        for batch in self.batches:
            placed = now.program.place(batch)
            meters = now.program.evaluate(now.state.params, placed, languages=len(languages))
            total = meters if total is None else total.add(meters)
        if total is None:
            raise ValueError("validation loss: the cache holds no validation examples")
        note_validation(now, total)


def note_validation(now: Step, total: Meters) -> None:
    """Writes down what the sums of all held-out batches come to, see `ValidationLoss`."""
    languages = now.batches.manifest.languages
    loss, tokens = jax.tree.map(np.asarray, (total.language_loss, total.language_tokens))
    by_language = {
        code: float(loss[index] / tokens[index])
        for index, code in enumerate(languages)
        if tokens[index]
    }
    mean = float(np.mean(list(by_language.values())))
    now.measured["validation_loss"] = mean
    now.log.write(
        {
            "step": now.number,
            "validation_loss": mean,
            "language_validation_loss": by_language,
        }
    )
    now.log.say(f"step {now.number}: validation loss {mean:.4f}")
    if isinstance(now.batches, Staged):
        draw = max(distributed.gather(now.batches.next_draw()))
        if now.batches.validated(by_language, draw):
            now.log.say(f"step {now.number}: a stage of the data ends, after {draw:,} examples")


@runtime_checkable
class Staged(Protocol):
    """Batches with stages that validation losses may end; those of `mmt.data.pipeline` are."""

    def next_draw(self) -> int: ...
    def validated(self, losses: Mapping[str, float], draw: int) -> bool: ...


@dataclasses.dataclass
class EarlyStop:
    """Stops when `metric` has not improved in the last `patience` measurements.

    metric: a key of validation rows; smaller is better unless `larger_is_better`. It looks at the
    rows of `metrics.jsonl`, so that it remembers across restarts; several processes stop as the
    first says.
    """

    patience: int
    metric: str = "validation_loss"
    larger_is_better: bool = False

    def __call__(self, now: Step) -> bool:
        if self.metric not in now.measured:
            return False
        values = distributed.from_first(
            lambda: [row[self.metric] for row in now.log.rows() if self.metric in row]
        )
        sign = 1 if self.larger_is_better else -1
        best = int(np.argmax(sign * np.asarray(values)))
        if len(values) - 1 - best < self.patience:
            return False
        reason = f"{self.metric} has not improved in {self.patience} measurements"
        now.log.write({"step": now.number, "stopped": reason})
        now.log.say(f"step {now.number}: {reason}; stopping")
        return True
