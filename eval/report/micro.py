"""Micro means: BLEU of the sentences of all languages as one corpus, from n-gram counts.

In a macro mean (comparison.py) every language has the same weight. In a micro mean every n-gram
has: languages with long outputs weigh more, even if the outputs are too long. Only BLEU's counts
are stored.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from eval import metrics
from eval.analyses.mean_interval import ConfidenceInterval, interval
from eval.records.analysis_index import AnalysisIndex
from eval.records.results import Row
from eval.report.comparison import Group


class Micro(NamedTuple):
    """A micro mean and its 95 % interval over the languages."""

    value: float
    range: ConfidenceInterval | None


def bleu(group: Group, system: str, analyses: AnalysisIndex) -> Micro | None:
    """Returns BLEU of a multilingual system over the languages with a row.

    This function and the other ones return None if the counts of a row are missing.
    """
    return _pooled([[e.rows[system]] for e in group.entries if system in e.rows], analyses)


def baseline_bleu(group: Group, system: str, analyses: AnalysisIndex) -> Micro | None:
    """Returns BLEU of the baselines of the system's languages."""
    return _pooled([[baseline] for _, baseline in _both(group, system)], analyses)


def delta(group: Group, system: str, analyses: AnalysisIndex) -> Micro | None:
    """Returns BLEU of a multilingual system minus that of the baselines, on languages with both."""
    return _pooled(_both(group, system), analyses)


def _both(group: Group, system: str) -> list[tuple[Row, Row]]:
    return [(e.rows[system], e.baseline) for e in group.entries if system in e.rows and e.baseline]


def _pooled(rows: Sequence[Sequence[Row]], analyses: AnalysisIndex) -> Micro | None:
    """Returns BLEU of one row per language, or of two rows the difference."""
    sums = [[analyses.sums(row) for row in of_language] for of_language in rows]
    if not sums or any(row_sums is None for of_language in sums for row_sums in of_language):
        return None
    counts = np.array(sums)  # (languages, 1 or 2, 10)

    def score(drawn: np.ndarray) -> np.ndarray:
        ours, *theirs = np.moveaxis(metrics.bleu(drawn.sum(axis=-3)), -1, 0)
        return ours - sum(theirs)

    return Micro(float(score(counts)), interval(counts, score))
