"""The scores of two runs by language: differences, paired tests, and the languages each run wins.

The tests are those of `analyses.significance`. Their p-values are corrected for the number of
languages by Benjamini and Hochberg (1995), so that at most 5 % of the differences that are called
significant are expected to be false. A Bonferroni correction would find nothing among more than 50
languages, because the smallest p-value of 1,000 resamples is 1/1001.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eval import metrics
from eval.analyses import significance
from eval.analyses.mean_interval import ConfidenceInterval, mean_interval
from eval.analyses.significance import Judged
from eval.compare.compared_run import ComparedRun
from eval.records.analysis import Paired, SentenceCounts
from eval.records.analysis_index import SURE
from eval.records.results import Row, several_origins
from mmt.system.progress import track

WON = 5  # languages that are named where a run wins most
_NEAR = 1e-3  # BLEU: between a row's score and that of its counts


@dataclass(frozen=True)
class LanguageDifference:
    """The scores of a language in both runs; differences are those of `other` to `first`.

    bleu, chrf: (first, other). low, high: 95 % interval of ΔBLEU. p: the greater p-value of paired
    bootstrap and approximate randomisation; q: the same, corrected for the number of languages.
    These are None without sentence counts of both runs.
    """

    source: str
    target: str
    sentences: int
    bleu: tuple[float, float]
    chrf: tuple[float, float]
    low: float | None = None
    high: float | None = None
    p: float | None = None
    q: float | None = None

    @property
    def delta(self) -> float:
        """Returns the difference in BLEU."""
        return self.bleu[1] - self.bleu[0]

    @property
    def chrf_delta(self) -> float:
        """Returns the difference in chrF++."""
        return self.chrf[1] - self.chrf[0]

    @property
    def verdict(self) -> str:
        """Returns `better`, `worse`, `tie` (not significant) or `untested`."""
        if self.q is None:
            return "untested"
        if self.q >= SURE or not self.delta:
            return "tie"
        return "better" if self.delta > 0 else "worse"


@dataclass(frozen=True)
class LeftOut:
    """Languages of a test set that are not compared, and why."""

    reason: str
    languages: tuple[str, ...]


@dataclass(frozen=True)
class ScoreComparison:
    """Two runs on one test set with one decoding. languages: from the most gained BLEU down.

    only: the run that alone was trained on these languages; "" for languages of both. notes: runs
    whose rows have several checkpoints, configs or weights.
    """

    testset: str
    decode: str
    first: str
    other: str
    languages: tuple[LanguageDifference, ...]
    only: str = ""
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Returns the test set, and which run alone was trained on the languages."""
        return f"{self.testset}, languages only of {self.only}" if self.only else self.testset

    def count(self, verdict: str) -> int:
        """Returns the number of languages with this verdict."""
        return sum(language.verdict == verdict for language in self.languages)

    def most(self, sign: int) -> list[LanguageDifference]:
        """Returns the languages where `other` wins most BLEU (sign 1), or `first` does (-1)."""
        ordered = sorted(self.languages, key=lambda language: -sign * language.delta)
        return [language for language in ordered if sign * language.delta > 0][:WON]

    def mean(self, score: str) -> float:
        """Returns the mean over languages of `delta` or `chrf_delta`."""
        return sum(getattr(language, score) for language in self.languages) / len(self.languages)

    @property
    def interval(self) -> ConfidenceInterval | None:
        """Returns the 95 % interval of the mean of `delta`; None for few languages."""
        return mean_interval([language.delta for language in self.languages])


@dataclass(frozen=True)
class RunPair:
    """All comparisons of two runs, and what is left out by test set."""

    first: str
    other: str
    comparisons: tuple[ScoreComparison, ...]
    left_out: dict[str, tuple[LeftOut, ...]]


class _LanguageKey(NamedTuple):
    testset: str
    source: str
    target: str


def compare(first: ComparedRun, other: ComparedRun) -> RunPair:
    """Returns the scores of two runs, of rows that may be compared.

    These have the same test set and its version, number of sentences, decoding and signatures, and,
    where known, the same references. Of several checkpoints, the last row of the file counts.
    Languages that only one run was trained on are compared separately.
    """
    first_rows, other_rows = _rows_by_language(first), _rows_by_language(other)
    pairs: dict[tuple[str, str, str], list[tuple[Row, Row]]] = {}
    left_out: dict[str, dict[str, list[str]]] = {}
    for key in dict.fromkeys([*first_rows, *other_rows]):
        of_first, of_other = first_rows.get(key, {}), other_rows.get(key, {})
        for decode in dict.fromkeys([*of_first, *of_other]):
            pair = of_first.get(decode), of_other.get(decode)
            if (
                pair[0]
                and pair[1]
                and not (reason := _reason_not_comparable(first, other, pair[0], pair[1]))
            ):
                group = key.testset, decode, _only_trained_by(first, other, key)
                pairs.setdefault(group, []).append((pair[0], pair[1]))
                continue
            if not (pair[0] and pair[1]):
                reason = _reason_of_missing_row(first, other, of_first, of_other, decode)
            left_out.setdefault(key.testset, {}).setdefault(reason, []).append(_language_pair(key))
    comparisons = [
        _compare_rows(first, other, *group, rows)
        for group, rows in sorted(pairs.items(), key=lambda item: bool(item[0][2]))
    ]
    return RunPair(
        first.name, other.name, tuple(comparisons),
        {
            testset: tuple(LeftOut(reason, tuple(names)) for reason, names in reasons.items())
            for testset, reasons in left_out.items()
        },
    )  # fmt: skip


