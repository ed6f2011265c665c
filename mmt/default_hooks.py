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
from mmt.checkpoint import Checkpoints, Policy, raised_alone
from mmt.health import Health, StepProgress, first_heartbeat, heartbeats
from mmt.metrics import Log
from mmt.run import Run
from mmt.step import Batches, Hook, LossHook, RunGuard, Step, position
from mmt.system import status, termination
from mmt.system.data_root import data_root
from mmt.trainer import Trainer, TrainState

_ASK_EVERY = 5.0  # seconds


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

    It does so too where parameters that are not finite would be saved. The data are not rewound, so
    those between the checkpoint and here are not read again; a run that is killed and started again
    takes the same way. First hook of a run.
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
        recovered, items = restored
        batches.set_state(items["data"])
        return _state(items), jnp.float32(items["measured"]["loss"]) if recovered else None

    def __call__(self, now: Step) -> None:
        if self.needed(now.previous_loss):
            self.restore(now, now.number - 1)

    def needed(self, loss: Any) -> bool:
        """Counts the skipped steps in a row up to that of `loss`; whether there are too many."""
        skipped = loss is not None and not np.isfinite(loss)
        self._skipped_in_a_row = self._skipped_in_a_row + 1 if skipped else 0
        return self._skipped_in_a_row >= self._policy.max_skipped_steps

    def restore(self, now: Step, last: int) -> None:
        """Replaces the state and number of `now` by the checkpoint's; `last` is the last step."""
        del now.state  # frees the memory first
        languages = len(self._shapes.meters.language_loss)
        with self._log.phase("reading the checkpoint"):
            state = restore(self._shapes, None, self._checkpoints)
            state = state or self._program.start(languages)
        now.state, now.loss, now.rolled_back = state, None, True
        now.number, self._skipped_in_a_row = int(now.state.step), 0
        same = now.number == self._restored_step
        self._rollbacks = self._rollbacks + 1 if same else 1
        self._restored_step = now.number
        message = f"no finite loss, gradient or parameters up to step {last}"
        if self._rollbacks > self._policy.max_rollbacks:
            raise ValueError(
                f"{message}, also after {self._policy.max_rollbacks} rollbacks to step "
                f"{now.number} (checkpoint.Policy.max_rollbacks): is the learning rate too high?"
            )
        rows = self._log.rows() if distributed.is_first() else []
        self._log.start(now.number)
        self._log.write({"step": now.number + 1, "returned_from": last})
        for row in rows:  # decisions on the data hold, as the data are not rewound
            if row["step"] > now.number and "decisions" in row:
                self._log.write({"step": now.number + 1, "decisions": row["decisions"]})
        self._log.say(f"{message}: back to step {now.number}, on with the data that come next")


