"""Hooks: functions of `Step` that the trainer calls after every step.

If a run has several processes, each of them calls every hook, and all must get the same result.

Validation by loss and early stopping are defined here. Validation by BLEU is in `eval`, since it
translates. Any importable callable can be bound in gin as another hook.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import numpy as np

from mmt import distributed, suggest
from mmt.metrics import Meters
from mmt.run import Run
from mmt.step import Rows, Step
from mmt.system import atomic


@runtime_checkable
class HeldOut(Protocol):
    """Held-out batches of which each process reads only its rows (`pipeline.EvalBatches`)."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Rows]: ...
    def share(self, rows: Callable[[int], Sequence[range]]) -> None: ...
    def languages(self) -> Sequence[str]:
        """Returns the codes of the languages that have examples, in the order of the batches."""

    def at_most(self, batches: int) -> "HeldOut":
        """Returns at most `batches` batches, with fewer examples of every language."""


@dataclasses.dataclass
class _HeldOutHook:
    """A hook that measures on `batches`, every `period` steps and at the end.

    budget: maximum fraction of the training time. A batch without gradients costs about a third of
        a training step, so the budget is a fixed number of batches and does not depend on the
        clock. 64 batches are always allowed. If there are more, every language has fewer examples,
        the same ones every time, so that losses are comparable. 0: no limit.
    """

    batches: Iterable[Rows]
    period: int
    budget: float = 0.05

    _passes: ClassVar[int] = 1  # number of passes over the batches

    def __post_init__(self) -> None:
        if self.period < 1:
            raise ValueError(f"EVAL_PERIOD is {self.period}; allowed: 1 or more")
        if not 0 <= self.budget <= 1:
            raise ValueError(f"{type(self).__name__}.budget is {self.budget}; allowed: 0 to 1")
        max_batches = max(64, int(3 * self.budget * self.period)) // self._passes
        self._notice = ""  # printed before the first measurement
        if self.budget and isinstance(self.batches, HeldOut) and len(self.batches) > max_batches:
            fewer = self.batches.at_most(max_batches)
            name = type(self).__name__
            self._notice = (
                f"hooks.{name} measures on {len(fewer):,} of {len(self.batches):,} batches, the "
                f"first examples of each language: {name}.budget = {self.budget}, "
                f"EVAL_PERIOD = {self.period:,}"
            )
            self.batches = fewer

    def __call__(self, now: Step) -> None:
        if not now.number % self.period or now.last:
            if self._notice:
                now.log.say(self._notice)
                self._notice = ""
            self._measure(now)

    def _measure(self, now: Step) -> None:
        raise NotImplementedError


@dataclasses.dataclass
class ValidationLoss(_HeldOutHook):
    """Measures the loss per target token on held-out text every `period` steps and at the end.

    batches: a finite sequence of batches with `decoder_language_ids`; languages may be mixed.

    Writes `validation_loss`, the mean over languages (all with equal weight), and
    `language_validation_loss`, in nats per token; `validation_tokens`, the target tokens that were
    measured: losses of runs that differ in them are not comparable; `language_examples`, the
    training examples that were drawn so far; and `decisions`, where the losses change the order of
    the data.
    """

    gives_losses: ClassVar[bool] = True  # the order of the data may depend on them

    def _measure(self, now: Step) -> None:
        record_validation(now, _evaluate(now, self.batches))


@dataclasses.dataclass
class SourceUse(_HeldOutHook):
    """Measures how much conditioning on the source lowers the loss.

    It subtracts the loss with the right sources from the loss with the sources of other rows, on
    held-out text. A model that ignores its sources has 0, even with a low validation loss. Measures
    every `period` steps and at the end. Writes `source_use`, the mean over languages, and
    `language_source_use`, in nats per target token.

    batches: as for `ValidationLoss`, each of two rows or more.
    """

    _passes: ClassVar[int] = 2

    def _measure(self, now: Step) -> None:
        losses = _by_language(now, _evaluate(now, self.batches))
        shuffled_losses = _by_language(now, _evaluate(now, self.batches, _with_other_sources))
        gains = {code: shuffled_losses[code] - loss for code, loss in losses.items()}
        mean = float(np.mean(list(gains.values())))
        now.measured["source_use"] = mean
        now.log.write({"step": now.number, "source_use": mean, "language_source_use": gains})
        now.log.say(f"step {now.number}: the source lowers the loss by {mean:.3f} nats per token")


