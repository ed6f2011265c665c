"""`Policy`: when checkpoints are written and which are kept."""

import dataclasses
from typing import ClassVar


@dataclasses.dataclass(frozen=True)
class Policy:
    """Decides when checkpoints are written and which are kept.

    Attributes:
        period: steps between checkpoints; the last step always has one.
        minutes: training time that a kill may cost. This long after the last save, the state is
            saved in `recovery/`, for resuming only. The interval grows so that saving takes at most
            2 % of the time. 0 turns these saves off.
        keep: the number of latest checkpoints that are kept.
        keep_best: the number of checkpoints that are also kept, those of lowest validation loss.
        max_skipped_steps: skipped steps in a row (loss or gradient not finite) after which training
            rolls back to the last checkpoint and continues with the next data.
        max_rollbacks: rollbacks without a new checkpoint after which training fails.
        skips: old name of `max_skipped_steps`.
        returns: old name of `max_rollbacks`.
    """

    saving_share: ClassVar[float] = 0.02  # of the time, for the saves of `minutes`

    period: int = 1000
    keep: int = 2
    keep_best: int = 1
    max_skipped_steps: int = 10
    max_rollbacks: int = 3
    minutes: float = 2.0
    skips: dataclasses.InitVar[int | None] = None
    returns: dataclasses.InitVar[int | None] = None

    def __post_init__(self, skips: int | None, returns: int | None) -> None:
        for name, value in (("max_skipped_steps", skips), ("max_rollbacks", returns)):
            if value is not None:
                object.__setattr__(self, name, value)
        if self.minutes < 0:
            raise ValueError(f"checkpoint.Policy.minutes is {self.minutes}; allowed: 0 or more")
        if min(self.period, self.keep, self.max_skipped_steps) < 1 or self.max_rollbacks < 0:
            raise ValueError(
                f"checkpoint.Policy: {self}; period, keep and max_skipped_steps must be 1 or more, "
                "max_rollbacks 0 or more"
            )
