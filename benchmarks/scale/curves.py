"""Power laws through measurements: the exponent, and the value at a size that is not measured."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

STEEP = 1.05  # an exponent above this is flagged: more than linear
_POINTS = 4  # of the fit, the largest: small ones bend it
_GROWN = 1.5  # a point of the fit is above the fixed part by this factor: less is noise


class Curve(NamedTuple):
    """A quantity by size: fixed + scale · size^exponent.

    Attributes:
      fixed: the value at the smallest size, which start-up and libraries determine.
      exponent, scale: by least squares of the logarithms of the values without `fixed`.
      error: standard error of the exponent; NaN for two points.
      sizes, values: the points of the fit, without the smallest size and `fixed`.
    """

    fixed: float
    exponent: float
    scale: float
    error: float
    sizes: np.ndarray
    values: np.ndarray

    def at(self, size: float) -> float:
        """Returns the value at a size."""
        return self.fixed + self.scale * size**self.exponent

    def interval(self, size: float, confidence: float = 0.95) -> tuple[float, float]:
        """Returns the prediction interval at a size (Student's t in the logarithms).

        It is NaN for two points, and the range of the values of a constant. It assumes that the
        power law holds up to there.
        """
        if not self.exponent:
            return float(self.values.min()), float(self.values.max())
        logs = np.log(self.sizes)
        count, place = len(logs), np.log(size)
        if count < 3:
            return float("nan"), float("nan")
        residuals = np.log(self.values) - np.log(self.scale) - self.exponent * logs
        spread = np.sqrt((residuals**2).sum() / (count - 2))
        away = (place - logs.mean()) ** 2 / ((logs - logs.mean()) ** 2).sum()
        t = stdtrit(count - 2, (1 + confidence) / 2)
        width = t * spread * np.sqrt(1 + 1 / count + away)
        middle = self.at(size) - self.fixed
        return self.fixed + middle / np.exp(width), self.fixed + middle * np.exp(width)

    @property
    def steep(self) -> bool:
        """Whether it grows faster than linear."""
        return self.exponent > STEEP


def fit(points: Mapping[int, float]) -> Curve:
    """Returns the curve through size -> value, of which the smallest gives the fixed part.

    Value and size count from the smallest size, so that the exponent of a line is 1. Sizes whose
    value is not 50 % above the fixed part are omitted: noise. The four largest of the others are
    used. Without two, the quantity has not grown: exponent 0, the largest value.

    >>> round(fit({10: 6.0, 100: 15.0, 1000: 105.0, 10_000: 1005.0}).exponent, 2)
    1.0

    Raises:
      ValueError: fewer than three sizes.
    """
    if len(points) < 3:
        raise ValueError(f"a curve needs three sizes, got {sorted(points)}")
    sizes = np.array(sorted(points), np.float64)
    values = np.array([points[int(size)] for size in sizes], np.float64)
    fixed = float(values[0])
    grown = values > _GROWN * fixed
    grown[0] = False
    if grown.sum() < 2:
        return Curve(0.0, 0.0, float(values.max()), 0.0, sizes, values)
    above, more = values[grown] - fixed, sizes[grown] - sizes[0]
    above, more = above[-_POINTS:], more[-_POINTS:]
    x, y = np.log(more), np.log(above)
    slope, intercept = np.polyfit(x, y, 1)
    error = float("nan")
    if len(x) > 2:
        residuals = y - slope * x - intercept
        error = float(np.sqrt((residuals**2).sum() / (len(x) - 2) / ((x - x.mean()) ** 2).sum()))
    return Curve(fixed, float(slope), float(np.exp(intercept)), error, more, above)
