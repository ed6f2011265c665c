"""Two systems on the same cases: exact McNemar tests by language and by behaviour.

Only cases count that one system passes and the other fails. If the systems were equally good, each
would win half of them: the p-value is that of a binomial test. p-values are corrected for the
number of languages, or of behaviours, by Benjamini and Hochberg.
"""

import dataclasses
from collections.abc import Callable, Sequence

from eval.analyses import significance
from eval.behave.suite import JudgedCase
from eval.records.analysis_index import SURE


@dataclasses.dataclass(frozen=True)
class GroupDifference:
    """Two systems on the cases of one language or behaviour.

    passed: of the first and of the other system. only: cases that only the first, or only the other
    passes. p: of McNemar's exact test; q: p, corrected.
    """

    name: str
    cases: int
    passed: tuple[int, int]
    only: tuple[int, int]
    p: float
    q: float

    @property
    def verdict(self) -> str:
        """Returns `better` or `worse` for the other system where q < 0.05, else `tie`."""
        if self.q >= SURE:
            return "tie"
        return "better" if self.only[1] > self.only[0] else "worse"


@dataclasses.dataclass(frozen=True)
class BehaviourDifference:
    """The comparison of two systems. left_out: cases that only one of them has."""

    behaviours: tuple[GroupDifference, ...]
    languages: tuple[GroupDifference, ...]
    left_out: int


def compare(first: Sequence[JudgedCase], other: Sequence[JudgedCase]) -> BehaviourDifference:
    """Returns the comparison of two systems on the cases that both have."""
    first_cases, other_cases = (
        {(case.language, case.behaviour, case.source): case for case in judged}
        for judged in (first, other)
    )
    pairs = [(first_cases[key], other_cases[key]) for key in first_cases if key in other_cases]
    return BehaviourDifference(
        _by(pairs, lambda case: case.behaviour),
        _by(pairs, lambda case: case.language),
        len(first_cases.keys() ^ other_cases.keys()),
    )


def _by(
    pairs: Sequence[tuple[JudgedCase, JudgedCase]], group: Callable[[JudgedCase], str]
) -> tuple[GroupDifference, ...]:
    names = dict.fromkeys(group(first) for first, _ in pairs)
    counted = []
    for name in names:
        passed = [(not first.fault, not other.fault)
                  for first, other in pairs if group(first) == name]  # fmt: skip
        passed_by = sum(a for a, _ in passed), sum(b for _, b in passed)
        only = sum(a > b for a, b in passed), sum(b > a for a, b in passed)
        counted.append((name, len(passed), passed_by, only, significance.mcnemar(*only)))
    qs = significance.corrected([p for *_, p in counted])
    return tuple(GroupDifference(*row, q) for row, q in zip(counted, qs, strict=True))
