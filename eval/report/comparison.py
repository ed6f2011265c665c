"""Rows of results side by side: by language, by group, against baselines, and their means.

Pure computation over rows; what to say about them is for notes.py, how it looks for figures.py and
report.py, and what else is known of them for evidence.py.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Literal, NamedTuple, get_args

import numpy as np

from eval.records import results
from eval.records.results import Row
from mmt import languages, suggest
from mmt.languages import Language

# What a reader may ask for: rows of several signatures or versions of a test set side by side, and
# languages with few sentences in the means.
ALLOWED = ("signatures", "versions", "small")
SMALL = 100  # a language with fewer sentences than this is left out of the means
# High, mid and low resource as in M4 (Arivazhagan et al., 2019): 25, 52 and 25 of 102 languages.
RESOURCES = (("high", 25), ("mid", 52), ("low", 25))
METRICS = ("bleu", "chrf", "spbleu", "ter")
RESAMPLES = 2000  # for the interval of a mean
FEWEST = 5  # values that an interval of their mean can be drawn from
Score = Literal[
    "bleu", "chrf", "delta", "chrf_delta", "spbleu", "spbleu_delta", "ter", "ter_delta"
]
SCORES: tuple[Score, ...] = get_args(Score)


class ConfidenceInterval(NamedTuple):
    """A 95 % interval."""

    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Entry:
    """One language: the row of every multilingual system that has it, and of its baseline."""

    language: Language
    train_pairs: int
    rows: Mapping[str, Row]
    baseline: Row | None

    @property
    def sentences(self) -> int:
        """How many were scored; the fewest, where rows differ and that was allowed."""
        both = [*self.rows.values(), *([self.baseline] if self.baseline else [])]
        return min(row.sentences for row in both)

    def delta(self, system: str) -> float | None:
        """BLEU of a multilingual system less that of the baseline; None where one is missing."""
        return self.value(system, "delta")

    def value(self, system: str, score: Score) -> float | None:
        """A score of a multilingual system, or by how much it differs from that of the baseline (of
        TER less is better); None where there is none.
        """
        name = "bleu" if score == "delta" else score.removesuffix("_delta")
        ours, base = getattr(self.rows.get(system), name, None), getattr(self.baseline, name, None)
        if name == score or ours is None:
            return ours
        return None if base is None else ours - base


@dataclasses.dataclass(frozen=True)
class Group:
    """Languages that are averaged together."""

    name: str
    entries: tuple[Entry, ...]

    def values(self, system: str, score: Score) -> list[float]:
        """A score of a multilingual system on each language that has it, in order."""
        return [value for e in self.entries if (value := e.value(system, score)) is not None]

    def chrf(self, system: str) -> float | None:
        """Mean chrF++ of a multilingual system over the languages that it has a row for."""
        return _mean(self.values(system, "chrf"))

    def delta(self, system: str) -> float | None:
        """Mean ΔBLEU over the languages that have both (macro: every language counts alike)."""
        return _mean(self.deltas(system))

    def deltas(self, system: str) -> list[float]:
        """ΔBLEU of the languages that have both, in order."""
        return self.values(system, "delta")

    def differences(self, system: str, other: str) -> list[float]:
        """BLEU of one multilingual system less that of another, where both have a row."""
        both = [e.rows for e in self.entries if system in e.rows and other in e.rows]
        return [rows[system].bleu - rows[other].bleu for rows in both]

    @property
    def baselines(self) -> tuple[Entry, ...]:
        """Its languages that have a baseline."""
        return tuple(e for e in self.entries if e.baseline)

    @property
    def baseline_bleus(self) -> list[float]:
        """BLEU of the baselines, in order."""
        return [e.baseline.bleu for e in self.entries if e.baseline]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One test set into one target: its languages from much to little training data.

    systems: the multilingual ones, the best first. palette: those of the whole report, in the order
    in which figures and tables give them colours. used: the rows that count, in their order;
    rows: all of them. allow: what the reader asked for, of ALLOWED. name: of an ablation (rows of
    systems called `NAME:VALUE`, over the languages that all of them have), else ""; references: the
    systems outside of an ablation that have all of its languages too.
    """

    testset: str
    target: Language
    systems: tuple[str, ...]
    entries: tuple[Entry, ...]
    used: tuple[Row, ...]
    rows: tuple[Row, ...]
    allow: frozenset[str] = frozenset()
    name: str = ""
    references: tuple[str, ...] = ()
    ablations: tuple["Comparison", ...] = ()
    palette: tuple[str, ...] = ()

    def counts(self, entry: Entry) -> bool:
        """Whether a language counts in means: it has sentences enough, or the reader allowed it."""
        return "small" in self.allow or entry.sentences >= SMALL

    @functools.cached_property
    def all(self) -> Group:
        """All languages that count in means."""
        return Group("all", tuple(entry for entry in self.entries if self.counts(entry)))

    @functools.cached_property
    def compared(self) -> Group:
        """Those of them with both a multilingual row and a baseline."""
        return Group("all", tuple(e for e in self.all.entries if e.baseline and e.rows))

    @functools.cached_property
    def primary_system(self) -> str | None:
        """The multilingual system with the highest mean ΔBLEU, or BLEU where there is none."""
        return next((system for system in self.systems if system in self._means), None)

    @functools.cached_property
    def best_first(self) -> tuple[str, ...]:
        """The systems by their mean ΔBLEU, or BLEU where there is none; those without one last."""
        means = self._means
        return tuple(sorted(self.systems, key=lambda system: -means.get(system, -math.inf)))

    @functools.cached_property
    def _means(self) -> Mapping[str, float]:
        group = self.all if self.all.entries else Group("all", self.entries)
        score: Score = "delta" if any(e.baseline and e.rows for e in group.entries) else "bleu"
        return {s: fmean(values) for s in self.systems if (values := group.values(s, score))}

    @functools.cached_property
    def scores(self) -> tuple[Score, ...]:
        """Those of SCORES that a multilingual system has on a language that counts in means."""
        return tuple(s for s in SCORES if any(self.all.values(name, s) for name in self.systems))

    def by(self, key: Callable[[Language], str]) -> list[Group]:
        """Groups of languages with an equal key, the largest group first."""
        groups: dict[str, list[Entry]] = {}
        for entry in self.all.entries:
            groups.setdefault(key(entry.language), []).append(entry)
        ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
        return [Group(name, tuple(entries)) for name, entries in ordered]


