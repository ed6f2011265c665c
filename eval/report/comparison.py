"""Rows of results side by side: by language, by group, against baselines, and their means.

This module only computes. caveats.py comments on the rows, figures/ and build.py present them.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Literal, get_args

from eval.records import results
from eval.records.results import Row
from mmt import languages, suggest
from mmt.languages import Language

# Options of the user: compare rows of several signatures or test-set versions, and include
# languages with few sentences in the means.
ALLOWED = ("signatures", "versions", "small")
SMALL = 100  # means exclude languages with fewer sentences
# High, mid and low resource as in M4 (Arivazhagan et al., 2019): 25, 52 and 25 of 102 languages.
RESOURCES = (("high", 25), ("mid", 52), ("low", 25))
METRICS = ("bleu", "chrf", "spbleu", "ter")
Score = Literal[
    "bleu", "chrf", "delta", "chrf_delta", "spbleu", "spbleu_delta", "ter", "ter_delta"
]
SCORES: tuple[Score, ...] = get_args(Score)


@dataclasses.dataclass(frozen=True)
class Entry:
    """One language: its row of each multilingual system, and of its baseline."""

    language: Language
    train_pairs: int
    rows: Mapping[str, Row]
    baseline: Row | None

    @property
    def sentences(self) -> int:
        """Returns the number of sentences scored; the minimum, if rows differ."""
        rows = [*self.rows.values(), *([self.baseline] if self.baseline else [])]
        return min(row.sentences for row in rows)

    def delta(self, system: str) -> float | None:
        """Returns BLEU of a multilingual system minus BLEU of the baseline, or None."""
        return self.value(system, "delta")

    def value(self, system: str, score: Score) -> float | None:
        """Returns a score of a multilingual system, or its difference to the baseline, or None.

        Lower is better for TER.
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
        """Returns a score of a multilingual system on each language with a row, in order."""
        return [value for e in self.entries if (value := e.value(system, score)) is not None]

    def chrf(self, system: str) -> float | None:
        """Returns mean chrF++ of a multilingual system over the languages with a row."""
        return _mean(self.values(system, "chrf"))

    def delta(self, system: str) -> float | None:
        """Returns the macro mean ΔBLEU over the languages with both rows."""
        return _mean(self.deltas(system))

    def deltas(self, system: str) -> list[float]:
        """Returns ΔBLEU of the languages with both rows, in order."""
        return self.values(system, "delta")

    def differences(self, system: str, other: str, score: Score = "bleu") -> list[float]:
        """Returns a score of a system minus that of another one, per language with both."""
        values = [(e.value(system, score), e.value(other, score)) for e in self.entries]
        return [ours - theirs for ours, theirs in values if ours is not None and theirs is not None]

    @property
    def baselines(self) -> tuple[Entry, ...]:
        """Returns the languages that have a baseline."""
        return tuple(e for e in self.entries if e.baseline)

    @property
    def baseline_bleus(self) -> list[float]:
        """Returns BLEU of the baselines, in order."""
        return [e.baseline.bleu for e in self.entries if e.baseline]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One test set into one target, or an ablation on it.

    An ablation compares systems called `NAME:VALUE` on the languages that all of them have.

    Attributes:
        testset, target: the test set, and its target language.
        systems: the multilingual systems, best first.
        entries: the languages, in descending order of training data.
        used: the rows that are compared, in file order.
        rows: all rows.
        allow: options of the user, of ALLOWED.
        name: NAME of an ablation, else "".
        references: systems outside an ablation that have all its languages.
        ablations: the ablations on this test set.
        palette: the systems of the whole report, in the order of their colours.
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
        """Returns whether means include a language: it has enough sentences, or `small` is allowed.
        """
        return "small" in self.allow or entry.sentences >= SMALL

    @functools.cached_property
    def all(self) -> Group:
        """Returns the languages that means include."""
        return Group("all", tuple(entry for entry in self.entries if self.counts(entry)))

    @functools.cached_property
    def compared(self) -> Group:
        """Returns the languages of `all` with both a multilingual row and a baseline."""
        return Group("all", tuple(e for e in self.all.entries if e.baseline and e.rows))

    @functools.cached_property
    def primary_system(self) -> str | None:
        """Returns the first of the systems that has a mean."""
        return next((system for system in self.systems if system in self._values), None)

    @functools.cached_property
    def best_first(self) -> tuple[str, ...]:
        """Returns the systems by mean ΔBLEU, or BLEU without baselines; those without one last.

        Systems with less than half as many languages as another one come after the others: the mean
        of a few easy languages is no result.
        """
        values = self._values
        most = max(map(len, values.values()), default=0)

        def rank(system: str) -> tuple[bool, float]:
            own = values.get(system, [])
            return 2 * len(own) < most, -fmean(own) if own else math.inf

        return tuple(sorted(self.systems, key=rank))

    @functools.cached_property
    def _values(self) -> Mapping[str, Sequence[float]]:
        """Returns ΔBLEU of each system that has any, or BLEU without baselines."""
        group = self.all if self.all.entries else Group("all", self.entries)
        score: Score = "delta" if any(e.baseline and e.rows for e in group.entries) else "bleu"
        return {s: values for s in self.systems if (values := group.values(s, score))}

    @functools.cached_property
    def scores(self) -> tuple[Score, ...]:
        """Returns the SCORES that a multilingual system has on a language that means include."""
        return tuple(s for s in SCORES if any(self.all.values(name, s) for name in self.systems))

    def by(self, key: Callable[[Language], str]) -> list[Group]:
        """Returns groups of languages with equal keys, the largest group first."""
        groups: dict[str, list[Entry]] = {}
        for entry in self.all.entries:
            groups.setdefault(key(entry.language), []).append(entry)
        ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
        return [Group(name, tuple(entries)) for name, entries in ordered]


