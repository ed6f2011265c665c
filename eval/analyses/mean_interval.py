"""Confidence intervals of means over languages."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 2000  # for the interval of a mean
FEWEST = 5  # least number of values for an interval of their mean


class ConfidenceInterval(NamedTuple):
    """A 95 % interval."""

    low: float
    high: float


def mean_interval(values: Sequence[float]) -> ConfidenceInterval | None:
    """Returns the 95 % interval of a mean over languages; see `interval`."""
    return interval(np.asarray(values, np.float64), lambda drawn: drawn.mean(axis=1))


def interval(
    values: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
) -> ConfidenceInterval | None:
    """Returns the 95 % interval of a score of many languages, by bootstrap over languages.

    It estimates how the score would vary with other languages of the same kind. It consists of
    percentiles of 2000 scores with a fixed seed. values: (languages, ...). score: from (RESAMPLES,
    languages, ...) to (RESAMPLES,). None for fewer than FEWEST languages.
    """
    if len(values) < FEWEST:
        return None
    drawn = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(score(values[drawn]), (0.025, 0.975))
    return ConfidenceInterval(float(low), float(high))
