"""Rows of results side by side: by language, by group, against baselines, and what is missing.

Pure computation over rows; how it looks is for figures.py and report.py.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from eval.results import Row
from mmt import languages
from mmt.languages import Language

THIRDS = ("high", "mid", "low")


class Note(NamedTuple):
    """What a reader must know before trusting the numbers, and the languages that it is about."""

    text: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.text}: {', '.join(self.names)}." if self.names else f"{self.text}."


@dataclasses.dataclass(frozen=True)
class Entry:
    """One language: the row of every multilingual system that has it, and of its baseline."""

    language: Language
    train_pairs: int
    rows: Mapping[str, Row]
    baseline: Row | None

    def delta(self, system: str) -> float | None:
        """BLEU of a multilingual system less that of the baseline; None where one is missing."""
        if system not in self.rows or self.baseline is None:
            return None
        return self.rows[system].bleu - self.baseline.bleu


@dataclasses.dataclass(frozen=True)
class Group:
    """Languages that are averaged together."""

    name: str
    entries: tuple[Entry, ...]

    def bleu(self, system: str) -> float | None:
        """Mean BLEU of a multilingual system over the languages that it has a row for."""
        return _mean(e.rows[system].bleu for e in self.entries if system in e.rows)

    def chrf(self, system: str) -> float | None:
        """The same for chrF++."""
        return _mean(e.rows[system].chrf for e in self.entries if system in e.rows)

    def delta(self, system: str) -> float | None:
        """Mean ΔBLEU over the languages that have both."""
        return _mean(self.deltas(system))

    def deltas(self, system: str) -> list[float]:
        """ΔBLEU of the languages that have both, in order."""
        return [delta for e in self.entries if (delta := e.delta(system)) is not None]

    @property
    def baselines(self) -> tuple[Entry, ...]:
        """Its languages that have a baseline."""
        return tuple(e for e in self.entries if e.baseline)

    @property
    def baseline_bleu(self) -> float | None:
        """Mean BLEU of the baselines."""
        return _mean(e.baseline.bleu for e in self.entries if e.baseline)

    @property
    def baseline_chrf(self) -> float | None:
        """The same for chrF++."""
        return _mean(e.baseline.chrf for e in self.entries if e.baseline)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One test set into one target: its languages from much to little training data.

    systems: the multilingual ones, in the rows' order. used: the rows that count, in their order.
    notes: what is missing or uneven.
    """

    testset: str
    target: Language
    systems: tuple[str, ...]
    entries: tuple[Entry, ...]
    used: tuple[Row, ...]
    notes: tuple[Note, ...]

    @property
    def all(self) -> Group:
        """All languages."""
        return Group("all", self.entries)

    @property
    def compared(self) -> Group:
        """The languages with both a multilingual row and a baseline."""
        both = tuple(e for e in self.entries if e.baseline and e.rows)
        return Group("all", both)

    def by(self, key: Callable[[Language], str]) -> list[Group]:
        """Groups of languages with an equal key, the largest group first."""
        groups: dict[str, list[Entry]] = {}
        for entry in self.entries:
            groups.setdefault(key(entry.language), []).append(entry)
        ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
        return [Group(name, tuple(entries)) for name, entries in ordered]


def compare(rows: Sequence[Row]) -> list[Comparison]:
    """A comparison for every test set and target, in the order in which they appear.

    Of rows that differ only in checkpoint or decoding the last counts; of several bilingual systems
    on one language the best does. Raises ValueError where two rows that would be compared differ in
    a signature or in the number of sentences, and for a system that is of both kinds.
    """
    kinds: dict[str, str] = {}
    parts: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if kinds.setdefault(row.system, row.kind) != row.kind:
            raise ValueError(f"system {row.system!r} is both {kinds[row.system]} and {row.kind}")
        parts.setdefault((row.testset, row.target), []).append(row)
    return [_compare(part) for part in parts.values()]


def thirds(group: Group) -> list[Group]:
    """The group's languages in three of nearly equal number, high to low in training data.

    14 languages -> 5, 5, 4.
    """
    size, rest = divmod(len(group.entries), 3)
    ends = [0]
    for index in range(3):
        ends.append(ends[-1] + size + (index < rest))
    return [
        Group(name, group.entries[start:end])
        for name, start, end in zip(THIRDS, ends, ends[1:], strict=False)
    ]


