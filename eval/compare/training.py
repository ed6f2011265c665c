"""The training of runs side by side: cost, losses at equal steps and tokens, and by language."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from eval.compare.compared_run import ComparedRun
from mmt.watch.run_metrics import RunMetrics
from mmt.watch.series import Series, binned

POINTS = 400  # most points of a curve
_EQUAL_POINTS = 4  # at which losses are compared


class LossAt(NamedTuple):
    """A validation loss in nats per target token. interpolated: whether it lies between two."""

    loss: float
    interpolated: bool


@dataclass(frozen=True)
class LossCurve:
    """A loss over training: parallel lists. tokens: target tokens so far."""

    steps: tuple[int, ...]
    tokens: tuple[float, ...]
    loss: tuple[float, ...]


@dataclass(frozen=True)
class TrainingSummary:
    """The training of one run so far; None where it is not logged.

    hours: between the rows of training, with the validations and saves among them. tokens: target
    tokens. Losses are in nats per target token, without label smoothing.
    """

    steps: int | None
    tokens: float | None
    hours: float | None
    best_loss: float | None
    best_step: int | None
    last_loss: float | None
    last_step: int | None
    best_bleu: float | None
    training: LossCurve
    validation: LossCurve


@dataclass(frozen=True)
class EqualPoint:
    """Validation losses after the same `amount` of steps or of target tokens, by run."""

    amount: float
    losses: tuple[LossAt | None, ...]


@dataclass(frozen=True)
class LanguageLosses:
    """Validation losses of a language at the best step of each run; None where not measured.

    comparable: whether each run's loss may be compared with that of the first.
    """

    language: str
    losses: tuple[float | None, ...]
    comparable: tuple[bool, ...]


@dataclass(frozen=True)
class TrainingComparison:
    """The training of the runs. comparable: whether each run's loss may be compared with the
    first's: it has the same target vocabulary and the same languages with validation sets.
    """

    summaries: tuple[TrainingSummary, ...]
    comparable: tuple[bool, ...]
    at_steps: tuple[EqualPoint, ...]
    at_tokens: tuple[EqualPoint, ...]
    languages: tuple[LanguageLosses, ...]
    notes: tuple[str, ...]


def compare(runs: Sequence[ComparedRun]) -> TrainingComparison:
    """Returns the training of the runs side by side."""
    summaries = tuple(summary(run.metrics) for run in runs)
    curves = [each.validation for each in summaries]
    units = [_unit(runs[0], run) and _same_lines(runs[0], run) for run in runs]
    notes = [
        f"{run.name}: {note}"
        for run in runs[1:]
        for note in (_why(runs[0], run), _doubt(runs[0], run))
        if note
    ]
    at_steps, at_tokens = _at_steps(curves), _at_tokens(curves)
    notes += _not_equal("steps", at_steps, runs, [curve.steps for curve in curves])
    notes += _not_equal("target tokens", at_tokens, runs, [_logged(curve) for curve in curves])
    return TrainingComparison(
        summaries,
        tuple(unit and not _why(runs[0], run) for unit, run in zip(units, runs, strict=True)),
        at_steps,
        at_tokens,
        _languages(runs, summaries, units),
        tuple(notes),
    )


def summary(metrics: RunMetrics) -> TrainingSummary:
    """Returns the training of a run so far."""
    validation = _curve(metrics, "validation_loss")
    best = int(np.argmin(validation.loss)) if validation.loss else None
    bleu = _values(metrics, "bleu").values
    seconds = _sum(metrics, "seconds")
    return TrainingSummary(
        steps=metrics.step if metrics.place else None,  # a published model has no metrics
        tokens=_sum(metrics, "target_tokens"),
        hours=None if seconds is None else seconds / 3600,
        best_loss=None if best is None else validation.loss[best],
        best_step=None if best is None else validation.steps[best],
        last_loss=validation.loss[-1] if validation.loss else None,
        last_step=validation.steps[-1] if validation.steps else None,
        best_bleu=float(bleu.max()) if bleu.size else None,
        training=_curve(metrics, "nll"),
        validation=validation,
    )


def loss_at(xs: Sequence[float], losses: Sequence[float], x: float) -> LossAt | None:
    """Returns the loss at `x`, interpolated linearly; None outside of what was measured.

    >>> loss_at([10, 20], [4.0, 3.0], 20), loss_at([10, 20], [4.0, 3.0], 15)
    (LossAt(loss=3.0, interpolated=False), LossAt(loss=3.5, interpolated=True))
    """
    if not xs or not xs[0] <= x <= xs[-1]:
        return None
    return LossAt(float(np.interp(x, xs, losses)), x not in xs)


def _values(metrics: RunMetrics, field: str) -> Series:
    """Returns the finite values of a number of the whole run."""
    track = metrics.totals.get(field)
    if track is None:
        return Series(np.zeros(0, np.int64), np.zeros((0, 1), np.float32))
    is_finite = np.isfinite(track.values[:, 0])
    return Series(track.steps[is_finite], track.values[is_finite])


def _sum(metrics: RunMetrics, field: str) -> float | None:
    values = _values(metrics, field).values
    return float(values.sum(dtype=np.float64)) if values.size else None


def _curve(metrics: RunMetrics, field: str) -> LossCurve:
    known = _values(metrics, field)
    if not len(known.steps):
        return LossCurve((), (), ())
    steps, values = known.steps, known.values
    if field != "validation_loss":  # of which each counts
        bins = binned(known, POINTS)
        steps, values = bins.edges[1:], bins.mean
    return LossCurve(
        tuple(steps.tolist()),
        tuple(_tokens(metrics, steps).tolist()),
        tuple(values[:, 0].astype(float).tolist()),
    )


def _tokens(metrics: RunMetrics, steps: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Returns the target tokens up to each step; NaN if they are not logged."""
    logged = _values(metrics, "target_tokens")
    if not len(logged.steps):
        return np.full(len(steps), np.nan)
    sums = np.cumsum(logged.values[:, 0], dtype=np.float64)
    return np.interp(steps, [0, *logged.steps], [0, *sums])


