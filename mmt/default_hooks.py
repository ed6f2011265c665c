"""The hooks that every run has: rollback, preemption, the consumption log and saving."""

import contextlib
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from mmt import distributed
from mmt.checkpoint import Checkpoints
from mmt.metrics import Log
from mmt.step import Batches, Hook, LossHook, Step, position
from mmt.trainer import Trainer, TrainState


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
    return TrainState(params=items["params"], opt_state=items["optimizer"], **items["progress"])


class Rollback:
    """Returns to the last good checkpoint after too many skipped steps in a row.

    It does so too where parameters that are not finite would be saved. The data are not rewound, so
    those between the checkpoint and here are not read again; a run that is killed and started again
    takes the same way. First hook of a run.
    """

    def __init__(
        self, program: Trainer, batches: Batches, checkpoints: Checkpoints, log: Log
    ) -> None:
        self._program, self._log = program, log
        self._shapes = program.shapes(len(batches.manifest.languages))
        self._checkpoints, self._policy = checkpoints, checkpoints.policy
        self._skipped_in_a_row = self._rollbacks = 0
        self._restored_step = -1

    def start(self, batches: Batches | None) -> TrainState:
        """Returns the state of the last good checkpoint, or that of a new run."""
        state = restore(self._shapes, batches, self._checkpoints)
        languages = len(self._shapes.meters.language_loss)
        return state or self._program.start(languages)

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
        now.state, now.loss, now.rolled_back = self.start(None), None, True
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
        self._log.start(now.number)
        self._log.write({"step": now.number + 1, "returned_from": last})
        self._log.say(f"{message}: back to step {now.number}, on with the data that come next")


class Saving:
    """Saves every `Policy.period` steps and at the end, but no parameters that are not finite.

    `decide` is the hook before the consumption log, `save` the one after it.
    """

    def __init__(self, checkpoints: Checkpoints, rollback: Rollback, start: int) -> None:
        self._checkpoints, self._rollback = checkpoints, rollback
        self._saved = start

    def decide(self, now: Step) -> None:
        """Sets `saved_data` where this step is to be saved."""
        self._saved = min(self._saved, now.number - 1)  # smaller after a rollback
        period = self._checkpoints.policy.period
        save_due = now.stop or now.last or now.number // period > self._saved // period
        if not save_due or not (now.last or np.isfinite(np.asarray(now.loss))):
            return  # what is not finite waits: a rollback would lead here
        if not _finite(now.state.params):
            self._rollback.restore(now, now.number)
            return
        self._saved = now.number
        now.saved_data = position(now.batches)

    def save(self, now: Step) -> None:
        """Writes the checkpoint in the background."""
        if now.saved_data is not None:
            self._checkpoints.save(
                now.number, now.state.items(), data=now.saved_data, measured=now.measured
            )


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

    def __init__(self, preempted: Callable[[], bool]) -> None:
        self._preempted = preempted
        self.stopped = False

    def __call__(self, now: Step) -> bool:
        self.stopped = self._preempted()
        return self.stopped


@contextlib.contextmanager
def preemption() -> Iterator[Preemption]:
    """Catches SIGTERM inside; outside the main thread, where that is impossible, does nothing."""
    if jax.process_count() > 1:
        yield Preemption(distributed.preempted)
        return
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield Preemption(lambda: False)
        return
    before = signal.signal(signal.SIGTERM, lambda *_: event.set())
    try:
        yield Preemption(event.is_set)
    finally:
        signal.signal(signal.SIGTERM, before)


def check_end(steps: int, batches: Batches, hooks: Sequence[Hook]) -> None:
    """Raises ValueError where a stage of the data waits for losses that no hook measures.

    Hands on the warnings of the batches.
    """
    if steps < 1:
        raise ValueError(f"TRAIN_STEPS is {steps}; allowed: 1 or more")
    for message in batches.warnings(steps):
        warnings.warn(message, stacklevel=3)
    if batches.waits_for_losses and not any(isinstance(hook, LossHook) for hook in hooks):
        raise ValueError(
            "a stage ends by its validation_loss (until), but no hook measures it: it would never "
            "end. Add @hooks.ValidationLoss() to train.train.hooks"
        )


@jax.jit
def _finite(tree: Any) -> Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()
