"""The trainer: train(), which fits on one screen, and the checks before it.

It is given a `Program`, batches and hooks and knows neither corpora nor evaluation: whatever
happens "every n steps" is a function of `Step`.
"""

import contextlib
import dataclasses
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from mmt import distributed, initial, metrics
from mmt.checkpoint import (
    Checkpoints,
    Policy,
    check_model,
    raised_alone,
)
from mmt.run import Run
from mmt.state import TrainState, account, position, restore
from mmt.system import lock
from mmt.trainer import Program


@runtime_checkable
class Batches(Protocol):
    """What `train` needs of the data; `mmt.data.pipeline.TrainBatches` is one."""

    manifest: Any  # .languages, .vocabulary_size

    def __next__(self) -> Mapping[str, np.ndarray]: ...
    def get_state(self) -> Any: ...
    def set_state(self, state: Any) -> None: ...


@dataclasses.dataclass
class Step:
    """What a hook is given after every step."""

    number: int
    state: TrainState
    program: Program
    batches: Batches
    log: metrics.Log
    last: bool
    measured: dict[str, float] = dataclasses.field(default_factory=dict)


Hook = Callable[[Step], bool | None]  # True stops the run


class Terminated(Exception):
    """The run was asked to end (SIGTERM); its checkpoint is written."""


def train(
    program: Program,
    batches: Batches,
    *,
    model_dir: str,
    steps: int,
    policy: Policy = Policy(),  # noqa: B008  (frozen)
    hooks: Sequence[Hook] = (),
) -> TrainState:
    """Trains to `steps` steps in `model_dir`, going on from its latest good checkpoint.

    A run that was stopped anywhere and started again gives the numbers of one never stopped, bit
    for bit. Of several processes each calls it and reads its share of the batches, the first
    writes the metrics. Raises Terminated after a SIGTERM to any, when the checkpoint is written;
    ValueError where another run has `model_dir`, and where skipped steps (`Policy.skips`) or a
    stage of the data do not end.
    """
    languages = batches.manifest.languages
    _check_end(steps, batches, hooks)
    program.share(batches)
    check(program, batches.manifest, model_dir)
    position(batches)  # the processes read the same data, or say so here
    with (
        lock.held(model_dir),
        _termination() as told_to_end,  # until all is written
        raised_alone(),
        Checkpoints(model_dir, policy) as checkpoints,
        metrics.Log(model_dir, steps, languages=languages, every=program.log_every,
                    languages_every=program.languages_every) as log,
    ):  # fmt: skip
        shapes = program.shapes(len(languages))
        state, loss = restore(shapes, batches, checkpoints) or program.start(len(languages)), None
        way_back = _WayBack(program, shapes, checkpoints, log)
        number, ends, owed = int(state.step), list[Any](), False
        log.start(number)
        if number >= steps or log.stopped:
            log.say(f"{model_dir} is trained: step {number} of {steps}")
        while number < steps and not log.stopped and not any(ends):
            batch = program.place(log.next_batch(batches, loss))
            running = loss
            state, loss = program.step(state, batch)
            jax.block_until_ready(running)  # one step ahead of the device, not more
            back = way_back.wanted(running)
            if not back:
                number += 1
                now = Step(number, state, program, batches, log, last=number == steps)
                log.train_step(number, state.meters, last=now.last)
                ends = [hook(now) for hook in hooks] + [now.last, told_to_end(number)]
                owed = owed or number % policy.period == 0 or any(ends)
                if owed and (now.last or np.isfinite(loss)):  # else the way back would lead here
                    back, owed = not _finite(state.params), False
                    if not back:
                        _save(now, checkpoints, model_dir)
            if back:
                del state, now
                (state, number), loss, ends, owed = way_back.take(number), None, [], False
    if ends and ends[-1] and number < steps:
        last = Run(model_dir).last_step()
        raise Terminated(f"stopped by a signal; checkpoint {last} is written")
    return state


def _check_end(steps: int, batches: Batches, hooks: Sequence[Hook]) -> None:
    """A stage of the data may go on until validation losses say so: a hook has to give them. Of
    a stage that never begins in these steps, and of a cap on epochs that is not kept, it warns.
    """
    if steps < 1:
        raise ValueError(f"TRAIN_STEPS is {steps}; allowed: 1 or more")
    for said in getattr(batches, "warnings", lambda steps: [])(steps):
        warnings.warn(said, stacklevel=3)
    waits = getattr(batches, "waits_for_losses", False)
    if waits and not any(getattr(hook, "gives_losses", False) for hook in hooks):
        raise ValueError(
            "a stage ends by its validation_loss (until), but no hook measures it: it would never "
            "end. Add @hooks.ValidationLoss() to train.train.hooks"
        )


def _save(now: Step, checkpoints: Checkpoints, model_dir: str) -> None:
    data = position(now.batches)
    try:
        account(now.batches, model_dir, step=now.number, data=data)
    except OSError as error:  # a full disk: the next one counts from the last that was written
        if now.last:
            raise
        now.log.say(f"{error}; training goes on")
    checkpoints.save(now.number, now.state.items(), data=data, measured=now.measured)


