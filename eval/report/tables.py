"""The tables of scores, as columns and values; HTML, Markdown and CSV render the same ones.

No markup here, and no computing beyond what comparison.py offers. Tables of what the systems cost
and how they were made: tables_systems.py.
"""

import dataclasses
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple, TypeAlias

from eval.records.analysis_index import RISKY, Evidence, Guard, shares, sure
from eval.records.results import Row
from eval.report import micro
from eval.report.comparison import (
    METRICS,
    Comparison,
    Entry,
    Group,
    Range,
    Score,
    by_resource,
    mean_interval,
)


class Estimate(NamedTuple):
    """A number and its 95 % interval. sure: whether a difference is significant. tip: details."""

    value: float
    range: Range | None = None
    sure: bool | None = None
    tip: str = ""


class Risks(NamedTuple):
    """The guards of a row and the shares of its outputs that they hold for."""

    shares: tuple[tuple[Guard, float], ...]

    @property
    def marked(self) -> list[tuple[Guard, float]]:
        """Those that hold for so many that a reader must know."""
        return [(guard, share) for guard, share in self.shares if share >= RISKY]

    @property
    def worst(self) -> float:
        """The largest share."""
        return max((share for _, share in self.shares), default=0.0)


class Grade(NamedTuple):
    """good, fair or poor, and why."""

    mark: str
    reasons: tuple[str, ...]


Record: TypeAlias = dict[str, str | int | float | None]  # a line of CSV
Value: TypeAlias = str | int | float | Estimate | Risks | Grade | None
_SCORES = (
    ("BLEU", "score"), ("chrF++", "score"), ("spBLEU", "score"), ("TER", "score"),
    ("COMET", "comet"), ("epochs", "amount"), ("risks", "risks"),
)  # fmt: skip
_COST = ("device_hours", "parameters", "active_parameters")


@dataclasses.dataclass(frozen=True)
class Column:
    """over: a line above the label, such as a system. kind: how values are written, see `text`.

    of: the place of the multilingual system that it is about, None for no such system.
    """

    label: str
    kind: str = "text"
    over: str = ""
    of: int | None = None

    @property
    def heading(self) -> str:
        """Both lines in one."""
        return f"{self.over} {self.label}".strip()