def compare(rows: Sequence[Row], *, allow: Iterable[str] = ()) -> list[Comparison]:
    """A comparison for every test set and target, in the order in which they appear.

    Of rows that differ only in checkpoint or decoding the last counts; of several bilingual systems
    on one language the best does. Multilingual systems called `NAME:VALUE` stand apart, as the
    ablation NAME. allow: of ALLOWED. Raises ValueError where two rows that would be compared differ
    in a signature or in the version of the test set (or its number of sentences), unless allowed,
    and for a system that is of both kinds, or multilingual and called `baseline`.
    """
    allowed = frozenset(allow)
    for name in sorted(allowed - set(ALLOWED)):
        near = suggest.hint(name, ALLOWED, cutoff=0.0)
        raise ValueError(f"allow: {name!r}; allowed: {', '.join(ALLOWED)}{near}")
    kinds: dict[str, str] = {}
    parts: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if kinds.setdefault(row.system, row.kind) != row.kind:
            raise ValueError(f"system {row.system!r} is both {kinds[row.system]} and {row.kind}")
        if row.kind == "multilingual":
            results.check_system(row.system)
        parts.setdefault((row.testset, row.target), []).append(row)
    comparisons = [_with_ablations(part, allowed) for part in parts.values()]
    palette = tuple(dict.fromkeys(system for part in comparisons for system in part.systems))
    return [dataclasses.replace(part, palette=palette) for part in comparisons]


def by_resource(group: Group) -> list[Group]:
    """The group's languages as high, mid and low resource, in the shares 25 : 52 : 25 of M4.

    102 languages -> 25, 52, 25; 108 -> 26, 56, 26; 7 -> 2, 3, 2; a lone one is mid.
    """
    total = len(group.entries)
    side = int(total * RESOURCES[0][1] / sum(share for _, share in RESOURCES) + 0.5)
    ends = (0, side, total - side, total)
    return [
        Group(name, group.entries[start:end])
        for (name, _), start, end in zip(RESOURCES, ends, ends[1:], strict=False)
    ]


def sliding(values: Sequence[float], window: int = 10) -> list[Sequence[float]]:
    """For every place the `window` values around it, fewer at both ends.

    window 2: [1, 3, 5] -> [1], [1, 3], [3, 5].
    """
    left = window // 2
    return [
        values[max(0, index - left) : index + window - left] for index in range(len(values))
    ]


def sliding_mean(values: Sequence[float], window: int = 10) -> list[float]:
    """The mean of the `window` values around each one, of fewer at both ends.

    window 2: [1, 3, 5] -> [1, 2, 4].
    """
    return [fmean(around) for around in sliding(values, window)]