def _at_steps(curves: Sequence[LossCurve]) -> tuple[EqualPoint, ...]:
    """Returns losses at up to four common steps of validation, else at quarters of the shortest."""
    if not all(curve.steps for curve in curves):
        return ()
    common = sorted(set(curves[0].steps).intersection(*(curve.steps for curve in curves[1:])))
    last = min(curve.steps[-1] for curve in curves)
    points: list[int] = [round(last * part / _EQUAL_POINTS) for part in range(1, _EQUAL_POINTS + 1)]
    if common:
        positions = np.linspace(0, len(common) - 1, min(_EQUAL_POINTS, len(common)) + 1)[1:]
        points = sorted({common[round(position)] for position in positions} | {common[-1]})
    return _points(points, [(curve.steps, curve.loss) for curve in curves])


def _at_tokens(curves: Sequence[LossCurve]) -> tuple[EqualPoint, ...]:
    """Returns losses at quarters of the tokens of the shortest run."""
    if not all(_logged(curve) for curve in curves):
        return ()
    last = min(curve.tokens[-1] for curve in curves)
    points = [last * part / _EQUAL_POINTS for part in range(1, _EQUAL_POINTS + 1)]
    return _points(points, [(curve.tokens, curve.loss) for curve in curves])


def _logged(curve: LossCurve) -> Sequence[float]:
    """Returns the target tokens at each loss; none if a run does not log them."""
    return curve.tokens if np.isfinite(curve.tokens).all() else ()


def _not_equal(
    unit: str,
    points: Sequence[EqualPoint],
    runs: Sequence[ComparedRun],
    amounts: Sequence[Sequence[float]],
) -> Iterator[str]:
    """Yields why no losses are compared at equal amounts, if none are."""
    unknown = [run.name for run, known in zip(runs, amounts, strict=True) if not known]
    if not points:
        why = "the validations of no two runs overlap"
        if unknown:
            why = f"none are known of {', '.join(unknown)}"
        yield f"validation losses are not compared at equal {unit}: {why}"