def compare(rows: Sequence[Row], *, allow: Iterable[str] = ()) -> list[Comparison]:
    """Returns a comparison for every test set and target, in order of appearance.

    If rows differ only in checkpoint or decoding, the last one counts. If several bilingual systems
    have a language, the best one counts. Multilingual systems called `NAME:VALUE` form the ablation
    NAME. allow: of ALLOWED.

    Raises ValueError if compared rows differ in a signature, in the version of the test set or in
    its number of sentences, unless allowed. Raises it also for a system of both kinds, and for a
    multilingual system called `baseline`.
    """
    allowed = frozenset(allow)
    for name in sorted(allowed - set(ALLOWED)):
        hint = suggest.hint(name, ALLOWED, cutoff=0.0)
        raise ValueError(f"allow: {name!r}; allowed: {', '.join(ALLOWED)}{hint}")
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
    """Returns the group's languages as high, mid and low resource, in the ratio 25 : 52 : 25 of M4.

    102 languages -> 25, 52, 25; 108 -> 26, 56, 26; 7 -> 2, 3, 2; 1 -> 0, 1, 0.
    """
    total = len(group.entries)
    side = int(total * RESOURCES[0][1] / sum(share for _, share in RESOURCES) + 0.5)
    ends = (0, side, total - side, total)
    return [
        Group(name, group.entries[start:end])
        for (name, _), start, end in zip(RESOURCES, ends, ends[1:], strict=False)
    ]


def by_size(group: Group) -> list[Group]:
    """Returns the largest sixth of the group's languages, the middle, and the smallest third.

    152 languages -> "largest 25", "middle 77", "smallest 50".
    """
    total = len(group.entries)
    ends = (0, total // 6, total - total // 3, total)
    parts = zip(("largest", "middle", "smallest"), ends, ends[1:], strict=False)
    return [Group(f"{name} {end - start}", group.entries[start:end]) for name, start, end in parts]


def sliding(values: Sequence[float], window: int) -> list[Sequence[float]]:
    """Returns for every position the `window` values around it, fewer at both ends.

    >>> sliding([1, 3, 5], 2)
    [[1], [1, 3], [3, 5]]
    """
    before = window // 2
    return [
        values[max(0, index - before) : index + window - before] for index in range(len(values))
    ]


def _with_ablations(rows: Sequence[Row], allow: frozenset[str]) -> Comparison:
    """Returns the comparison, with systems called `NAME:VALUE` as its ablations."""
    apart: dict[str, list[Row]] = {}
    rows_of_all: list[Row] = []
    for row in rows:
        name, _, value = row.system.partition(":")
        varied = row.kind == "multilingual" and name and value
        (apart.setdefault(name, []) if varied else rows_of_all).append(row)
    ablations = tuple(
        _ablation(_compare([*part, *rows_of_all], allow), name, {row.system for row in part})
        for name, part in apart.items()
    )
    if not rows_of_all:
        first = ablations[0]
        return Comparison(first.testset, first.target, (), (), (), (), allow, ablations=ablations)
    return dataclasses.replace(_compare(rows_of_all, allow), ablations=ablations)


def _ablation(comparison: Comparison, name: str, varied: set[str]) -> Comparison:
    """Returns the comparison of the `varied` systems, over the languages that all of them have."""
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
    for code, rows_of_source in by_source.items():
        best = max(
            (r for r in rows_of_source if r.kind == "bilingual"), key=lambda r: r.bleu, default=None
        )
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
    """Raises ValueError unless signatures agree per test set, and versions per language."""
    firsts: dict[tuple[str, ...], Row] = {}
    checked_fields = [(f"{metric}_signature", "signatures") for metric in METRICS]
    checked_fields += [("sentences", "versions"), ("testset_version", "versions")]
    for row in rows:
        for name, permission in checked_fields:
            ours = getattr(row, name)
            if ours is None or permission in allow:
                continue
            about = (name, row.source) if permission == "versions" else (name,)
            first = firsts.setdefault(about, row)
            if ours != getattr(first, name):
                raise ValueError(
                    f"test set {row.testset!r}: {first.system} ({first.checkpoint}) on "
                    f"{first.source} has {name} {getattr(first, name)!r}, {row.system} "
                    f"({row.checkpoint}) on {row.source} has {ours!r}: these cannot be compared; "
                    f"evaluate both again, or allow mixed {permission} (--allow {permission})"
                )


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return fmean(listed) if listed else None