class Saving(RunGuard):
    """Saves every `Policy.period` steps and at the end, but no parameters that are not finite.

    Between these checkpoints it saves the state for resuming alone, by the clock (`Policy.minutes`)
    and where a hook is interrupted. Such a state is saved before the hooks of its step are called,
    and they are called when the run is resumed: so nothing that they measure depends on the clock.

    `recover`, `decide` and `save` are hooks, the first before those of the user.
    """

    def __init__(
        self, checkpoints: Checkpoints, recovery: Checkpoints, rollback: Rollback,
        preemption: "Preemption", start: int, progress: StepProgress,
    ) -> None:  # fmt: skip
        self._checkpoints, self._recovery = checkpoints, recovery
        self._rollback, self._preemption = rollback, preemption
        self.checkpoint = start  # the step of the last checkpoint
        self.last_saved = start  # of either kind
        self._clock = _Clock(checkpoints.policy.minutes)
        self._data: Any = None  # the position before the hooks of this step
        self._progress = progress
        preemption.nothing_to_lose(self._nothing_to_lose)
        self._unsaved = False

    def recover(self, now: Step) -> None:
        """Saves the state for resuming where it is time to."""
        self._unsaved, self._data = True, None
        if now.number <= self.checkpoint:  # after a rollback
            self.checkpoint = self.last_saved = now.number - 1
            self._recovery.clear()
        self._clock.saved_at_last(self._checkpoints.writing or self._recovery.writing)
        if self._clock.due(now.number):
            self._save_for_resuming(now, position(now.batches))

    def before_long(self, now: Step) -> None:
        """Saves first where the hook may take longer than a kill may cost."""
        if self._data is None:
            self._data = position(now.batches)
            if self.last_saved < now.number and self._clock.due_within():
                self._save_for_resuming(now, self._data)

    def preempted(self) -> bool:
        return self._preemption.requested()

    def progressed(self, phase: str) -> None:
        self._progress.progressed(phase)

    def interrupted(self, now: Step) -> None:
        self._preemption.stopped = True
        if self.last_saved < now.number:
            self._save_for_resuming(now, self._data)

    def _save_for_resuming(self, now: Step, data: Any) -> None:
        loss = np.asarray(now.loss)
        if not np.isfinite(loss) or not _finite(now.state.params):
            return  # the last good state stays
        with now.log.phase("saving"):
            self._clock.saving()
            self._recovery.save(
                now.number, now.state.items(), data=data, measured={"loss": float(loss)}
            )
        self.last_saved, self._unsaved = now.number, False

    def decide(self, now: Step) -> None:
        """Sets `saved_data` where this step is to have a checkpoint."""
        period = self._checkpoints.policy.period
        save_due = now.stop or now.last or now.number // period > self.checkpoint // period
        if not save_due or not (now.last or np.isfinite(np.asarray(now.loss))):
            return  # what is not finite waits: a rollback would lead here
        if not _finite(now.state.params):
            self._rollback.restore(now, now.number)
            return
        now.saved_data = position(now.batches)

    def save(self, now: Step) -> None:
        """Writes the checkpoint in the background."""
        if now.saved_data is None:
            return
        with now.log.phase("saving"):
            self._clock.saving()
            self._checkpoints.save(
                now.number, now.state.items(), data=now.saved_data, measured=now.measured
            )
        self.checkpoint = self.last_saved = now.number
        self._unsaved = False

    def finish(self, log: Log) -> None:
        """Waits until everything is written; removes the state that a checkpoint has outdated."""
        with log.phase("saving"):
            self._checkpoints.wait()
            self._recovery.wait()
        if self._checkpoints.last_step() >= self._recovery.last_step():
            self._recovery.clear()

    def _nothing_to_lose(self) -> bool:
        return not (self._unsaved or self._checkpoints.writing or self._recovery.writing)


class _Clock:
    """When to save by the clock. The first process decides, for all.

    It is asked every few seconds: among several processes the answer costs a message.
    """

    def __init__(self, minutes: float) -> None:
        self._seconds = 60 * minutes
        self._interval = self._seconds
        self._since = self._begun = time.perf_counter()
        self._first = self._next = -1  # steps
        self._started = 0.0  # of the save that is on its way; 0: none

    def due(self, step: int) -> bool:
        """Whether it is time to save; to be asked at every step, by all processes."""
        if not self._seconds:
            return False
        if self._first < 0 or step < self._first:
            self._first = self._next = step
        if step < self._next <= step + 1000:
            return False
        now = time.perf_counter()
        each = (now - self._begun) / max(step - self._first, 1)
        pause = max(1, min(1000, int(_ASK_EVERY / each)))
        due, pause = distributed.from_first(lambda: [now - self._since >= self._interval, pause])
        self._next = step + pause
        return bool(due)

    def due_within(self) -> bool:
        """Whether at least a quarter of the interval is over: a long hook comes now."""
        passed = time.perf_counter() - self._since
        return bool(self._seconds) and bool(
            distributed.from_first(lambda: passed >= self._interval / 4)
        )

    def saving(self) -> None:
        """A save begins."""
        self._since = self._started = time.perf_counter()

    def saved_at_last(self, writing: bool) -> None:
        """Measures the save that is over; the next one waits until saving is cheap enough."""
        if self._started and not writing:
            seconds = time.perf_counter() - self._started
            self._interval = max(self._seconds, seconds / Policy.saving_share)
            self._started = 0.0