def _points(
    amounts: Sequence[float], curves: Sequence[tuple[Sequence[float], Sequence[float]]]
) -> tuple[EqualPoint, ...]:
    """Returns the points that at least two of the curves (amounts, losses) reach."""
    points = [
        EqualPoint(amount, tuple(loss_at(xs, losses, amount) for xs, losses in curves))
        for amount in amounts
    ]
    return tuple(point for point in points if sum(loss is not None for loss in point.losses) > 1)


def _unit(first: ComparedRun, run: ComparedRun) -> bool:
    """Whether both count losses per token of the same target vocabulary."""
    ours, theirs = first.manifest, run.manifest
    if ours is None or theirs is None:
        return False
    return ours.vocabulary_hash.get("target") == theirs.vocabulary_hash.get("target")


def _why(first: ComparedRun, run: ComparedRun) -> str:
    """Returns why the validation losses of two runs cannot be compared, or ''."""
    if first.manifest is None or run.manifest is None:
        return "validation losses are not compared: a manifest is missing"
    if not _unit(first, run):
        return (
            f"validation losses are not compared with {first.name}: the target vocabularies "
            "differ, and losses are per token"
        )
    if _validated(first) != _validated(run):
        return (
            f"mean validation losses are not compared with {first.name}: the validation sets "
            "differ; languages with equally large sets are compared"
        )
    if not _same_lines(first, run):
        ours, theirs = _validation_tokens(first), _validation_tokens(run)
        return (
            f"validation losses are not compared with {first.name}: {theirs:,.0f} target tokens "
            f"were measured, there {ours:,.0f} (hooks.ValidationLoss.budget and EVAL_PERIOD limit "
            "them)"
        )
    return ""


def _doubt(first: ComparedRun, run: ComparedRun) -> str:
    """Returns that validation sets may differ though nothing says so, or ''."""
    ours, theirs = first.manifest, run.manifest
    if not _unit(first, run) or not (ours and theirs) or ours.corpus_hash == theirs.corpus_hash:
        return ""
    if not all(len(_values(each.metrics, "validation_loss").steps) for each in (first, run)):
        return ""  # there are no losses to doubt
    return "the corpora differ, so validation sets of equal size may have other lines"


def _same_lines(first: ComparedRun, run: ComparedRun) -> bool:
    """Whether validations measured as many target tokens; True where it is not logged."""
    ours, theirs = _validation_tokens(first), _validation_tokens(run)
    return ours is None or theirs is None or ours == theirs


def _validation_tokens(run: ComparedRun) -> float | None:
    """Returns the target tokens of the last validation; None if they are not logged."""
    values = _values(run.metrics, "validation_tokens").values
    return float(values[-1, 0]) if values.size else None


def _validated(run: ComparedRun) -> dict[str, int]:
    return dict(run.manifest.counts.get("validation", {})) if run.manifest else {}


def _languages(
    runs: Sequence[ComparedRun], summaries: Sequence[TrainingSummary], units: Sequence[bool]
) -> tuple[LanguageLosses, ...]:
    by_run = [
        _of_languages(run.metrics, summary.best_step)
        for run, summary in zip(runs, summaries, strict=True)
    ]
    if sum(map(bool, by_run)) < 2:
        return ()  # there is nothing to compare
    codes = sorted(set().union(*by_run))
    sets = [_validated(run) for run in runs]
    return tuple(
        LanguageLosses(
            code,
            tuple(by.get(code) for by in by_run),
            tuple(
                unit and summary.get(code) == sets[0].get(code)
                for unit, summary in zip(units, sets, strict=True)
            ),
        )
        for code in codes
    )


def _of_languages(metrics: RunMetrics, step: int | None) -> dict[str, float]:
    track = metrics.by_language.get("language_validation_loss")
    if track is None or step is None or step not in track.steps:
        return {}
    values = track.values[int(np.searchsorted(track.steps, step))]
    pairs = zip(metrics.languages, values.tolist(), strict=True)
    return {code: loss for code, loss in pairs if np.isfinite(loss)}
