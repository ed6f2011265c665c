"""The interfaces of the training loop: `Batches`, `Step`, `Hook` and `RunGuard`."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Float

from mmt import distributed, languages
from mmt.metrics import Log
from mmt.trainer import Trainer, TrainState

Rows = Mapping[str, np.ndarray]  # a batch, or a process's part of it


@runtime_checkable
class Batches(Protocol):
    """The training data as the loop needs it; `mmt.data.pipeline.TrainBatches` implements it."""

    @property
    def manifest(self) -> Any:
        """Has `languages`, `vocabulary_size` and `corpus_table`."""

    @property
    def waits_for_losses(self) -> bool:
        """Whether the order of the data depends on losses that are given to `validated`."""

    def __next__(self) -> Rows: ...
    def add_corpus_ids(self) -> None:
        """Adds `decoder_corpus_ids`, indices into `manifest.corpus_table`, to the batches."""

    def share(self, rows: Callable[[int], Sequence[range]]) -> None:
        """Restricts reading to `rows(batch_size)`, the rows of this process."""

    def get_state(self) -> Any:
        """The position in the data, as JSON."""

    def set_state(self, state: Any) -> None: ...
    def next_draw(self) -> int:
        """The number of examples drawn so far."""

    def drawn(self, draw: int) -> dict[str, int]:
        """The examples of each language before a draw."""

    def validated(
        self, losses: Mapping[str, float], draw: int, *, training: Mapping[str, float], step: int
    ) -> list[dict[str, Any]]:
        """Takes losses by language. Returns what they change from `draw` on, each with a `text`."""

    def warnings(self, steps: int) -> list[str]:
        """Warnings about a run of `steps` steps."""

    def ledger(self) -> Any:
        """The counter of consumed examples (`mmt.data.ledger.Ledger`), or None."""

    def close(self) -> None: ...


class Interrupted(Exception):
    """Raised in a hook when the run is to stop; the hook is called again after resuming."""


class RunGuard:
    """Protects the run during a long hook. This base class does nothing."""

    def preempted(self) -> bool:
        """Whether the run is to stop now."""
        return False

    def progressed(self, phase: str) -> None:
        """Notes progress of the hook, for the heartbeat."""

    def before_long_hook(self, now: "Step") -> None:
        """Saves the state if a kill during the hook would lose much."""

    def interrupted(self, now: "Step") -> None:
        """Saves the state, so that the hooks of this step are called again after resuming."""


@dataclasses.dataclass
class Step:
    """A finished training step, as hooks receive it.

    Attributes:
        number: the number of the step, from 1.
        state: the state after the step.
        loss: loss per target token; the device may still be computing it.
        previous_loss: the loss of the step before, which is computed.
        program, batches, log: those of the run.
        steps: the last step of the run.
        stop: whether a hook stops the run.
        measured: validation scores, saved with the checkpoint.
        saved_data: the position in the data if this step is saved.
        rolled_back: whether state, number and loss are now those of an earlier step.
        guard: protects the run during long hooks.
    """

    number: int
    state: TrainState
    loss: Float[Array, ""] | None
    previous_loss: Float[Array, ""] | None
    program: Trainer
    batches: Batches
    log: Log
    steps: int
    stop: bool = False
    measured: dict[str, float] = dataclasses.field(default_factory=dict)
    saved_data: Any = None
    rolled_back: bool = False
    guard: RunGuard = dataclasses.field(default_factory=RunGuard)

    @contextlib.contextmanager
    def long_phase(self, phase: str, total: int) -> Iterator[Callable[..., None]]:
        """Shows a phase of `total` languages: "validating loss: German (12 of 129)".

        The hook calls the yielded function with the code and number of each language when it
        begins; the code "" only notes progress. All processes must call it equally often, or with
        `ask=False`, which does not check for preemption.

        The call raises Interrupted if the run is to stop. The hook then writes nothing, and is
        called again with the same state after resuming.
        """
        self.guard.before_long_hook(self)
        with self.log.phase(phase):

            def advance(language: str, number: int, *, ask: bool = True) -> None:
                self.guard.progressed(phase)
                if ask and self.guard.preempted():
                    raise Interrupted
                if language:
                    name = languages.name_of(language)
                    self.log.phases.progress(f"{name} ({number} of {total})")

            yield advance

    @property
    def last(self) -> bool:
        """Whether this is the last step of the run."""
        return self.number >= self.steps


Hook = Callable[[Step], bool | None]  # True stops the run


@runtime_checkable
class LossHook(Protocol):
    """A hook that gives validation losses to `Batches.validated`."""

    gives_losses: bool


def run_hooks(
    hooks: Sequence[Hook], now: Step
) -> tuple[TrainState, int, Float[Array, ""] | None]:
    """Calls `hooks` in order, up to one that rolls back; returns (state, step, loss) to continue.

    Sets `log.stopped` if a hook stops the run. The hooks after an interrupted one are not called.
    """
    for hook in hooks:
        try:
            stop = bool(hook(now))
        except Interrupted:
            now.guard.interrupted(now)
            now.stop = True
            break
        now.stop = now.stop or stop
        if now.rolled_back:
            now.stop = False
            break
    now.log.stopped = now.stop
    return now.state, now.number, now.loss


def position(batches: Batches) -> Any:
    """Returns the merged position in the data of all processes, as a checkpoint stores it.

    Raises ValueError where the processes read different data.
    """
    return distributed.merged(distributed.gather(batches.get_state()), "data")
