"""Trains many small models simultaneously, each as `mmt.train` would train it alone.

Each model has its own data, run directory, validation, early stopping and best checkpoint. When a
model is finished, the next one takes its slot. stacked.py has the compiled programs.
"""

import dataclasses
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console

from eval.baselines.stacked import ModelStack, on_one_device, room
from mmt import metrics
from mmt.checkpoint import Checkpoints, Policy, without_duplicate_logs
from mmt.default_hooks import restore
from mmt.hooks import EarlyStop, record_validation
from mmt.metrics import Meters
from mmt.run import Run
from mmt.step import Batches, Step, position
from mmt.system import progress
from mmt.trainer import Trainer, TrainState


@dataclasses.dataclass(frozen=True)
class BaselineJob:
    """A model to train in `model_dir`, as `mmt.train.train` would.

    Attributes:
        name: name of the model, such as its language.
        model_dir: the run directory.
        data: opens its training and held-out batches, of the same shapes for all jobs.
        steps: maximum number of steps.
        period: steps between validations, each with a checkpoint.
        patience: validations without improvement, after step `since`, before it stops.
    """

    name: str
    model_dir: Path
    data: Callable[[], tuple[Batches, Iterable[Mapping[str, np.ndarray]]]]
    steps: int
    period: int
    patience: int
    since: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "period", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"{self.name}: {name} {getattr(self, name)}; allowed: 1 or more")

    def finished(self) -> bool:
        """Returns whether it has trained all steps, or stopped early."""
        return Run(self.model_dir).is_trained(self.steps)


