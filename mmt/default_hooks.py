"""The hooks that every run has: rollback, preemption, the consumption log and saving."""

import contextlib
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from mmt import distributed
from mmt.checkpoint import Checkpoints, Policy, without_duplicate_logs
from mmt.health import Health, StepProgress, first_heartbeat, heartbeats, remove_heartbeats
from mmt.metrics import Log
from mmt.run import Run
from mmt.step import Batches, Hook, LossHook, RunGuard, Step, position
from mmt.system import garbage_collection, status, termination
from mmt.system.data_root import data_root
from mmt.trainer import Trainer, TrainState

_CHECK_SECONDS = 5.0  # seconds


def restore(
    shapes: TrainState, batches: Batches | None, checkpoints: Checkpoints
) -> TrainState | None:
    """Returns the state of the latest good checkpoint, or None if there is no checkpoint.

    Sets the position in the data of `batches`, if given.
    """
    restored = checkpoints.restore(shapes.items())
    if restored is None:
        return None
    _, items = restored
    if batches is not None:
        batches.set_state(items["data"])
    return _state(items)


def _state(items: Mapping[str, Any]) -> TrainState:
    return TrainState(params=items["params"], opt_state=items["optimizer"], **items["progress"])


class Rollback:
    """Returns to the last good checkpoint after too many skipped steps in a row.

    It also does so before parameters that are not finite would be saved. The data are not rewound:
    those between the checkpoint and the failed step are skipped, also after a restart. It is the
    first hook of a run.
    """

    def __init__(self, program: Trainer, checkpoints: Checkpoints, log: Log) -> None:
        self._program, self._log = program, log
        self._shapes = program.shapes(log.losses)
        self._checkpoints, self._policy = checkpoints, checkpoints.policy
        self._skipped_in_a_row = self._rollbacks = 0
        self._restored_step = -1

    def start(
        self, batches: Batches, recovery: Checkpoints
    ) -> tuple[TrainState, Float[Array, ""] | None]:
        """Returns the state to resume from, or that of a new run.

        Also returns the loss if the state was saved before the hooks of its step were called.
        """
        if max(self._checkpoints.last_step(), recovery.last_step()) >= 0:
            status.begin("reading the checkpoint")
        restored = self._checkpoints.restore_later(recovery, self._shapes.items())
        if restored is None:
            status.begin("initialising the model")
            return self._program.start(len(self._shapes.meters.language_loss)), None
        from_recovery, items = restored
        batches.set_state(items["data"])
        return _state(items), jnp.float32(items["measured"]["loss"]) if from_recovery else None

    def __call__(self, now: Step) -> None:
        if self.needed(now.previous_loss):
            self.restore(now, now.number - 1)

    def needed(self, loss: Any) -> bool:
        """Counts the skipped steps in a row, the one of `loss` included; True for too many."""
        skipped = loss is not None and not np.isfinite(loss)
        self._skipped_in_a_row = self._skipped_in_a_row + 1 if skipped else 0
        return self._skipped_in_a_row >= self._policy.max_skipped_steps

    def restore(self, now: Step, last_step: int) -> None:
        """Replaces the state and number of `now` by those of the checkpoint.

        last_step: the last step, for the message.
        """
        del now.state  # frees the memory first
        languages = len(self._shapes.meters.language_loss)
        with self._log.phase("reading the checkpoint"):
            state = restore(self._shapes, None, self._checkpoints)
            state = state or self._program.start(languages)
        now.state, now.loss, now.rolled_back = state, None, True
        now.number, self._skipped_in_a_row = int(now.state.step), 0
        same_step = now.number == self._restored_step
        self._rollbacks = self._rollbacks + 1 if same_step else 1
        self._restored_step = now.number
        message = f"no finite loss, gradient or parameters up to step {last_step}"
        if self._rollbacks > self._policy.max_rollbacks:
            raise ValueError(
                f"{message}, also after {self._policy.max_rollbacks} rollbacks to step "
                f"{now.number} (checkpoint.Policy.max_rollbacks): is the learning rate too high?"
            )
        rows = self._log.rows() if distributed.is_first() else []
        self._log.start(now.number)
        self._log.write({"step": now.number + 1, "returned_from": last_step})
        for row in rows:  # decisions on the data hold, as the data are not rewound
            if row["step"] > now.number and "decisions" in row:
                self._log.write({"step": now.number + 1, "decisions": row["decisions"]})
        self._log.say(f"{message}: back to step {now.number}, on with the data that come next")


