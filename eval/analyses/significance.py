"""Confidence intervals and significance tests: bootstrap and approximate randomisation.

The results equal those of sacreBLEU (`sacrebleu --confidence`, `--paired-bs` and `--paired-ar`),
with the same resamples; `paired` names the exceptions. Here all resamples are scored at once, and
those of a system are reused in all its comparisons: a report of 100 languages has a thousand.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from eval import metrics
from eval.records.analysis import Interval, Paired
from eval.records.results import KEY, Row

RESAMPLES = 1000  # bootstrap
TRIALS = 10_000  # approximate randomisation
SEED = 12345
_BLOCK = 1000  # trials at a time, to limit memory
_ROUNDING = 1e-9  # BLEU: equal scores may differ by it


@dataclasses.dataclass(frozen=True, eq=False)
class Counted:
    """The translations of a test set in one language, as the counts of its sentences.

    Attributes:
        bleu: counts as in `metrics.Statistics.bleu`.
        chrf: counts as in `metrics.Statistics.chrf`; None if only BLEU is compared.
    """

    bleu: np.ndarray
    chrf: np.ndarray | None

    @functools.cached_property
    def bleus(self) -> np.ndarray:
        """Returns BLEU of every resample."""
        return metrics.bleu(_resample_counts(len(self.bleu)) @ self.bleu)

    @functools.cached_property
    def chrfs(self) -> np.ndarray:
        """Returns chrF++ of every resample."""
        return metrics.chrf(_resample_counts(len(self.bleu)) @ self._chrf_counts)

    @functools.cached_property
    def scores(self) -> dict[str, float]:
        """Returns BLEU and chrF++, by 'bleu' and 'chrf'."""
        bleu = metrics.bleu(self.bleu.sum(axis=0))
        chrf = metrics.chrf(self._chrf_counts.sum(axis=0))
        return {"bleu": float(bleu), "chrf": float(chrf)}

    @property
    def _chrf_counts(self) -> np.ndarray:
        if self.chrf is None:
            raise ValueError("these translations have no counts for chrF++")
        return self.chrf


@dataclasses.dataclass(frozen=True, eq=False)
class Judged(Counted):
    """A row of results with the counts of its sentences.

    Attributes:
        row: the row of results.
        hypotheses: hash of the texts.
    """

    row: Row
    hypotheses: str


def interval(system: Judged) -> Interval:
    """Returns 95 % intervals of BLEU and chrF++ by bootstrap (Koehn, 2004).

    It sorts the scores of 1,000 resamples and omits 2.5 % at each end. `sacrebleu --confidence`
    prints half its width after the ±.
    """
    bleu, chrf = _middle_95(system.bleus), _middle_95(system.chrfs)
    return Interval(
        **key_of(system.row),
        bleu_low=bleu[0],
        bleu_high=bleu[1],
        chrf_low=chrf[0],
        chrf_high=chrf[1],
        resamples=RESAMPLES,
        seed=SEED,
        hypotheses=system.hypotheses,
    )


def paired(system: Judged, against: Judged) -> Paired:
    """Returns the difference of a system to another one on the same sentences, with tests.

    The tests are paired bootstrap (Koehn, 2004) and approximate randomisation (Riezler & Maxwell,
    2005) with 10,000 trials. Both p-values equal sacreBLEU's, with two exceptions. For systems with
    equal counts they are 1. Randomisation also counts trials exactly as far apart as the outputs:
    if the systems differ in one sentence, these are all trials, and p is 1, not 1/10001.
    `delta_low` to `delta_high` is the 95 % interval of ΔBLEU over paired resamples. Raises
    ValueError for rows of different sentences.
    """
    for name in ("testset", "source", "target", "sentences"):
        first, second = getattr(system.row, name), getattr(against.row, name)
        if first != second:
            raise ValueError(
                f"{system.row.system} has {name} {first!r}, {against.row.system} has {second!r}: "
                f"these cannot be compared"
            )
    low, high = _middle_95(system.bleus - against.bleus)
    return Paired(
        **key_of(system.row),
        against=against.row.system,
        against_checkpoint=against.row.checkpoint,
        delta=round(system.row.bleu - against.row.bleu, 4),
        delta_low=low,
        delta_high=high,
        p_bootstrap=_p_bootstrap(system, against),
        p_randomization=_p_randomization(system.bleu, against.bleu),
        chrf_delta=round(system.row.chrf - against.row.chrf, 4),
        resamples=RESAMPLES,
        seed=SEED,
        hypotheses=system.hypotheses,
        against_hypotheses=against.hypotheses,
    )


def mean_difference(pairs: Sequence[tuple[Counted, Counted]]) -> dict[str, float]:
    """Returns the differences of BLEU and chrF++ of two systems, as means over languages.

    `bleu_low` to `bleu_high` and `chrf_low` to `chrf_high` are 95 % intervals by paired bootstrap
    over the sentences of each language.

    pairs: of each language, both systems on the same sentences.
    """
    differences: dict[str, float] = {}
    for name in ("bleu", "chrf"):
        scores = [a.scores[name] - b.scores[name] for a, b in pairs]
        resampled = [getattr(a, f"{name}s") - getattr(b, f"{name}s") for a, b in pairs]
        low, high = _middle_95(np.mean(resampled, axis=0))
        mean = round(float(np.mean(scores)), 4)
        differences |= {name: mean, f"{name}_low": low, f"{name}_high": high}
    return differences


def mcnemar(only_first: int, only_other: int) -> float:
    """Returns the two-sided p-value of McNemar's exact test; 1 without discordant cases.

    >>> round(mcnemar(1, 9), 4), mcnemar(0, 0)
    (0.0215, 1.0)
    """
    from scipy import stats  # imported late: it takes a third of a second

    if not only_first + only_other:
        return 1.0
    return float(stats.binomtest(only_first, only_first + only_other).pvalue)


def corrected(p_values: Sequence[float]) -> list[float]:
    """Returns p-values corrected by Benjamini and Hochberg (1995).

    >>> [round(q, 4) for q in corrected([0.01, 0.04, 0.03])]
    [0.03, 0.04, 0.04]
    """
    from scipy import stats  # imported late: it takes a third of a second

    return stats.false_discovery_control(p_values).tolist() if p_values else []


def mirrored(row: Paired, system: Row, against: Row) -> Paired:
    """Returns the row of `paired(against, system)`, given that of `paired(system, against)`."""
    return dataclasses.replace(
        row,
        **key_of(against),
        against=system.system,
        against_checkpoint=system.checkpoint,
        delta=0.0 - row.delta,
        delta_low=0.0 - row.delta_high,
        delta_high=0.0 - row.delta_low,
        chrf_delta=0.0 - row.chrf_delta,
        hypotheses=row.against_hypotheses,
        against_hypotheses=row.hypotheses,
    )


def key_of(row: Row) -> dict[str, Any]:
    """Returns the key fields that an analysis row shares with its row of results."""
    return {name: getattr(row, name) for name in KEY}


def _p_bootstrap(system: Judged, against: Judged) -> float:
    first, second = system.bleu, against.bleu
    if np.array_equal(first, second):
        return 1.0
    differences = np.abs(system.bleus - against.bleus)
    above = differences - differences.mean() > _difference(first, second) + _ROUNDING
    return (int(above.sum()) + 1) / (RESAMPLES + 1)


def _p_randomization(first: np.ndarray, second: np.ndarray) -> float:
    swap, count = _random_swaps(len(first)), 0
    observed = _difference(first, second)
    for start in range(0, TRIALS, _BLOCK):
        change = swap[start : start + _BLOCK].astype(np.float64) @ (second - first)
        pair = metrics.bleu(first.sum(axis=0) + change), metrics.bleu(second.sum(axis=0) - change)
        count += int((np.abs(pair[0] - pair[1]) >= observed - _ROUNDING).sum())
    return (count + 1) / (TRIALS + 1)


def _difference(first: np.ndarray, second: np.ndarray) -> float:
    """Returns the absolute difference in BLEU."""
    return float(np.abs(metrics.bleu(first.sum(axis=0)) - metrics.bleu(second.sum(axis=0))))


def _middle_95(scores: np.ndarray) -> tuple[float, float]:
    """Returns the bounds of the middle 95 % of the scores."""
    ordered, cut = np.sort(scores), len(scores) // 40
    return round(float(ordered[cut]), 4), round(float(ordered[-cut - 1]), 4)


@functools.lru_cache(maxsize=2)
def _resample_counts(sentences: int) -> np.ndarray:
    """Returns (resamples, sentences): how often each resample contains each sentence."""
    rng = np.random.default_rng(SEED)
    drawn = rng.choice(sentences, size=(RESAMPLES, sentences), replace=True)
    places = (drawn + sentences * np.arange(RESAMPLES)[:, None]).ravel()
    counts = np.bincount(places, minlength=RESAMPLES * sentences)
    return counts.reshape(RESAMPLES, sentences).astype(np.float64)


@functools.lru_cache(maxsize=2)
def _random_swaps(sentences: int) -> np.ndarray:
    """Returns (trials, sentences): whether the outputs of the two systems are swapped."""
    rng = np.random.default_rng(SEED)
    return rng.integers(2, size=(TRIALS, sentences), dtype=bool)
