"""How sure a score and a difference of two are: bootstrap and approximate randomisation.

The tests are sacreBLEU's (its `significance` module, and `sacrebleu --confidence`, `--paired-bs`,
`--paired-ar`): same resamples, same numbers. Here all resamples are scored at once, and those of a
system serve all its comparisons, since a report of 100 languages makes a thousand.
"""

import dataclasses
import functools
from typing import Any

import numpy as np

from eval import metrics
from eval.records.analysis import Interval, Paired
from eval.records.results import KEY, Row

RESAMPLES = 1000  # of the bootstrap
TRIALS = 10_000  # of approximate randomisation
SEED = 12345
_BLOCK = 1000  # trials at a time, to stay small


@dataclasses.dataclass(frozen=True, eq=False)
class Judged:
    """One row of results, and its sentences as `metrics.Statistics` counts them.

    chrf: None where only differences of BLEU are asked for. hypotheses: hash of the texts.
    """

    row: Row
    bleu: np.ndarray
    chrf: np.ndarray | None
    hypotheses: str

    @functools.cached_property
    def bleus(self) -> np.ndarray:
        """BLEU of every resample."""
        return metrics.bleu(_weights(self.row.sentences) @ self.bleu)

    @functools.cached_property
    def chrfs(self) -> np.ndarray:
        """chrF++ of every resample."""
        if self.chrf is None:
            raise ValueError(f"no counts for the chrF++ of {self.row.system}")
        return metrics.chrf(_weights(self.row.sentences) @ self.chrf)


def interval(system: Judged) -> Interval:
    """95 % intervals of BLEU and chrF++ by bootstrap (Koehn, 2004).

    Of the sorted scores of 1,000 resamples of the sentences, those that leave out 2.5 % at each
    end. Half the width is what `sacrebleu --confidence` prints behind the ±.
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
    """A system less another one on the same sentences.

    delta, chrf_delta: differences of the rows' scores. delta_low, delta_high: the 95 % interval of
    ΔBLEU over resamples that are the same for both. p_bootstrap (Koehn, 2004) and p_randomization
    (Riezler & Maxwell, 2005; 10,000 trials): how often chance alone makes so large a difference, as
    sacreBLEU has it, but 1 for two systems whose sentences count alike, where it has 1/1001.
    Raises ValueError for rows that are not of the same sentences.
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


def mirrored(row: Paired, system: Row, against: Row) -> Paired:
    """The row of `paired(against, system)`, from that of `paired(system, against)`."""
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
    """The fields that an analysis row shares with the row of results that it is about."""
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
    """The share of differences made by chance above the one seen; equal ones do not count."""
    above = int((made > seen + 1e-9).sum())  # by less two equal scores may differ in rounding
    return 1.0 if alike else (above + 1) / (len(made) + 1)


def _middle(scores: np.ndarray) -> tuple[float, float]:
    """Where the middle 95 % of the scores begin and end."""
    ordered, cut = np.sort(scores), len(scores) // 40
    return round(float(ordered[cut]), 4), round(float(ordered[-cut - 1]), 4)


@functools.lru_cache(maxsize=2)
def _weights(sentences: int) -> np.ndarray:
    """(resamples, sentences): how often each sentence is in each resample."""
    rng = np.random.default_rng(SEED)
    drawn = rng.choice(sentences, size=(RESAMPLES, sentences), replace=True)
    places = (drawn + sentences * np.arange(RESAMPLES)[:, None]).ravel()
    counts = np.bincount(places, minlength=RESAMPLES * sentences)
    return counts.reshape(RESAMPLES, sentences).astype(np.float64)


@functools.lru_cache(maxsize=2)
def _swaps(sentences: int) -> np.ndarray:
    """(trials, sentences): whether the two systems' outputs change places."""
    rng = np.random.default_rng(SEED)
    return rng.integers(2, size=(TRIALS, sentences), dtype=bool)