@dataclasses.dataclass
class ExpertUse(_HeldOutHook):
    """Counts the tokens of each language that each expert gets, on held-out text.

    Measures every `period` steps and at the end, without dropout, and replaces `expert_load.json`:
    `step`, and `layers`: layer -> language -> the choices of each expert. `mmt watch` shows it.
    Writes `moe_least_load`, the load of the least used expert of all layers: 1 is an even share,
    0 an expert that no token chose.

    batches: as for `ValidationLoss`.
    """

    def _measure(self, now: Step) -> None:
        config, codes = now.program.model.config, now.batches.manifest.languages
        if not config.moe_period:
            raise ValueError(
                "hooks.ExpertUse: the model has no experts (transformer.Config.moe_period = 0); "
                "remove it from train.train.hooks"
            )
        total: Any = None
        for batch in _with_progress(now, self.batches, "measuring the load of experts"):
            device_batch = now.program.place(batch)
            load = now.program.expert_load(now.state.params, device_batch, languages=len(codes))
            total = load if total is None else jax.tree.map(np.add, total, load)
        if total is None:
            raise ValueError("load of experts: the cache holds no validation examples")
        layers = {
            f"{stack}.{(number + 1) * config.moe_period}": np.asarray(load)
            for stack, loads in total.items()
            for number, load in enumerate(np.asarray(loads))
        }
        self._write(now, layers, codes)
        least_load = min(
            float(load.sum(axis=0).min() * load.shape[1] / max(load.sum(), 1.0))
            for load in layers.values()
        )
        now.log.write({"step": now.number, "moe_least_load": round(least_load, 4)})

    @staticmethod
    def _write(now: Step, layers: dict[str, np.ndarray], codes: Sequence[str]) -> None:
        if not distributed.is_first():
            return
        content = {
            layer: {
                code: counts.astype(int).tolist()
                for code, counts in zip(codes, load, strict=True)
                if counts.any()
            }
            for layer, load in layers.items()
        }
        try:
            file = Run(now.log.path.parent).expert_load
            atomic.write_json(file, {"step": now.number, "layers": content})
        except OSError as error:  # a full disk
            now.log.say(f"{error}; training goes on")


def _with_other_sources(batch: Rows) -> Rows:
    """Returns the batch in which every row has the sources of the row before it."""
    if len(batch["decoder_target_tokens"]) < 2:
        raise ValueError("source use: a process has batches of one row; it needs two rows or more")
    return {
        name: np.roll(values, 1, axis=0) if name.startswith("encoder_") else values
        for name, values in batch.items()
    }


def _evaluate(
    now: Step, batches: Iterable[Rows], transform: Callable[[Rows], Rows] = lambda batch: batch
) -> Meters:
    """Returns the sums over all held-out batches, each mapped by `transform`, without dropout."""
    total: Any = None
    for batch in _with_progress(now, batches, "validating loss"):
        total = _add_batch(now, total, transform(batch), len(now.batches.manifest.languages))
    if total is None:
        raise ValueError("validation loss: the cache holds no validation examples")
    return total


def _with_progress(now: Step, batches: Iterable[Rows], phase: str) -> Iterator[Rows]:
    """Yields the batches, and shows the language that each one begins with."""
    all_languages: Sequence[str] = now.batches.manifest.languages
    held_out = all_languages
    if isinstance(batches, HeldOut):
        batches.share(now.program.layout.rows)
        held_out = batches.languages()
    numbers = {code: number for number, code in enumerate(held_out, start=1)}
    with now.long_phase(phase, len(numbers)) as advance:
        for batch in batches:
            code = _first_language(batch, all_languages)
            advance(code if code in numbers else "", numbers.get(code, 0))
            yield batch