class Saving(RunGuard):
    """Saves every `Policy.period` steps and at the end, but no parameters that are not finite.

    Between these checkpoints it saves recovery states, for resuming only: by the clock
    (`Policy.minutes`) and when a hook is interrupted. A recovery state is saved before the hooks of
    its step, which are called after resuming. So their measurements do not depend on the clock.

    `recover`, `decide` and `save` are hooks; `recover` comes before those of the user.
    """

    def __init__(
        self, checkpoints: Checkpoints, recovery: Checkpoints, rollback: Rollback,
        preemption: "Preemption", start: int, progress: StepProgress,
    ) -> None:  # fmt: skip
        self._checkpoints, self._recovery = checkpoints, recovery
        self._rollback, self._preemption = rollback, preemption
        self.checkpoint = start  # the step of the last checkpoint
        self.last_saved = start  # of either kind
        self._clock = _SaveClock(checkpoints.policy.minutes)
        self._data: Any = None  # the position before the hooks of this step
        self._progress = progress
        preemption.nothing_to_lose(self._nothing_to_lose)
        self._unsaved = False

    def recover(self, now: Step) -> None:
        """Saves a recovery state if it is time to."""
        self._unsaved, self._data = True, None
        if now.number <= self.last_saved:  # after a rollback
            self.last_saved = now.number - 1
            self.checkpoint = min(self.checkpoint, self.last_saved)
            self._recovery.clear()
        self._clock.save_finished(self._checkpoints.writing or self._recovery.writing)
        if self._clock.due(now.number):
            self._save_for_resuming(now, position(now.batches))

    def before_long_hook(self, now: Step) -> None:
        """Saves a recovery state if a long hook could cost too much after a kill."""
        if self._data is None:
            self._data = position(now.batches)
            if self.last_saved < now.number and self._clock.due_in_long_hook():
                self._save_for_resuming(now, self._data)

    def preempted(self) -> bool:
        return self._preemption.requested()

    def progressed(self, phase: str) -> None:
        self._progress.progressed(phase)

    def interrupted(self, now: Step) -> None:
        self._preemption.stopped = True
        if self.last_saved < now.number:
            self._save_for_resuming(now, self._data, stopping=True)

    def _save_for_resuming(self, now: Step, data: Any, *, stopping: bool = False) -> None:
        loss = np.asarray(now.loss)
        if not (stopping or np.isfinite(loss)) or not _all_finite(now.state.params):
            return  # the last good state stays
        with now.log.phase("saving"):
            self._clock.save_started()
            self._recovery.save(
                now.number, now.state.items(), data=data, measured={"loss": float(loss)}
            )
        self.last_saved, self._unsaved = now.number, False

    def decide(self, now: Step) -> None:
        """Sets `saved_data` if this step gets a checkpoint."""
        period = self._checkpoints.policy.period
        save_due = now.stop or now.last or now.number // period > self.checkpoint // period
        if not save_due:
            return
        if not now.last and not np.isfinite(np.asarray(now.loss)):
            if now.stop:
                self._save_for_resuming(now, position(now.batches), stopping=True)
            return  # no checkpoint: a rollback must not lead here
        if not _all_finite(now.state.params):
            self._rollback.restore(now, now.number)
            return
        now.saved_data = position(now.batches)

    def save(self, now: Step) -> None:
        """Writes the checkpoint in the background."""
        if now.saved_data is None:
            return
        with now.log.phase("saving"):
            self._clock.save_started()
            self._checkpoints.save(
                now.number, now.state.items(), data=now.saved_data, measured=now.measured
            )
        self.checkpoint = self.last_saved = now.number
        self._unsaved = False

    def finish(self, log: Log) -> None:
        """Waits for pending writes; removes a recovery state that a checkpoint has outdated."""
        with log.phase("saving"):
            self._checkpoints.wait()
            self._recovery.wait()
        if self._checkpoints.last_step() >= self._recovery.last_step():
            self._recovery.clear()

    def _nothing_to_lose(self) -> bool:
        return not (self._unsaved or self._checkpoints.writing or self._recovery.writing)


class _SaveClock:
    """Decides when to save by the clock: the first process, for all.

    It does so every few seconds only, since each decision costs a message between processes.
    """

    def __init__(self, minutes: float) -> None:
        self._seconds = 60 * minutes
        self._interval = self._seconds
        self._last_save = self._created = time.perf_counter()
        self._first_step = self._next_check = -1  # steps
        self._save_start = 0.0  # seconds; of the pending save, 0 without one

    def due(self, step: int) -> bool:
        """Returns whether it is time to save. All processes call it at every step."""
        if not self._seconds:
            return False
        if self._first_step < 0 or step < self._first_step:
            self._first_step = self._next_check = step
        if step < self._next_check <= step + 1000:
            return False
        now = time.perf_counter()
        step_seconds = (now - self._created) / max(step - self._first_step, 1)
        steps_until_check = max(1, min(1000, int(_CHECK_SECONDS / step_seconds)))
        due, steps_until_check = distributed.from_first(
            lambda: [now - self._last_save >= self._interval, steps_until_check]
        )
        self._next_check = step + steps_until_check
        return bool(due)

    def due_in_long_hook(self) -> bool:
        """Returns whether to save before a long hook: after a quarter of the interval."""
        elapsed = time.perf_counter() - self._last_save
        return bool(self._seconds) and bool(
            distributed.from_first(lambda: elapsed >= self._interval / 4)
        )

    def save_started(self) -> None:
        """Notes that a save begins."""
        self._last_save = self._save_start = time.perf_counter()

    def save_finished(self, writing: bool) -> None:
        """Measures the last save when it is written, and adapts the interval to its duration."""
        if self._save_start and not writing:
            seconds = time.perf_counter() - self._save_start
            self._interval = max(self._seconds, seconds / Policy.saving_share)
            self._save_start = 0.0


