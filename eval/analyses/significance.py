"""Confidence intervals and significance tests: bootstrap and approximate randomisation.

The tests equal sacreBLEU's (its `significance` module, `sacrebleu --confidence`, `--paired-bs` and
`--paired-ar`), with the same resamples and numbers. Here all resamples are scored at once, and a
system's resamples serve all its comparisons: a report of 100 languages has a thousand.
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


@dataclasses.dataclass(frozen=True, eq=False)
class Judged:
    """One row of results with the counts of its sentences, see `metrics.Statistics`.

    chrf: None if only differences of BLEU are needed. hypotheses: hash of the texts.
    """

    row: Row
    bleu: np.ndarray
    chrf: np.ndarray | None
    hypotheses: str

    @functools.cached_property
    def bleus(self) -> np.ndarray:
        """Returns BLEU of every resample."""
        return metrics.bleu(_weights(self.row.sentences) @ self.bleu)

    @functools.cached_property
    def chrfs(self) -> np.ndarray:
        """Returns chrF++ of every resample."""
        if self.chrf is None:
            raise ValueError(f"no counts for the chrF++ of {self.row.system}")
        return metrics.chrf(_weights(self.row.sentences) @ self.chrf)


def interval(system: Judged) -> Interval:
    """Returns 95 % intervals of BLEU and chrF++ by bootstrap (Koehn, 2004).

    It sorts the scores of 1,000 resamples and omits 2.5 % at each end. `sacrebleu --confidence`
    prints half its width after the ±.
    """
    bleu, chrf = _middle(system.bleus), _middle(system.chrfs)
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

    delta, chrf_delta: differences of the rows' scores. delta_low, delta_high: the 95 % interval of
    ΔBLEU over paired resamples. p_bootstrap: paired bootstrap (Koehn, 2004). p_randomization:
    approximate randomisation (Riezler & Maxwell, 2005), 10,000 trials. Both p-values equal
    sacreBLEU's, except for two systems with equal counts: 1 here, 1/1001 there. Raises ValueError
    for rows of different sentences.
    """
    for name in ("testset", "source", "target", "sentences"):
        ours, theirs = getattr(system.row, name), getattr(against.row, name)
        if ours != theirs:
            raise ValueError(
                f"{system.row.system} has {name} {ours!r}, {against.row.system} has {theirs!r}: "
                f"these cannot be compared"
            )
    low, high = _middle(system.bleus - against.bleus)
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


def mean_difference(pairs: Sequence[tuple[Judged, Judged]]) -> dict[str, float]:
    """Returns the differences of BLEU and chrF++ of two systems, as means over languages.

    `bleu_low` to `bleu_high` and `chrf_low` to `chrf_high` are 95 % intervals by paired bootstrap
    over the sentences of each language.

    pairs: of each language, both systems on the same sentences.
    """
    made: dict[str, float] = {}
    for name in ("bleu", "chrf"):
        scores = [getattr(a.row, name) - getattr(b.row, name) for a, b in pairs]
        drawn = [getattr(a, f"{name}s") - getattr(b, f"{name}s") for a, b in pairs]
        low, high = _middle(np.mean(drawn, axis=0))
        mean = round(float(np.mean(scores)), 4)
        made |= {name: mean, f"{name}_low": low, f"{name}_high": high}
    return made


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
    ours, theirs = system.bleu, against.bleu
    differences = np.abs(system.bleus - against.bleus)
    seen = np.abs(metrics.bleu(ours.sum(axis=0)) - metrics.bleu(theirs.sum(axis=0)))
    return _p(differences - differences.mean(), seen, alike=np.array_equal(ours, theirs))


def _p_randomization(ours: np.ndarray, theirs: np.ndarray) -> float:
    swap, swapped = _swaps(len(ours)), []
    for start in range(0, TRIALS, _BLOCK):
        moved = swap[start : start + _BLOCK].astype(np.float64) @ (theirs - ours)
        pair = metrics.bleu(ours.sum(axis=0) + moved), metrics.bleu(theirs.sum(axis=0) - moved)
        swapped.append(np.abs(pair[0] - pair[1]))
    seen = np.abs(metrics.bleu(ours.sum(axis=0)) - metrics.bleu(theirs.sum(axis=0)))
    return _p(np.concatenate(swapped), seen, alike=np.array_equal(ours, theirs))


def _p(made: np.ndarray, seen: np.ndarray, *, alike: bool) -> float:
    """Returns the share of random differences above the observed one; equal ones do not count."""
    above = int((made > seen + 1e-9).sum())  # tolerance for rounding of equal scores
    return 1.0 if alike else (above + 1) / (len(made) + 1)


def _middle(scores: np.ndarray) -> tuple[float, float]:
    """Returns the ends of the middle 95 % of the scores."""
    ordered, cut = np.sort(scores), len(scores) // 40
    return round(float(ordered[cut]), 4), round(float(ordered[-cut - 1]), 4)


@functools.lru_cache(maxsize=2)
def _weights(sentences: int) -> np.ndarray:
    """Returns (resamples, sentences): how often each resample contains each sentence."""
    rng = np.random.default_rng(SEED)
    drawn = rng.choice(sentences, size=(RESAMPLES, sentences), replace=True)
    places = (drawn + sentences * np.arange(RESAMPLES)[:, None]).ravel()
    counts = np.bincount(places, minlength=RESAMPLES * sentences)
    return counts.reshape(RESAMPLES, sentences).astype(np.float64)


@functools.lru_cache(maxsize=2)
def _swaps(sentences: int) -> np.ndarray:
    """Returns (trials, sentences): whether the outputs of the two systems are swapped."""
    rng = np.random.default_rng(SEED)
    return rng.integers(2, size=(TRIALS, sentences), dtype=bool)