def _first_language(batch: Rows, languages: Sequence[str]) -> str:
    """Returns the language of the first target token of a batch; '' if it has none."""
    ids = batch["decoder_language_ids"][batch["decoder_loss_weights"] > 0]
    return languages[int(ids[0])] if ids.size else ""


def _add_batch(now: Step, total: Meters | None, batch: Rows, languages: int) -> Meters:
    device_batch = now.program.place(batch)
    meters = now.program.evaluate(now.state.params, device_batch, languages=languages)
    return meters if total is None else total.add(meters)


def _by_language(now: Step, total: Meters) -> dict[str, float]:
    """Returns the loss per target token of each language that has tokens."""
    loss, tokens = jax.tree.map(np.asarray, (total.language_loss, total.language_tokens))
    return {
        code: float(loss[index] / tokens[index])
        for index, code in enumerate(now.batches.manifest.languages)
        if tokens[index]
    }


def record_validation(now: Step, total: Meters) -> None:
    """Writes the validation losses, and the changes of the data that follow from them.

    total: sums over all held-out batches.
    """
    by_language, tokens, training = distributed.from_first(
        lambda: [
            _by_language(now, total),
            int(np.asarray(total.language_tokens, np.float64).sum()),
            now.log.language_losses(now.state.meters),
        ]
    )
    mean = float(np.mean(list(by_language.values())))
    draw = max(distributed.gather(now.batches.next_draw()))
    now.measured["validation_loss"] = mean
    now.log.write(
        {
            "step": now.number,
            "validation_loss": mean,
            "validation_tokens": tokens,
            "language_validation_loss": by_language,
            "language_examples": now.batches.drawn(draw),
        }
    )
    now.log.say(f"step {now.number}: validation loss {mean:.4f}")
    decisions = now.batches.validated(by_language, draw, training=training, step=now.number)
    if decisions:
        now.log.write({"step": now.number, "decisions": decisions})
    for decision in decisions:
        now.log.say(f"step {now.number}: {decision['text']}")


@dataclasses.dataclass
class EarlyStop:
    """Stops when `metric` has not improved in the last `patience` measurements.

    metric: a key of validation rows; smaller is better unless `larger_is_better`.
    since: measurements up to this step do not count.

    It reads the logged rows, so a resumed run counts earlier measurements. All processes follow the
    first. It warns once of a metric that no hook before it in the list has measured.
    """

    patience: int
    metric: str = "validation_loss"
    larger_is_better: bool = False
    since: int = 0
    _warned: bool = dataclasses.field(default=False, init=False, repr=False)

    def __call__(self, now: Step) -> bool:
        if self.metric not in now.measured:
            self._warn(now)
            return False
        if now.number <= self.since:
            return False
        values = distributed.from_first(
            lambda: [
                row[self.metric]
                for row in now.log.rows()
                if self.metric in row and row["step"] > self.since
            ]
        )
        sign = 1 if self.larger_is_better else -1
        known = sign * np.asarray(values, np.float64)
        best = int(np.argmax(np.where(np.isnan(known), -np.inf, known)))
        if len(values) - 1 - best < self.patience:
            return False
        reason = f"{self.metric} has not improved in {self.patience} measurements"
        now.log.write({"step": now.number, "stopped": reason})
        now.log.say(f"step {now.number}: {reason}; stopping")
        return True

    def _warn(self, now: Step) -> None:
        if self._warned or not (now.measured or now.last):
            return
        self._warned = True
        if distributed.from_first(lambda: any(self.metric in row for row in now.log.rows())):
            return
        measured = ", ".join(now.measured) or "nothing"
        now.log.say(
            f"step {now.number}: no hook before hooks.EarlyStop has measured its metric "
            f"{self.metric!r}; measured: {measured}{suggest.hint(self.metric, now.measured)}"
        )