def mean_interval(values: Sequence[float]) -> ConfidenceInterval | None:
    """The 95 % interval of a mean over languages; see `interval`."""
    return interval(np.asarray(values, np.float64), lambda drawn: drawn.mean(axis=1))


def interval(
    values: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
) -> ConfidenceInterval | None:
    """The 95 % interval of a score of many languages, by bootstrap: the languages drawn anew.

    It says how far the score would move with other languages of the same kind; percentiles of 2000
    scores with a fixed seed. values: (languages, ...). score: from (RESAMPLES, languages, ...) to
    (RESAMPLES,). None for fewer than FEWEST languages, which drawn anew hardly vary.
    """
    if len(values) < FEWEST:
        return None
    drawn = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(score(values[drawn]), (0.025, 0.975))
    return ConfidenceInterval(float(low), float(high))


def _with_ablations(rows: Sequence[Row], allow: frozenset[str]) -> Comparison:
    """Systems called `NAME:VALUE` apart from the others, which each of these parts meets too."""
    apart: dict[str, list[Row]] = {}
    whole: list[Row] = []
    for row in rows:
        name, _, value = row.system.partition(":")
        varied = row.kind == "multilingual" and name and value
        (apart.setdefault(name, []) if varied else whole).append(row)
    ablations = tuple(
        _ablation(_compare([*part, *whole], allow), name, {row.system for row in part})
        for name, part in apart.items()
    )
    if not whole:
        first = ablations[0]
        return Comparison(first.testset, first.target, (), (), (), (), allow, ablations=ablations)
    return dataclasses.replace(_compare(whole, allow), ablations=ablations)


def _ablation(comparison: Comparison, name: str, varied: set[str]) -> Comparison:
    """The same of the `varied` systems, over the languages that all of them have."""
    shared = tuple(e for e in comparison.entries if varied <= set(e.rows))
    return dataclasses.replace(
        comparison,
        name=name,
        entries=shared,
        systems=tuple(dict.fromkeys(r.system for r in comparison.rows if r.system in varied)),
        used=tuple(row for row in comparison.used if row.system in varied),
        rows=tuple(row for row in comparison.rows if row.system in varied),
        references=tuple(
            s for s in comparison.systems
            if s not in varied and shared and all(s in entry.rows for entry in shared)
        ),
    )  # fmt: skip


def _compare(rows: Sequence[Row], allow: frozenset[str]) -> Comparison:
    newest: dict[tuple[str, str], Row] = {}
    for row in rows:
        newest.pop((row.system, row.source), None)
        newest[row.system, row.source] = row
    used = tuple(newest.values())
    _check_comparable(used, allow)
    systems = tuple(dict.fromkeys(row.system for row in rows if row.kind == "multilingual"))
    entries = []
    by_source: dict[str, list[Row]] = {}
    for row in used:
        by_source.setdefault(row.source, []).append(row)
    for code, here in by_source.items():
        best = max((r for r in here if r.kind == "bilingual"), key=lambda r: r.bleu, default=None)
        of_systems = {
            system: newest[system, code] for system in systems if (system, code) in newest
        }
        first = next(iter(of_systems.values()), best)
        assert first is not None
        entries.append(Entry(languages.find(code), first.train_pairs, of_systems, best))
    entries.sort(key=lambda entry: (-entry.train_pairs, entry.language.code))
    target = languages.find(rows[0].target)
    comparison = Comparison(
        rows[0].testset, target, systems, tuple(entries), used, tuple(rows), allow
    )
    return dataclasses.replace(comparison, systems=comparison.best_first)


def _check_comparable(rows: Sequence[Row], allow: frozenset[str]) -> None:
    """All rows of one test set have one signature; those of one language one version of it."""
    firsts: dict[tuple[str, ...], Row] = {}
    asked = [(f"{metric}_signature", "signatures") for metric in METRICS]
    asked += [("sentences", "versions"), ("testset_version", "versions")]
    for row in rows:
        for name, what in asked:
            ours = getattr(row, name)
            if ours is None or what in allow:
                continue
            about = (name, row.source) if what == "versions" else (name,)
            first = firsts.setdefault(about, row)
            if ours != getattr(first, name):
                raise ValueError(
                    f"test set {row.testset!r}: {first.system} ({first.checkpoint}) on "
                    f"{first.source} has {name} {getattr(first, name)!r}, {row.system} "
                    f"({row.checkpoint}) on {row.source} has {ours!r}: these cannot be compared; "
                    f"evaluate both again, or have {what} mixed (--allow {what})"
                )


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return fmean(listed) if listed else None