class ConsumptionLog:
    """Writes what was read up to each checkpoint, where the batches count it (`ledger.json`)."""

    def __init__(self, model_dir: str) -> None:
        self._model_dir = model_dir

    def __call__(self, now: Step) -> None:
        ledger = now.batches.ledger() if now.saved_data is not None else None
        if ledger is None:
            return
        former = distributed.from_first(lambda: ledger.read(self._model_dir))
        part = ledger.count(former, now.saved_data, jax.process_index(), jax.process_count())
        counts = distributed.gather(part)
        if not distributed.is_first():
            return
        try:
            ledger.write(self._model_dir, former, now.saved_data, counts, now.number)
        except OSError as error:  # a full disk: the next one counts from the last that was written
            if now.last:
                raise
            now.log.say(f"{error}; training goes on")


class Preemption:
    """Stops the run after a SIGTERM to any process."""

    def __init__(self, watched: termination.Termination) -> None:
        self._watched = watched
        self.stopped = False

    def __call__(self, now: Step) -> bool:
        self.stopped = self.requested()
        return self.stopped

    def requested(self) -> bool:
        """Whether the run is to stop; to be asked by all processes equally often."""
        if jax.process_count() > 1:
            return distributed.preempted()
        requested = self._watched.requested.is_set()
        if requested:
            self._watched.answered.set()
        return requested

    def nothing_to_lose(self, answer: Callable[[], bool]) -> None:
        """Has the process end at once where a SIGTERM finds it so, in a compilation for example."""
        self._watched.nothing_to_lose = answer


class OpenRun(NamedTuple):
    """What the loop needs of a run directory that it holds."""

    preemption: Preemption
    checkpoints: Checkpoints
    recovery: Checkpoints
    log: Log
    progress: StepProgress


@contextlib.contextmanager
def opened(
    program: Trainer, languages: Sequence[str], corpora: Sequence[tuple[str, str]], *,
    model_dir: str, steps: int, policy: Policy, health: Health,
) -> Iterator[OpenRun]:  # fmt: skip
    """Holds a run directory for a run of `steps` steps inside the `with` statement.

    At its end all is written.
    """
    with (
        distributed.held(model_dir),
        preemption() as watched,  # until all is written
        raised_alone(),
        Checkpoints(model_dir, policy) as checkpoints,
        Checkpoints(model_dir, policy, recovery=True) as recovery,
        Log(model_dir, steps, languages=languages, corpora=corpora, every=program.log_every,
            languages_every=program.languages_every) as log,
        _heartbeats(log, health) as progress,
    ):  # fmt: skip
        yield OpenRun(watched, checkpoints, recovery, log, progress)


@contextlib.contextmanager
def _heartbeats(log: Log, health: Health) -> Iterator[StepProgress]:
    """Yields what the loop tells its steps. Several processes write heartbeats inside."""
    progress = StepProgress(count_dispatch=jax.default_backend() != "cpu")
    if jax.process_count() == 1:
        yield progress
        return
    start = distributed.from_first(time.time)
    first = first_heartbeat(start, jax.process_index(), jax.process_count(), health)
    directory = log.path.parent
    watched = (directory, data_root(), tempfile.gettempdir())
    with heartbeats(progress, first, Run(directory).hosts, say=log.say, watched=watched):
        yield progress


@contextlib.contextmanager
def preemption() -> Iterator[Preemption]:
    """Catches SIGTERM inside; of several processes JAX does."""
    if jax.process_count() > 1:
        yield Preemption(termination.Termination())
        return
    with termination.watched() as watched:
        yield Preemption(watched)


def check_end(steps: int, batches: Batches, hooks: Sequence[Hook]) -> None:
    """Raises ValueError where the data wait for losses that no hook measures.

    Hands on the warnings of the batches.
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
def _finite(tree: Any) -> Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()