class _WayBack:
    """To the last good checkpoint: after too many skipped steps in a row, and where parameters that
    are not finite would be saved.

    The data go on behind those that were skipped, so that what was between the checkpoint and here
    is not read again: a run that is killed and started again takes the same way.
    """

    def __init__(
        self, program: Program, shapes: TrainState, checkpoints: Checkpoints, log: metrics.Log
    ) -> None:
        self._program, self._shapes, self._log = program, shapes, log
        self._checkpoints, self._policy = checkpoints, checkpoints.policy
        self._in_a_row = self._returned = 0
        self._to = -1

    def wanted(self, loss: Any) -> bool:
        """Whether the step of this loss, which is over, was one too many."""
        skipped = loss is not None and not np.isfinite(loss)
        self._in_a_row = self._in_a_row + 1 if skipped else 0
        return self._in_a_row >= self._policy.skips

    def take(self, number: int) -> tuple[TrainState, int]:
        """The state to go on from and its step; `number` is the last one here."""
        state = restore(self._shapes, None, self._checkpoints)
        if state is None:
            state = self._program.start(len(self._shapes.meters.language_loss))
        step, self._in_a_row = int(state.step), 0
        self._returned = self._returned + 1 if step == self._to else 1
        self._to = step
        said = f"no finite loss, gradient or parameters up to step {number}"
        if self._returned > self._policy.returns:
            raise ValueError(
                f"{said}, also after {self._policy.returns} returns to step {step} "
                "(checkpoint.Policy.returns): is the learning rate too high?"
            )
        self._log.start(step)
        self._log.write({"step": step + 1, "returned_from": number})
        self._log.say(f"{said}: back to step {step}, and on with the data that come next")
        return state, step


@jax.jit
def _finite(tree: Any) -> Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()


def check(program: Program, manifest: Any, model_dir: str | Path) -> None:
    """What can be known before a run directory is touched: ValueError where a vocabulary has more
    pieces than the model has embeddings, where the directory holds another model's checkpoints, and
    as `check_parents`, also where the teacher reads or writes other tokens.
    """
    check_parents(program, model_dir)
    config, pieces = program.model.config, manifest.vocabulary_size
    sizes = {"source": config.vocab_size, "target": config.target_vocabulary}
    for side, size in sizes.items():
        if pieces[side] > size:
            raise ValueError(
                f"the cache's {side} vocabulary has {pieces[side]} pieces, the model only {size} "
                f"embeddings: set VOCAB_SIZE (or TARGET_VOCAB_SIZE) to {pieces[side]} or more"
            )
    check_model(model_dir, program.shapes(len(manifest.languages)).items())
    if program.teacher is not None:
        program.teacher.check(program.model, manifest)


def check_parents(program: Program, model_dir: str | Path) -> None:
    """ValueError where the initial model or the teacher is none, where the initial model does not
    fit, and where the run directory is one of theirs. It needs no data.
    """
    teacher = program.teacher.model_dir if program.teacher is not None else ""
    for parent in filter(None, (program.initial_model_dir, teacher)):
        if Path(parent).resolve() == Path(model_dir).resolve():
            raise ValueError(
                f"MODEL_DIR is {parent}, which the run starts or learns from: name a new directory"
            )
    if teacher:
        Run(teacher).best_step()
    if program.initial_model_dir and not Run(model_dir).checkpoint_steps():
        initial.check(program.initial_rule, program.initial_model_dir, program.model)


def inverse_sqrt(peak: float, *, warmup_steps: int, ramp: bool = True) -> optax.Schedule:
    """peak * sqrt(warmup / step) after the warm-up; before it linear, or flat without `ramp`.

    T5 and GShard (App. A.2) are flat: lr 1.0 / sqrt(max(step, 10,000)) is
    inverse_sqrt(0.01, warmup_steps=10_000, ramp=False).
    """

    def schedule(count: Any) -> Array:
        step = jnp.asarray(count, jnp.float32) + 1.0
        rise = jnp.minimum(1.0, step / warmup_steps) if ramp else 1.0
        return peak * rise * jnp.sqrt(warmup_steps / jnp.maximum(step, warmup_steps))

    return schedule


def warmup_cosine(peak: float, *, warmup_steps: int, steps: int) -> optax.Schedule:
    """From 0 to `peak` in a line, then down to 0 at `steps` as half a cosine.

    Loshchilov & Hutter 2017, without restarts. ValueError where nothing is left after the warm-up.
    """
    if not 0 <= warmup_steps < steps:
        raise ValueError(
            f"TRAIN_STEPS is {steps}, and {warmup_steps} of them are to warm up "
            "(train.warmup_cosine.warmup_steps); allowed: more steps, or a shorter warm-up"
        )
    return optax.warmup_cosine_decay_schedule(0.0, peak, warmup_steps, steps)


@contextlib.contextmanager
def _termination() -> Iterator[Callable[[int], bool]]:
    """Whether a SIGTERM has come, to be asked at every step; outside the main thread, where none
    can be caught, it never has.
    """
    if jax.process_count() > 1:
        yield distributed.told_to_end
        return
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield lambda step: False
        return
    before = signal.signal(signal.SIGTERM, lambda *_: event.set())
    try:
        yield lambda step: event.is_set()
    finally:
        signal.signal(signal.SIGTERM, before)