def sliding_mean(values: Sequence[float], window: int = 10) -> list[float]:
    """The mean of the `window` values around each one, of fewer at both ends.

    window 2: [1, 3, 5] -> [1, 2, 4].
    """
    left = window // 2
    return [
        fmean(values[max(0, index - left) : index + window - left]) for index in range(len(values))
    ]


def _compare(rows: Sequence[Row]) -> Comparison:
    newest: dict[tuple[str, str], Row] = {}
    for row in rows:
        newest.pop((row.system, row.source), None)
        newest[row.system, row.source] = row
    used = tuple(newest.values())
    systems = tuple(dict.fromkeys(row.system for row in rows if row.kind == "multilingual"))
    entries = []
    for code in dict.fromkeys(row.source for row in used):
        here = [row for row in used if row.source == code]
        _check_comparable(here)
        best = max((r for r in here if r.kind == "bilingual"), key=lambda r: r.bleu, default=None)
        of_systems = {
            system: newest[system, code] for system in systems if (system, code) in newest
        }
        first = next(iter(of_systems.values()), best)
        assert first is not None
        entries.append(Entry(languages.find(code), first.train_pairs, of_systems, best))
    entries.sort(key=lambda entry: (-entry.train_pairs, entry.language.code))
    target = languages.find(rows[0].target)
    return Comparison(
        rows[0].testset, target, systems, tuple(entries), used, _notes(rows, systems, entries)
    )


def _check_comparable(rows: Sequence[Row]) -> None:
    """Rows of one language of one test set can stand side by side."""
    first = rows[0]
    for row in rows[1:]:
        for name in ("bleu_signature", "chrf_signature", "sentences"):
            ours, theirs = getattr(first, name), getattr(row, name)
            if ours != theirs:
                raise ValueError(
                    f"{row.source} of test set {row.testset!r}: {first.system} ({first.checkpoint})"
                    f" has {name} {ours!r}, {row.system} ({row.checkpoint}) has {theirs!r}: these "
                    f"cannot be compared; evaluate both again"
                )


def _notes(
    rows: Sequence[Row], systems: Sequence[str], entries: Sequence[Entry]
) -> tuple[Note, ...]:
    notes = []
    if not systems:
        notes.append(Note("There is no row of a multilingual system"))
    bare = [entry for entry in entries if entry.baseline is None]
    if len(bare) == len(entries):
        notes.append(Note("No language has a bilingual baseline, so there is no ΔBLEU"))
    elif bare:
        share = f"{len(bare)} of {len(entries)} languages"
        notes.append(Note(f"No bilingual baseline, and so no ΔBLEU, for {share}", _names(bare)))
    for system in systems:
        lacking = [entry for entry in entries if system not in entry.rows]
        if lacking:
            notes.append(Note(f"No row of {system} for {len(lacking)}", _names(lacking)))
        for what in ("checkpoint", "decode", "config"):
            values = Counter(getattr(e.rows[system], what) for e in entries if system in e.rows)
            if len(values) > 1:
                parts = ", ".join(f"{value} for {count}" for value, count in values.items())
                notes.append(Note(f"Rows of {system} differ in {what}: {parts}"))
    several = Counter((row.system, row.source) for row in rows)
    for system in dict.fromkeys(row.system for row in rows):
        doubled = [e for e in entries if several[system, e.language.code] > 1]
        if doubled:
            text = f"Several rows of {system}, of which the last one in the file counts, for"
            notes.append(Note(f"{text} {len(doubled)}", _names(doubled)))
    return tuple(notes + _notes_on_fairness(entries))


def _notes_on_fairness(entries: Sequence[Entry]) -> list[Note]:
    notes = []
    for what, said in (("train_pairs", "number of training pairs"), ("decode", "decoding")):
        unequal = [
            entry
            for entry in entries
            if entry.baseline
            and any(getattr(r, what) != getattr(entry.baseline, what) for r in entry.rows.values())
        ]
        if unequal:
            text = f"The baseline has another {said} for {len(unequal)}"
            notes.append(Note(text, _names(unequal)))
    systems = dict.fromkeys(entry.baseline.system for entry in entries if entry.baseline)
    if len(systems) > 1:
        notes.append(
            Note(
                f"The baselines come from {len(systems)} bilingual systems ({', '.join(systems)}); "
                f"where a language has several, the best counts"
            )
        )
    return notes


def _names(entries: Iterable[Entry]) -> tuple[str, ...]:
    return tuple(entry.language.name for entry in entries)


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return fmean(listed) if listed else None