class Diverged(ValueError):
    """Raised for models whose loss or gradient became non-finite; the other models are trained.

    names: of their jobs.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.names = tuple(reasons)
        super().__init__(
            f"no finite loss or gradient: {', '.join(reasons.values())}; is the learning rate too "
            "high? The others are trained"
        )


def train(
    program: Trainer, jobs: Sequence[BaselineJob], *, memory: float, at_once: int = 0
) -> None:
    """Trains all jobs, as many at once as fit in `memory` GiB and, unless 0, at most `at_once`.

    Losses and run directories equal those of `mmt.train.train`, up to float32 rounding: there is a
    checkpoint at every validation, of which the last and the best are kept. `seconds` and
    `tokens_per_second` count a run's share of the time. After a kill, each job resumes from its
    last checkpoint.

    Raises ValueError if not even one model fits. Raises Diverged, after the others are done, for
    models with ten or more skipped steps in a row (loss or gradient not finite). These stop there,
    unfinished.
    """
    if program.teacher is not None:
        raise ValueError("models that learn from a teacher cannot be trained side by side")
    waiting = [job for job in jobs if not job.finished()]
    with without_duplicate_logs(), _Bar(jobs, waiting) as bar:
        if waiting:
            training = _Training(on_one_device(program), waiting, bar, memory, at_once)
            try:
                while training.fill():
                    training.step()
            finally:
                training.close()
            if training.diverged:
                raise Diverged(training.diverged)


class _Run:
    """A running job."""

    def __init__(self, job: BaselineJob, program: Trainer, shapes: TrainState) -> None:
        self.job, self._program, self._shapes = job, program, shapes
        self.batches, self.validation = job.data()
        self.languages = self.batches.manifest.languages
        self.seconds = 0.0  # its share of the time
        self.number = 0
        self.skipped = 0  # skipped steps in a row, from the log
        self.checkpoints = Checkpoints(job.model_dir, Policy(job.period, keep=1))
        self.log = metrics.Log(
            job.model_dir, job.steps, languages=self.languages, every=program.log_every,
            languages_every=program.language_period, clock=lambda: self.seconds, shown=False,
        )  # fmt: skip

    def restored(self) -> TrainState | None:
        """Returns the state to resume from, None for a new run; restores the data and the log."""
        state = restore(self._shapes, self.batches, self.checkpoints)
        self.number = 0 if state is None else int(state.step)
        self.log.start(self.number)
        return state

    @property
    def last(self) -> bool:
        return self.number >= self.job.steps

    @property
    def due(self) -> bool:
        """Returns whether a validation is due."""
        return self.last or self.number % self.job.period == 0

    def validated(self, state: TrainState, sums: Meters) -> bool:
        """Logs the validation and writes a checkpoint; returns whether training is over."""
        now = Step(
            self.number, state, None, None, program=self._program, batches=self.batches,
            log=self.log, steps=self.job.steps,
        )  # fmt: skip
        record_validation(now, sums)
        stop = EarlyStop(self.job.patience, since=self.job.since)(now)
        self.checkpoints.save(
            self.number, state.items(), data=position(self.batches), measured=now.measured
        )
        return self.last or bool(stop)

    def close(self) -> None:
        """Waits until the checkpoints are written."""
        with self.checkpoints, self.log:
            self.batches.close()


class _Training:
    """The stack, the run of each slot, and the waiting jobs."""

    def __init__(
        self,
        program: Trainer,
        jobs: Sequence[BaselineJob],
        bar: "_Bar",
        memory: float,
        at_once: int,
    ) -> None:
        self._program, self._bar = program, bar
        self._waiting = sorted(jobs, key=lambda job: job.steps)  # the longest first, at the end
        batches, held_out = self._waiting[-1].data()
        self._languages = len(batches.manifest.languages)
        batches.close()
        example = next(iter(held_out), None)
        if example is None:
            raise ValueError(f"{self._waiting[-1].name}: the cache holds no validation examples")
        together = 1 if jax.default_backend() == "cpu" else 0
        slots = room(program, example, languages=self._languages, memory=memory, together=together)
        slots = min(slots, at_once or slots, len(jobs))
        slots += -slots % jax.local_device_count()
        self._shapes = program.shapes(self._languages)
        self._stack = ModelStack(program, self._languages, slots, together)
        self._runs: list[_Run | None] = [None] * slots
        self._states = self._stack.empty()
        self._losses: Any = None
        self._fresh: Any = None
        self._since = time.perf_counter()
        self.diverged: dict[str, str] = {}  # name -> reason

    def fill(self) -> bool:
        """Puts waiting jobs into free slots; returns whether any run is left."""
        devices = jax.local_device_count()
        by_turns = np.arange(len(self._runs)).reshape(devices, -1).T.ravel().tolist()
        for slot in by_turns:
            if self._waiting and self._runs[slot] is None:
                run = self._runs[slot] = _Run(self._waiting.pop(), self._program, self._shapes)
                state = run.restored()
                if state is None:
                    self._fresh = self._fresh or self._program.start(self._languages)
                    state = self._fresh
                self._states = self._stack.put(self._states, slot, state)
        return any(self._runs)

    def step(self) -> None:
        """Makes a step of every run, then the validations that are due."""
        running = [run for run in self._runs if run]
        batches = [
            run.log.next_batch(run.batches, self._losses) if run else None for run in self._runs
        ]
        previous_losses = self._losses
        self._states, self._losses = self._stack.step(self._states, batches)
        jax.block_until_ready(previous_losses)  # at most one step ahead of the devices
        now = time.perf_counter()
        for run in running:
            run.number += 1
            run.seconds += (now - self._since) / len(running)
        self._since = now
        self._bar.update_steps(sum(run.number for run in running))
        if any(run.last or run.number % self._program.log_every == 0 for run in running):
            self._log()
        if any(run.due for run in running):
            self._validate()

    def close(self) -> None:
        """Closes all runs; their checkpoints are complete."""
        for run in filter(None, self._runs):
            run.close()

    def _log(self) -> None:
        meters = jax.tree.map(np.asarray, self._states.meters)
        for slot, run in enumerate(self._runs):
            if run:
                own_meters = jax.tree.map(lambda x, slot=slot: x[slot], meters)
                run.log.train_step(run.number, own_meters, last=run.last)
                run.log.flush()  # no need to wait: the meters are fetched already
                if run.number % self._program.log_every == 0:
                    every = own_meters.sums["steps"] == 0
                    run.skipped = run.skipped + self._program.log_every if every else 0
                if run.skipped >= Policy.max_skipped_steps:
                    progress = f"{run.job.model_dir} up to step {run.number}"
                    self.diverged[run.job.name] = progress
                    run.close()
                    self._runs[slot] = None

    def _validate(self) -> None:
        due = {slot: run for slot, run in enumerate(self._runs) if run and run.due}
        held_out = {slot: iter(run.validation) for slot, run in due.items()}
        total: Any = None
        while True:
            batches = [next(held_out.get(slot, iter(())), None) for slot in range(len(self._runs))]
            if not any(batch is not None for batch in batches):
                break
            total = self._stack.evaluate(total, self._states.params, batches)
        sums = jax.tree.map(np.asarray, total)
        for slot, run in due.items():
            own_sums = jax.tree.map(lambda x, slot=slot: x[slot], sums)
            if run.validated(self._stack.take(self._states, slot), own_sums):
                run.close()
                self._runs[slot] = None
                self._bar.finished(run)


class _Bar:
    """One progress bar for all runs, with the remaining time."""

    def __init__(self, jobs: Sequence[BaselineJob], waiting: Sequence[BaselineJob]) -> None:
        self._total, self._all = sum(job.steps for job in jobs), len(jobs)
        self._left = len(waiting)
        self._done = self._begun = self._total - sum(job.steps for job in waiting)
        self._console = Console(stderr=True)
        self._bar = progress.progress_bar(
            progress.COUNT, progress.PERCENT, progress.REMAINING, "{task.fields[text]}",
            console=self._console, disable=not sys.stderr.isatty(),
        )  # fmt: skip
        self._since = time.perf_counter()
        self._running: int | None = None

    def __enter__(self) -> "_Bar":
        self._task = self._bar.add_task("train", total=self._total, text=self._text())
        self._bar.update(self._task, completed=self._done)
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def update_steps(self, running: int) -> None:
        """Shows progress. running: the steps of the current runs, in total."""
        if self._running is None:
            self._begun = self._done + running  # steps of an earlier start do not count for speed
        self._running = running
        self._bar.update(self._task, completed=self._done + running)

    def finished(self, run: _Run) -> None:
        """Counts all steps of a finished run, also if it stopped early."""
        self._left -= 1
        self._done += run.job.steps
        self._running = (self._running or 0) - run.number
        now = self._done + self._running
        self._bar.update(self._task, completed=now, text=self._text())
        if not self._console.is_terminal:
            steps = max(now - self._begun, 1)
            minutes = (time.perf_counter() - self._since) / steps * (self._total - now) / 60
            text = f"{run.job.name}: {run.number} steps; {self._text()}"
            self._console.print(f"{text}, about {minutes:.0f} min left", highlight=False)

    def _text(self) -> str:
        return f"{self._all - self._left} of {self._all} trained"