def _rows_by_language(run: ComparedRun) -> dict[_LanguageKey, dict[str, Row]]:
    """Returns the last row of each language and decoding."""
    rows: dict[_LanguageKey, dict[str, Row]] = {}
    for row in run.scores.rows:
        rows.setdefault(_LanguageKey(row.testset, row.source, row.target), {})[row.decode] = row
    return rows


def _language_pair(key: _LanguageKey) -> str:
    return f"{key.source}-{key.target}"


def _only_trained_by(first: ComparedRun, other: ComparedRun, key: _LanguageKey) -> str:
    """Returns the name of the run that alone has pairs of a language; "" if that is not known."""
    counts = [run.manifest and run.manifest.counts.get("train") for run in (first, other)]
    if not all(counts):
        return ""
    has = [any(by.get(code) for code in (key.source, key.target)) for by in counts if by]
    return "" if has[0] == has[1] else (first, other)[has.index(True)].name


def _reason_of_missing_row(
    first: ComparedRun,
    other: ComparedRun,
    of_first: dict[str, Row],
    of_other: dict[str, Row],
    decode: str,
) -> str:
    """Returns why a row has no partner."""
    owner, lacking = (first, other) if decode in of_first else (other, first)
    if of_first and of_other:
        return f"only {owner.name} has decoding {decode}"
    return f"{lacking.name} has no row"


def _reason_not_comparable(
    first: ComparedRun, other: ComparedRun, first_row: Row, other_row: Row
) -> str:
    """Returns why two rows of one language and decoding cannot be compared, or ''."""
    references = [
        counts.references if (counts := run.scores.counts.get(row.key)) else ""
        for run, row in ((first, first_row), (other, other_row))
    ]
    both_known = all(references)
    versions = (first_row.testset_version, other_row.testset_version)
    if versions[0] != versions[1] and (None not in versions or not both_known):
        return f"other version of the test set: {versions[0] or '?'} and {versions[1] or '?'}"
    if first_row.sentences != other_row.sentences:
        return f"other number of sentences: {first_row.sentences:,} and {other_row.sentences:,}"
    if both_known and references[0] != references[1]:
        return "other references"
    for name in ("bleu_signature", "chrf_signature"):
        if getattr(first_row, name) != getattr(other_row, name):
            return f"other {name}: {getattr(first_row, name)} and {getattr(other_row, name)}"
    return ""


def _compare_rows(
    first: ComparedRun, other: ComparedRun, testset: str, decode: str, only: str,
    rows: Sequence[tuple[Row, Row]],
) -> ScoreComparison:  # fmt: skip
    tests = list(_tests(first, other, testset, rows))
    computed = [test for test in tests if test]
    ps = [max(test.p_bootstrap, test.p_randomization) for test in computed]
    qs = iter(significance.corrected(ps))
    languages = [
        LanguageDifference(
            first_row.source, first_row.target, first_row.sentences,
            (first_row.bleu, other_row.bleu), (first_row.chrf, other_row.chrf),
            **({} if test is None else _fields(test, next(qs))),
        )
        for (first_row, other_row), test in zip(rows, tests, strict=True)
    ]  # fmt: skip
    languages.sort(key=lambda language: (-language.delta, language.source, language.target))
    notes = (
        f"The rows of {run.name} on {testset}, {decode}, have more than one {origin}"
        for run, of_run in zip((first, other), zip(*rows, strict=True), strict=True)
        for origin in several_origins(of_run)
    )
    return ScoreComparison(
        testset, decode, first.name, other.name, tuple(languages), only, tuple(notes)
    )


def _fields(test: Paired, q: float) -> dict[str, float]:
    p = max(test.p_bootstrap, test.p_randomization)
    return {"low": test.delta_low, "high": test.delta_high, "p": p, "q": float(q)}


def _tests(
    first: ComparedRun, other: ComparedRun, testset: str, rows: Sequence[tuple[Row, Row]]
) -> Iterator[Paired | None]:
    """Yields the test of each pair of rows, of `other` against `first`; None without counts."""
    label = f"paired tests on {testset}"
    for first_row, other_row in track(list(rows), label, disable=None, transient=True):
        counts = first.scores.counts.get(first_row.key), other.scores.counts.get(other_row.key)
        if not (counts[0] and counts[1]):
            yield None
            continue
        stored = other.scores.paired.get((*other_row.key, first_row.system, first_row.checkpoint))
        hashes = counts[1].hypotheses, counts[0].hypotheses
        current = stored and (stored.hypotheses, stored.against_hypotheses) == hashes
        if stored and current and abs(stored.delta - (other_row.bleu - first_row.bleu)) <= _NEAR:
            yield stored
            continue
        judged = _judged(first_row, counts[0]), _judged(other_row, counts[1])
        yield significance.paired(judged[1], judged[0]) if judged[0] and judged[1] else None


def _judged(row: Row, counts: SentenceCounts) -> Judged | None:
    """Returns the row with its counts, or None if they are of other texts."""
    unpacked = metrics.unpacked(counts.packed, counts.sentences)
    has_all_sentences = len(unpacked) == row.sentences
    has_same_bleu = abs(float(metrics.bleu(unpacked.sum(axis=0))) - row.bleu) <= _NEAR
    if not (has_all_sentences and has_same_bleu):
        return None
    return Judged(unpacked, None, row, counts.hypotheses)
