"""The target side of the training data: does a system translate or recite it?

If many languages share their target lines, as in a Bible, a decoder can memorise them.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from eval import metrics
from eval.analyses.significance import Judged, key_of
from eval.records.analysis import Bin, TrainOverlap
from mmt.translate.line_checks import normalised

EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_ORDER = 4


class TrainingTargets:
    """The target lines of a training corpus, and their 4-grams of words.

    Case, punctuation and spaces are ignored. 100,000 distinct lines of 25 words take about 250 MB.

    >>> training = TrainingTargets(["In the beginning was the Word,"])
    >>> "in the beginning was the word" in training
    True
    >>> training.overlap("In the beginning was a king")  # of three 4-grams one
    0.3333333333333333
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines: set[int] = set()
        self._ngrams: set[int] = set()
        for line in lines:
            words = normalised(line)
            if hash(words) not in self._lines:
                self._lines.add(hash(words))
                self._ngrams.update(_ngrams(words))

    def __contains__(self, line: str) -> bool:
        return hash(normalised(line)) in self._lines

    def overlap(self, line: str) -> float | None:
        """Returns the share (0 to 1) of the line's 4-grams in training; None for under 4 words."""
        ngrams = list(_ngrams(normalised(line)))
        return sum(ngram in self._ngrams for ngram in ngrams) / len(ngrams) if ngrams else None


def measure(system: Judged, references: Sequence[str], training: TrainingTargets) -> TrainOverlap:
    """Returns BLEU in five bins, by the overlap of references with `training`.

    BLEU that is high only at high overlap suggests recitation. Bins exclude lines of under 4 words.
    """
    shares = np.array([training.overlap(line) for line in references], dtype=float)  # None -> NaN
    places = np.where(np.isnan(shares), -1, np.searchsorted(EDGES[1:-1], shares, side="right"))
    bins = []
    for bin_index, (low, high) in enumerate(zip(EDGES, EDGES[1:], strict=False)):
        in_bin = places == bin_index
        bleu = float(metrics.bleu(system.bleu[in_bin].sum(axis=0)))
        count = int(in_bin.sum())
        bins.append(
            Bin(low=low, high=high, sentences=count, bleu=round(bleu, 4) if count else None)
        )
    return TrainOverlap(**key_of(system.row), bins=tuple(bins), hypotheses=system.hypotheses)


def _ngrams(words: tuple[str, ...]) -> Iterator[int]:
    return (hash(words[i : i + _ORDER]) for i in range(len(words) - _ORDER + 1))