class ConsumptionLog:
    """Writes `ledger.json`, the consumed examples, at each checkpoint if the batches count them."""

    def __init__(self, model_dir: str) -> None:
        self._model_dir = model_dir

    def __call__(self, now: Step) -> None:
        ledger = now.batches.ledger() if now.saved_data is not None else None
        if ledger is None:
            return
        previous = distributed.from_first(lambda: ledger.read(self._model_dir))
        local_counts = ledger.count(
            previous, now.saved_data, jax.process_index(), jax.process_count()
        )
        counts = distributed.gather(local_counts)
        if not distributed.is_first():
            return
        try:
            ledger.write(self._model_dir, previous, now.saved_data, counts, now.number)
        except OSError as error:  # a full disk: the next one counts from the last that was written
            if now.last:
                raise
            now.log.say(f"{error}; training goes on")


class Preemption:
    """Stops the run after a SIGTERM to any process."""

    def __init__(self, sigterm: termination.Termination) -> None:
        self._sigterm = sigterm
        self.stopped = False

    def __call__(self, now: Step) -> bool:
        self.stopped = self.requested()
        return self.stopped

    def requested(self) -> bool:
        """Returns whether the run is to stop. All processes call it equally often."""
        if jax.process_count() > 1:
            return distributed.preempted()
        requested = self._sigterm.requested.is_set()
        if requested:
            self._sigterm.answered.set()
        return requested

    def nothing_to_lose(self, predicate: Callable[[], bool]) -> None:
        """Lets SIGTERM end the process at once, even in a compilation, if `predicate()` is True."""
        self._sigterm.nothing_to_lose = predicate


class OpenRun(NamedTuple):
    """The objects that the training loop needs of its locked run directory."""

    preemption: Preemption
    checkpoints: Checkpoints
    recovery: Checkpoints
    log: Log
    progress: StepProgress


@contextlib.contextmanager
def open_run(
    program: Trainer, languages: Sequence[str], corpora: Sequence[tuple[str, str]], *,
    model_dir: str, steps: int, policy: Policy, health: Health,
) -> Iterator[OpenRun]:  # fmt: skip
    """Locks and opens a run directory; all files are written when the `with` statement ends."""
    with (
        distributed.held(model_dir),
        preemption() as preempt,  # until all is written
        without_duplicate_logs(),
        Checkpoints(model_dir, policy) as checkpoints,
        Checkpoints(model_dir, policy, recovery=True) as recovery,
        Log(model_dir, steps, languages=languages, corpora=corpora, every=program.log_every,
            languages_every=program.language_period) as log,
        _heartbeats(log, health) as progress,
        garbage_collection.rare(),
    ):  # fmt: skip
        yield OpenRun(preempt, checkpoints, recovery, log, progress)


@contextlib.contextmanager
def _heartbeats(log: Log, health: Health) -> Iterator[StepProgress]:
    """Yields the record of progress; several processes write heartbeats from it inside."""
    progress = StepProgress(count_dispatch=jax.default_backend() != "cpu")
    directory = log.path.parent
    if jax.process_count() == 1:
        remove_heartbeats(Run(directory).hosts)  # of an earlier start with several processes
        yield progress
        return
    start = distributed.from_first(time.time)
    first = first_heartbeat(start, jax.process_index(), jax.process_count(), health)
    directories = (directory, data_root(), tempfile.gettempdir())
    with heartbeats(
        progress, first, Run(directory).hosts, say=log.say, disk_directories=directories
    ):
        yield progress


@contextlib.contextmanager
def preemption() -> Iterator[Preemption]:
    """Catches SIGTERM inside; in runs of several processes JAX catches it."""
    if jax.process_count() > 1:
        yield Preemption(termination.Termination())
        return
    with termination.watched() as sigterm:
        yield Preemption(sigterm)


def check_end(steps: int, batches: Batches, hooks: Sequence[Hook]) -> None:
    """Checks that the run can end, and prints the warnings of the batches.

    Raises ValueError if the data wait for validation losses that no hook measures.
    """
    if steps < 1:
        raise ValueError(f"TRAIN_STEPS is {steps}; allowed: 1 or more")
    for message in batches.warnings(steps):
        warnings.warn(message, stacklevel=3)
    if batches.waits_for_losses and not any(isinstance(hook, LossHook) for hook in hooks):
        raise ValueError(
            "a stage ends by its validation_loss (until), or a schedule changes rates by it, but "
            "no hook measures it. Add @hooks.ValidationLoss() to train.train.hooks"
        )


@jax.jit
def _all_finite(tree: Any) -> Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()
