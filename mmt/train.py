"""The training loop, on one screen.

It knows neither corpora nor evaluation: everything periodic is a hook, a function of `Step`. The
hooks of every run are in `mmt.default_hooks`, the compiled step is in `mmt.trainer`.
"""

import functools
from collections.abc import Sequence

import jax

from mmt import default_hooks
from mmt.checkpoint import Policy
from mmt.health import Health
from mmt.initial import add_corpora, check, check_parents
from mmt.optimizer import cooldown, inverse_sqrt, muon, relative_adam, warmup_cosine
from mmt.step import Batches, Hook, Step, position, run_hooks
from mmt.system import termination
from mmt.timings import Timings
from mmt.trainer import Program, Trainer, TrainState

__all__ = [
    "Batches", "Hook", "Program", "Step", "Terminated", "TrainState", "Trainer", "check",
    "check_parents", "cooldown", "inverse_sqrt", "muon", "relative_adam", "train",
    "warmup_cosine",
]  # fmt: skip


class Terminated(SystemExit):
    """The run was ended by SIGTERM; its checkpoint is written. Uncaught, the exit status is 143."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = termination.STATUS


def train(
    program: Trainer,
    batches: Batches,
    *,
    model_dir: str,
    steps: int,
    policy: Policy = Policy(),  # noqa: B008  (frozen)
    health: Health = Health(),  # noqa: B008
    hooks: Sequence[Hook] = (),
) -> TrainState:
    """Trains up to `steps` steps in `model_dir`, from its latest good checkpoint if it has one.

    A resumed run gives the same numbers as one that was never stopped, bit for bit. Every process
    of a run calls it and reads its share of the batches; the first one writes the metrics.
    If no process makes progress, all end with status 75 (`health`).

    Raises:
      Terminated: after a SIGTERM to any process, once the checkpoint is written.
      ValueError: another run uses `model_dir`; every step is skipped; a stage cannot end.
    """
    default_hooks.check_end(steps, batches, hooks)
    batches.share(program.layout.rows)
    check(program, batches.manifest, model_dir)
    position(batches)  # raises where the processes read different data
    corpora = add_corpora(batches, model_dir)
    with default_hooks.open_run(
        program, batches.manifest.languages, corpora, model_dir=model_dir, steps=steps,
        policy=policy, health=health,
    ) as (preemption, checkpoints, recovery, log, progress):  # fmt: skip
        rollback = default_hooks.Rollback(program, checkpoints, log)
        state, loss = rollback.start(batches, recovery)
        step = int(state.step)
        hooked = step if loss is None else step - 1  # the last step whose hooks were called
        saving = default_hooks.Saving(checkpoints, recovery, rollback, preemption, hooked, progress)
        timings = Timings(model_dir, (checkpoints, recovery), step)
        all_hooks: list[Hook] = [
            rollback, log_step, timings, saving.recover, *hooks, preemption, saving.decide,
            saving.save, default_hooks.ConsumptionLog(model_dir),
        ]  # fmt: skip
        make_step = functools.partial(Step, program=program, batches=batches, log=log, steps=steps,
                                      guard=saving)  # fmt: skip
        log.start(hooked)
        if step > hooked:
            state, step, loss = run_hooks(all_hooks, make_step(step, state, loss, None))
        elif step >= steps or log.stopped:
            log.say(f"{model_dir} is trained: step {step} of {steps}")
        while step < steps and not log.stopped:
            progress.enter("input", step + 1)
            batch = program.place(log.next_batch(batches, loss))
            progress.enter("dispatch", step + 1)
            finished = make_step(step + 1, *program.step(state, batch), previous_loss=loss)
            progress.enter("device", step + 1)
            jax.block_until_ready(loss)  # one step ahead of the device, not more
            progress.enter("hooks", step + 1)
            state, step, loss = run_hooks(all_hooks, finished)
        saving.finish(log)
        timings.record_saves(log)
    if preemption.stopped and saving.checkpoint < steps:
        raise Terminated(f"stopped by a signal; checkpoint {saving.last_saved} is written")
    return state


def log_step(now: Step) -> None:
    """Adds the finished step to the metrics."""
    now.log.train_step(now.number, now.state.meters, last=now.last)
