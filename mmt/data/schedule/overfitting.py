"""The definition of overfitting, for the schedule and for `mmt watch`."""

from typing import Any, NamedTuple

import numpy as np

PATIENCE = 3  # validations after the best one, all of which are worse, that show overfitting
WORSE = 1.01  # factor of the best loss above which a loss is worse
_ROWS = 5  # rows of the training loss that are averaged


class Losses(NamedTuple):
    """The losses of a language: `steps` [n], ascending, and `values` [n], NaN if unknown."""

    steps: Any
    values: Any


class Overfitting(NamedTuple):
    """The overfitting of a language.

    Attributes:
      onset: the step of the best validation loss.
      best, last: the best and the latest validation loss.
    """

    onset: int
    best: float
    last: float


def overfitting(
    validation: Losses, training: Losses | None = None, *, patience: int = PATIENCE
) -> Overfitting | None:
    """Returns the onset of a language's overfitting, or None if it does not overfit.

    It overfits if its best validation loss is before the last `patience` validations, each of which
    is over 1 % worse, while its training loss went on falling, if that is known (not None).

    >>> overfitting(Losses([10, 20, 30, 40], [2.0, 2.1, 2.2, 2.3]))
    Overfitting(onset=10, best=2.0, last=2.3)
    """
    values = np.asarray(validation.values, np.float64)
    finite = np.flatnonzero(np.isfinite(values))
    losses, steps = values[finite], np.asarray(validation.steps)[finite]
    if len(losses) <= patience:
        return None
    best = int(losses.argmin())
    if best >= len(losses) - patience or losses[-patience:].min() <= WORSE * losses[best]:
        return None
    onset = int(steps[best])
    if training is not None and not _falls(training, onset):
        return None
    return Overfitting(onset, float(losses[best]), float(losses[-1]))


def _falls(training: Losses, onset: int) -> bool:
    """Returns whether the mean training loss of the last rows is below that around `onset`."""
    values, steps = np.asarray(training.values, np.float64), np.asarray(training.steps)
    later = values[np.isfinite(values) & (steps > onset)]
    earlier = values[np.isfinite(values) & (steps <= onset)]
    if not len(later) or not len(earlier):
        return False
    rows = max(1, min(len(later), len(earlier), _ROWS))
    return bool(later[-rows:].mean() < earlier[-rows:].mean())