@dataclasses.dataclass(frozen=True)
class Table:
    """Columns and, row by row, a value for each; None where there is nothing.

    tags: what a row can be filtered by, in words, row by row; or none at all.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    tags: tuple[str, ...] = ()

    @property
    def reach(self) -> tuple[float, float]:
        """How far the Δ in it go below and above zero; never (0, 0)."""
        places = [place for place, column in enumerate(self.columns) if column.kind == "delta"]
        deltas = [v for row in self.rows for place in places if (v := number(row[place]))]
        below, above = max(0.0, -min(deltas, default=0.0)), max(0.0, max(deltas, default=0.0))
        return (below, above) if below or above else (0.0, 1.0)

    @property
    def filled(self) -> "Table":
        """The same without the columns that have no value at all."""
        kept = [
            place
            for place in range(len(self.columns))
            if any(row[place] is not None for row in self.rows)
        ]
        return dataclasses.replace(
            self,
            columns=tuple(self.columns[place] for place in kept),
            rows=tuple(tuple(row[place] for place in kept) for row in self.rows),
        )


def number(value: Value) -> float | None:
    """What a value is sorted by, where it is a number."""
    if isinstance(value, Estimate):
        return value.value
    if isinstance(value, Risks):
        return value.worst
    return value if isinstance(value, int | float) else None


def text(value: Value, kind: str) -> str:
    """A value as people read it.

    >>> text(20000, "count"), text(45.67, "score"), text(-3.0, "delta"), text(None, "score")
    ('20,000', '45.7', '−3.0', '')
    >>> text(Estimate(3.04, Range(1, 5.5), True), "delta"), text(0.123, "share")
    ('+3.0 (+1.0 to +5.5) ●', '12.3 %')
    """
    if value is None:
        return ""
    if isinstance(value, Estimate):
        mark = {True: " ●", False: " ○", None: ""}[value.sure]
        return f"{text(value.value, kind)}{interval(value, kind, ' ({})')}{mark}"
    if isinstance(value, Risks):
        return ", ".join(f"{guard.name} {share:.0%}" for guard, share in value.marked) or "–"
    if isinstance(value, Grade):
        return value.mark
    if isinstance(value, str):
        return value
    if kind == "count":
        return f"{value:,}"
    if kind == "delta":
        return f"{round(value, 1) + 0.0:+.1f}".replace("-", "−")  # there is no −0.0
    if kind == "difference":  # of means, finer than of one language
        return f"{round(value, 2) + 0.0:+.2f}".replace("-", "−")
    if kind == "share":
        return f"{value:.1%}".replace("%", " %")
    if kind == "amount":
        return amount(value)
    if kind == "comet":
        return f"{value:.3f}".replace("-", "−")
    return f"{value:.1f}" if kind == "score" else str(value)


def interval(value: Estimate, kind: str, frame: str = "{}") -> str:
    """`low to high` in a frame, or nothing where there is no interval."""
    if value.range is None:
        return ""
    low, high = (text(end, kind) for end in value.range)
    return frame.format(f"{low} to {high}" if kind in ("delta", "difference") else f"{low}–{high}")


def amount(value: float) -> str:
    """A large or small number in three digits: 0.042, −3.14, 57.3, 812, 4.2k, 1.5M, 600B."""
    if value < 0:
        return f"−{amount(-value)}"
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def by_language(comparison: Comparison, evidence: Evidence) -> Table:
    """A row per language, from much to little training data; all languages, also the small ones."""
    columns = [Column("Language"), Column("Train pairs", "count")]
    for place, system in enumerate(comparison.systems):
        of_system = (("ΔBLEU", "delta"), *_SCORES)
        columns += [Column(label, kind, system, place) for label, kind in of_system]
    columns += [Column(label, kind, "baseline") for label, kind in _SCORES]
    columns += [Column("Sentences", "count"), Column("trust", "grade", "Test set")]
    columns += [Column("Code", "code"), Column("Script"), Column("Family")]
    rows, tags = [], []
    resource = {
        entry.language.code: group.name
        for group in by_resource(comparison.all)
        for entry in group.entries
    }
    for entry in comparison.entries:
        language = entry.language
        values: list[Value] = [language.name, entry.train_pairs]
        for system in comparison.systems:
            row = entry.rows.get(system)
            values += [_delta(entry, system, evidence), *_scores(row, evidence)]
        found = evidence.trust(comparison.testset, language.code, comparison.target.code)
        values += [*_scores(entry.baseline, evidence), entry.sentences]
        values.append(Grade(found.mark, found.reasons) if found else None)
        rows.append((*values, language.code, language.script, language.family))
        words = [resource.get(language.code, "small"), *_tags(comparison, entry, evidence)]
        lead = evidence.guards(entry.rows.get(comparison.lead or ""))
        words += ["risky"] if lead and Risks(tuple(shares(lead))).marked else []
        tags.append(" ".join([*words, *([found.mark] if found else [])]))
    return Table(tuple(columns), tuple(rows), tuple(tags)).filled


def by_group(comparison: Comparison, groups: Sequence[Group], label: str) -> Table:
    """A row of means per group; ΔBLEU is over those of its languages that have a baseline."""
    columns = [Column(label), Column("Languages", "count"), Column("Train pairs", "range")]
    columns += [Column("baseline", "count", "with"), Column("BLEU", "score", "baseline")]
    for place, system in enumerate(comparison.systems):
        columns += [Column("ΔBLEU", "delta", system, place), Column("BLEU", "score", system, place)]
        columns += [Column("chrF++", "score", system, place)]
    rows: list[tuple[Value, ...]] = []
    for group in groups:
        values: list[Value] = [group.name, len(group.entries), _range(group)]
        values += [len(group.baselines), averaged(group.baseline_bleus)]
        for system in comparison.systems:
            values += [mean(group, system, "delta"), mean(group, system, "bleu")]
            values.append(group.chrf(system))
        rows.append(tuple(values))
    return Table(tuple(columns), tuple(rows)).filled


def at_a_glance(comparison: Comparison, evidence: Evidence) -> Table:
    """A row per multilingual system: its means, and on how many languages it beats the baseline."""
    columns = (
        Column("System"), Column("Languages", "count"), Column("Mean ΔBLEU", "delta"),
        Column("micro", "delta", "ΔBLEU"), Column("Languages up", "of"),
        Column("up", "count", "significantly"), Column("down", "count", "significantly"),
        Column("of the best's", "share", "Share of Δ"),
        Column("of its teacher's", "share", "Share of Δ"),
        Column("Mean BLEU", "score"), Column("micro", "score", "BLEU"),
        Column("Mean chrF++", "score"), Column("Mean ΔchrF++", "delta"),
        Column("Mean COMET", "comet"), Column("Device-hours", "amount"),
        Column("Parameters", "amount"), Column("active", "amount", "Parameters"),
    )  # fmt: skip
    group = comparison.all
    best = group.delta(comparison.lead) if comparison.lead else None

    def kept(delta: float | None, whole: float | None) -> float | None:
        return delta / whole if whole and whole > 0 and delta is not None else None

    rows: list[tuple[Value, ...]] = []
    for system in comparison.systems:
        deltas, delta = group.deltas(system), group.delta(system)
        tests = [sure(evidence.paired(e.rows.get(system), e.baseline)) for e in group.entries]
        ways = [(e.delta(system) or 0) > 0 for e in group.entries]
        tested = any(test is not None for test in tests)
        up = sum(test is True and way for test, way in zip(tests, ways, strict=True))
        down = sum(test is True for test in tests) - up
        cost = next(iter(evidence.costs(system)), None)
        rows.append((
            system, len(group.values(system, "bleu")), mean(group, system, "delta"),
            pooled(micro.delta(group, system, evidence)),
            f"{sum(d > 0 for d in deltas)} of {len(deltas)}" if deltas else None,
            up if tested else None, down if tested else None,
            kept(delta, best), kept(delta, group.delta(evidence.teacher(system))),
            mean(group, system, "bleu"), pooled(micro.bleu(group, system, evidence)),
            group.chrf(system), mean(group, system, "chrf_delta"),
            _comet([entry.rows.get(system) for entry in group.entries], evidence),
            *(getattr(cost, name, None) for name in _COST),
        ))  # fmt: skip
    return Table(columns, tuple(rows)).filled


def _comet(rows: Sequence[Row | None], evidence: Evidence) -> Estimate | None:
    """The mean COMET of the rows that have one."""
    found = [comet.score for row in rows if (comet := evidence.comet(row))]
    return averaged(found, f"over the {len(found)} languages that its encoder knows")


def against_each_other(comparison: Comparison, evidence: Evidence) -> Table:
    """Mean difference in BLEU of the row's system less the column's, over languages of both."""
    systems, group = comparison.systems, comparison.all
    columns = [Column("less"), *(Column(system, "difference") for system in systems)]
    rows: list[tuple[Value, ...]] = []
    for system in systems:
        values: list[Value] = [system]
        for other in systems:
            found = group.differences(system, other)
            if system == other or not found:
                values.append(None)
                continue
            said = f"{sum(value > 0 for value in found)} of {len(found)} languages up"
            both = [(e.rows.get(system), e.rows.get(other)) for e in group.entries]
            tests = [sure(evidence.paired(*rows)) for rows in both]
            if any(test is not None for test in tests):
                said += f", {tests.count(True)} of all differ significantly"
            values.append(averaged(found, said))
        rows.append(tuple(values))
    return Table(tuple(columns), tuple(rows))


def mean(group: Group, system: str, score: Score) -> Estimate | None:
    """The macro mean of a score with its interval over languages."""
    return averaged(group.values(system, score))


def averaged(values: Sequence[float], tip: str = "") -> Estimate | None:
    """The mean of a value for every language, with its interval over languages."""
    return Estimate(fmean(values), mean_interval(values), tip=tip) if values else None


def pooled(found: micro.Micro | None) -> Estimate | None:
    """A micro mean with its interval over languages."""
    return Estimate(*found) if found else None


def records(comparison: Comparison, evidence: Evidence) -> list[Record]:
    """`by_language` for programs: full precision, and the recipe of every score."""
    table = by_language(comparison, evidence)
    recipe = ["system", "sentences", "testset_version", "checkpoint", "decode", "config", "seconds"]
    signatures = [f"{metric}_signature" for metric in METRICS]
    recipe += [s for s in signatures if any(getattr(row, s) for row in comparison.used)]
    found = []
    for entry, values in zip(comparison.entries, table.rows, strict=True):
        record: Record = {
            "testset": comparison.testset, "target": comparison.target.code,
            "counts in means": int(comparison.counts(entry)),
        }  # fmt: skip
        for column, value in zip(table.columns, values, strict=True):
            record |= plain(column.heading, value)
        for system in (*comparison.systems, "baseline"):
            row = entry.baseline if system == "baseline" else entry.rows.get(system)
            record |= {f"{system} {name}": getattr(row, name) if row else None for name in recipe}
            record[f"{system} hypotheses"] = evidence.hypotheses(row)
            test = None if system == "baseline" else evidence.paired(row, entry.baseline)
            for name in ("p_bootstrap", "p_randomization"):
                record[f"{system} {name}"] = getattr(test, name) if test else None
        found.append(record)
    return found


def plain(heading: str, value: Value) -> Record:
    """A value as columns of plain ones: an estimate is three, risks one for each guard."""
    if isinstance(value, Estimate):
        ends = zip(("low", "high"), value.range or (), strict=False)
        parts = {heading: value.value} | {f"{heading} {end}": at for end, at in ends}
        return {name: round(part, 4) for name, part in parts.items()}
    if isinstance(value, Risks):
        stem = heading.removesuffix("risks")
        return {f"{stem}{guard.name}": round(share, 4) for guard, share in value.shares}
    if isinstance(value, Grade):
        return {heading: value.mark, f"{heading} reasons": "; ".join(value.reasons)}
    return {heading: round(value, 4) if isinstance(value, float) else value}


def _scores(row: Row | None, evidence: Evidence) -> list[Value]:
    """What _SCORES names, of a row."""
    if row is None:
        return [None] * len(_SCORES)
    ends, found = evidence.interval(row), evidence.guards(row)
    return [
        Estimate(row.bleu, Range(ends.bleu_low, ends.bleu_high) if ends else None),
        Estimate(row.chrf, Range(ends.chrf_low, ends.chrf_high) if ends else None),
        row.spbleu,
        row.ter,
        comet.score if (comet := evidence.comet(row)) else None,
        evidence.epochs(row),
        Risks(tuple(shares(found))) if found else None,
    ]


def _delta(entry: Entry, system: str, evidence: Evidence) -> Estimate | None:
    delta = entry.delta(system)
    if delta is None:
        return None
    test = evidence.paired(entry.rows[system], entry.baseline)
    if test is None:
        return Estimate(delta)
    tip = f"p = {test.p_bootstrap:.3g} (bootstrap), {test.p_randomization:.3g} (randomisation)"
    return Estimate(delta, Range(test.delta_low, test.delta_high), sure(test), tip)


def _tags(comparison: Comparison, entry: Entry, evidence: Evidence) -> list[str]:
    """What the language can be filtered by; up and down are about the lead system."""
    words = ["baseline"] if entry.baseline and entry.rows else []
    lead = comparison.lead
    delta = entry.delta(lead) if lead else None
    if lead and delta is not None:
        way = "up" if delta > 0 else "down"
        significant = sure(evidence.paired(entry.rows[lead], entry.baseline))
        words += [way, *([f"surely-{way}"] if significant else [])]
    return words


def _range(group: Group) -> str:
    sizes = [entry.train_pairs for entry in group.entries]
    if not sizes:
        return ""
    low, high = min(sizes), max(sizes)
    return f"{high:,}" if low == high else f"{high:,} – {low:,}"
