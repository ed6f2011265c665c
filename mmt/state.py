"""`TrainState`: all that a training step changes, and its way into checkpoints and back."""

from typing import Any, Protocol, runtime_checkable

import flax.struct
import jax

from mmt import distributed
from mmt.checkpoint import Checkpoints


@flax.struct.dataclass
class TrainState:
    """Arrays, or in their place their shapes or shardings."""

    step: Any  # int32 []
    params: Any
    opt_state: Any  # for every parameter the optimizer's state of it
    meters: Any  # Meters since the last logged row

    def items(self) -> dict[str, Any]:
        """As a checkpoint holds it."""
        progress = {"step": self.step, "meters": self.meters}
        return {"params": self.params, "optimizer": self.opt_state, "progress": progress}


@runtime_checkable
class Positioned(Protocol):
    """Batches that can be set to where they were."""

    def get_state(self) -> Any: ...
    def set_state(self, state: Any) -> None: ...


def position(batches: Positioned) -> Any:
    """The position in the data of all processes together, as a checkpoint holds it.

    ValueError where the processes read different data.
    """
    return distributed.merged(distributed.gather(batches.get_state()), "data")


@runtime_checkable
class Accounted(Protocol):
    """Batches that tell what was seen up to a position; those of `mmt.data.pipeline` do."""

    def ledger(self) -> Any: ...  # with read, count and write, as of `mmt.data.ledger.Ledger`


def account(batches: Any, model_dir: str, *, step: int, data: Any) -> None:
    """Has batches that can do so write down what was seen up to the position `data`. Each process
    counts a part, the first writes; OSError only there.
    """
    if not isinstance(batches, Accounted):
        return
    ledger = batches.ledger()
    former = distributed.from_first(lambda: ledger.read(model_dir))
    own = ledger.count(former, data, jax.process_index(), jax.process_count())
    counted = distributed.gather(own)
    if distributed.is_first():
        ledger.write(model_dir, former, data, counted, step)


def restore(
    shapes: TrainState, batches: Positioned | None, checkpoints: Checkpoints
) -> TrainState | None:
    """The state of the latest good checkpoint, its data position set in `batches`; or None.

    Without batches the data stay where they are.
    """
    restored = checkpoints.restore(shapes.items())
    if restored is None:
        return None
    _, items = restored
    if batches is not None:
        batches.set_state(items["data"])
    return TrainState(params=items["params"], opt_state=items["optimizer"], **items["progress"])
