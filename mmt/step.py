"""`Batches`, `Step` and `Hook`: what the loop of `mmt.train` takes and what it hands on."""

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
    """A hook gives up its work, because the run is to stop; it will be called again."""


class RunGuard:
    """What a hook that takes long asks of the run; this one protects nothing."""

    def preempted(self) -> bool:
        """Whether the run is to stop now."""
        return False

    def progressed(self, phase: str) -> None:
        """Notes that the hook has done a part of its work."""

    def before_long(self, now: "Step") -> None:
        """Makes sure that little is lost if the process ends during the hook."""

    def interrupted(self, now: "Step") -> None:
        """Saves what is needed to call the hooks of this step again."""


@dataclasses.dataclass
class Step:
    """A finished training step, as hooks receive it.

    loss, previous_loss: of this step, which the device may still compute, and of the step before.
    measured: validation scores, saved with the checkpoint. saved_data: the position in the data if
    this step is saved. rolled_back: whether state, number and loss are now of an earlier step.
    """

    number: int
    state: TrainState
    loss: Float[Array, ""] | None
    previous_loss: Float[Array, ""] | None
    program: Trainer
    batches: Batches
    log: Log
    steps: int  # of the run
    stop: bool = False
    measured: dict[str, float] = dataclasses.field(default_factory=dict)
    saved_data: Any = None
    rolled_back: bool = False
    guard: RunGuard = dataclasses.field(default_factory=RunGuard)

    @contextlib.contextmanager
    def long(self, phase: str, total: int) -> Iterator[Callable[..., None]]:
        """Shows a phase of `total` languages: "validating loss: German (12 of 129)".

        The hook calls the function with the code of each language that begins, and its number;
        "" is no language. Of several processes all call it, or none asks (`ask=False`).

        Raises Interrupted from that call if the run is to stop: the hook writes nothing then, and
        is called again, with the same state, when the run is resumed.
        """
        self.guard.before_long(self)
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
        """Whether the run ends here by its number of steps."""
        return self.number >= self.steps


Hook = Callable[[Step], bool | None]  # True stops the run


@runtime_checkable
class LossHook(Protocol):
    """A hook that gives validation losses to `Batches.validated`."""

    gives_losses: bool


def run_hooks(
    hooks: Sequence[Hook], now: Step
) -> tuple[TrainState, int, Float[Array, ""] | None]:
    """Calls `hooks` in order, up to one that rolls back. Returns (state, step, loss) to go on from.

    Any of them may stop the run, which the log notes. One that is interrupted ends it at once.
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
    """Returns the position in the data of all processes together, as a checkpoint holds it.

    Raises ValueError where the processes read different data.
    """
    return distributed.merged(distributed.gather(batches.get_state()), "data")
