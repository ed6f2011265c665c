"""The series that the page draws per language and per run, reduced to few points."""

import base64
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mmt.data.schedule.overfitting import Losses, Overfitting
from mmt.data.schedule.overfitting import overfitting as onset_of
from mmt.watch.run_metrics import RunMetrics

EMPTY = 65535  # a point without a value


@dataclass(frozen=True)
class LanguageMetric:
    """A number per language that the page shows over time.

    Attributes:
      name: in addresses and in the exported file.
      label: on the page.
      unit: of its values, '' if they have none.
      better: which values are better, or '' if neither is.
      field: what the run has to log.
    """

    name: str
    label: str
    unit: str
    better: Literal["lower", "higher", ""]
    field: str


METRICS = {
    metric.name: metric
    for metric in (
        LanguageMetric("loss", "Training loss", "nats per token", "lower", "language_loss"),
        LanguageMetric("validation_loss", "Validation loss", "nats per token", "lower",
                       "language_validation_loss"),
        LanguageMetric("overfitting", "Validation loss above its best", "nats per token", "lower",
                       "language_validation_loss"),
        LanguageMetric("bleu", "BLEU (validation)", "", "higher", "language_bleu"),
        LanguageMetric("source_use", "Use of the source", "nats per token", "higher",
                       "language_source_use"),
        LanguageMetric("epochs", "Epochs seen", "", "", "language_tokens"),
        LanguageMetric("share", "Share of target tokens", "%", "", "language_tokens"),
        LanguageMetric("rate", "Mixing rate, consumed", "%", "", "language_examples"),
    )
}  # fmt: skip


class Series(NamedTuple):
    """Numbers by step: `steps` [n], ascending, and `values` [n, width], NaN where there is none."""

    steps: Int[np.ndarray, " n"]
    values: Float[np.ndarray, "n width"]

    def between(self, first: int, last: int) -> "Series":
        """Returns the part with first <= step <= last."""
        start, end = np.searchsorted(self.steps, [first, last + 1])
        return Series(self.steps[start:end], self.values[start:end])


def of_languages(
    metrics: RunMetrics, name: str, epoch_tokens: Float[np.ndarray, " languages"] | None
) -> Series | None:
    """Returns a metric of `METRICS` for all languages; None if the run does not log it.

    epoch_tokens: target tokens of an epoch of each language, NaN where that is not known.
    """
    track = metrics.by_language.get(METRICS[name].field)
    if track is None:
        return None
    values = track.values
    if name == "overfitting":
        best = np.fmin.accumulate(values, axis=0)
        values = values - best
    elif name in ("share", "rate"):
        known = np.nan_to_num(values)
        if name == "rate":  # counted from the start of the run
            known = np.maximum(np.diff(known, axis=0, prepend=np.zeros_like(known[:1])), 0)
        parts = known / np.maximum(known.sum(axis=1, keepdims=True, dtype=np.float64), 1)
        values = (100 * parts).astype(np.float32)
    elif name == "epochs":
        if epoch_tokens is None:
            return None
        read = np.cumsum(np.nan_to_num(values), axis=0, dtype=np.float64)
        values = (read / epoch_tokens).astype(np.float32)
    return Series(track.steps, values)


class Bins(NamedTuple):
    """A series in at most some number of bins of consecutive rows.

    Attributes:
      edges: bin i has the rows with edges[i] < step <= edges[i + 1].
      mean, low, high: of the values of each bin, NaN where there is none.
    """

    edges: Int[np.ndarray, " bins+1"]
    mean: Float[np.ndarray, "bins width"]
    low: Float[np.ndarray, "bins width"]
    high: Float[np.ndarray, "bins width"]

    def as_json(self, *, bands: bool) -> dict[str, Any]:
        """Returns the bins for JSON: [width bins] in 16 bits each, with `low` and `high` on demand.

        A value is `least` + number * (`most` - `least`) / 65534; 65535 is none.
        """
        parts = {"mean": self.mean} | ({"low": self.low, "high": self.high} if bands else {})
        every = np.concatenate([part.ravel() for part in parts.values()])
        finite = every[np.isfinite(every)].astype(float)
        least, most = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
        scale = (EMPTY - 1) / (most - least) if most > least else 0.0
        content: dict[str, Any] = {"edges": self.edges.tolist()}
        content |= {"least": float(least), "most": float(most)}
        for name, part in parts.items():
            known = np.isfinite(part)
            scaled = np.rint((np.where(known, part, least) - least) * scale)
            numbers = np.where(known, scaled, EMPTY)
            content[name] = base64.b64encode(numbers.T.astype("<u2").tobytes()).decode()
        return content


def binned(series: Series, columns: int) -> Bins:
    """Returns the series in at most `columns` bins, with its extremes: no peak is lost.

    columns: at least 1. A series of fewer rows has a bin per row.
    """
    steps, values = series
    count = len(steps)
    if not count:
        empty = np.zeros((0, values.shape[1]), np.float32)
        return Bins(np.zeros(1, np.int64), empty, empty, empty)
    bins = min(columns, count)
    starts = np.arange(bins) * count // bins
    edges = np.append(steps[starts - 1], steps[-1])
    edges[0] = max(steps[0] - (steps[1] - steps[0] if count > 1 else steps[0]), 0)
    if bins == count:
        return Bins(edges, values, values, values)
    known = np.isfinite(values)
    numbers = np.add.reduceat(known, starts, axis=0, dtype=np.float32)
    with np.errstate(invalid="ignore"):
        mean = np.add.reduceat(np.where(known, values, 0), starts, axis=0) / numbers
    low = np.minimum.reduceat(np.where(known, values, np.inf), starts, axis=0)
    high = np.maximum.reduceat(np.where(known, values, -np.inf), starts, axis=0)
    empty = numbers == 0
    return Bins(edges, mean, np.where(empty, np.nan, low), np.where(empty, np.nan, high))


def overfitting(metrics: RunMetrics) -> dict[int, Overfitting]:
    """Returns the languages that overfit (`mmt.data.schedule.overfitting`), by column."""
    track = metrics.by_language.get("language_validation_loss")
    if track is None:
        return {}
    training = metrics.by_language.get("language_loss")
    by_column = {}
    for column in range(track.values.shape[1]):
        training_losses = None
        if training is not None:
            training_losses = Losses(training.steps, training.values[:, column])
        onset = onset_of(Losses(track.steps, track.values[:, column]), training_losses)
        if onset is not None:
            by_column[column] = onset
    return by_column
