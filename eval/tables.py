"""The tables of a report, as columns and values; HTML, Markdown and CSV render the same ones.

No markup here, and no computing beyond what comparison.py offers.
"""

import dataclasses
from collections.abc import Sequence

from eval.comparison import Comparison, Group
from eval.results import Row

Value = str | int | float | None


@dataclasses.dataclass(frozen=True)
class Column:
    """over: a line above the label, such as a system. kind: how values are written, see `text`."""

    label: str
    kind: str = "text"
    over: str = ""

    @property
    def heading(self) -> str:
        """Both lines in one."""
        return f"{self.over} {self.label}".strip()


@dataclasses.dataclass(frozen=True)
class Table:
    """Columns and, row by row, a value for each; None where there is nothing."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]

    @property
    def reach(self) -> tuple[float, float]:
        """How far the Δ in it go below and above zero; never (0, 0)."""
        places = [place for place, column in enumerate(self.columns) if column.kind == "delta"]
        values = [row[place] for row in self.rows for place in places]
        deltas = [value for value in values if isinstance(value, float)]
        below, above = max(0.0, -min(deltas, default=0.0)), max(0.0, max(deltas, default=0.0))
        return (below, above) if below or above else (0.0, 1.0)


def text(value: Value, kind: str) -> str:
    """A value as people read it.

    >>> text(20000, "count"), text(45.67, "score"), text(-3.0, "delta"), text(None, "score")
    ('20,000', '45.7', '−3.0', '')
    """
    if value is None:
        return ""
    if kind == "count":
        return f"{value:,}"
    if kind == "score":
        return f"{value:.1f}"
    if kind == "delta":
        return f"{value:+.1f}".replace("-", "−")
    return str(value)


def by_language(comparison: Comparison) -> Table:
    """A row per language, from much to little training data."""
    columns = [Column("Language"), Column("Train pairs", "count"), *_score_columns(comparison)]
    columns += [Column("Code", "code"), Column("Script"), Column("Family")]
    rows: list[tuple[Value, ...]] = []
    for entry in comparison.entries:
        language = entry.language
        values: list[Value] = [language.name, entry.train_pairs]
        for system in comparison.systems:
            row = entry.rows.get(system)
            values += [row.bleu, row.chrf] if row else [None, None]
        values += [entry.baseline.bleu, entry.baseline.chrf] if entry.baseline else [None, None]
        values += [entry.delta(system) for system in comparison.systems]
        values += [language.code, language.script, language.family]
        rows.append(tuple(values))
    return Table(tuple(columns), tuple(rows))


def by_group(comparison: Comparison, groups: Sequence[Group], label: str) -> Table:
    """A row of means per group; ΔBLEU is over those of its languages that have a baseline."""
    systems = comparison.systems
    columns = [Column(label), Column("Languages", "count")]
    over = [system if len(systems) > 1 else "" for system in systems]
    columns += [Column(name, "score", system) for system in over for name in ("BLEU", "chrF++")]
    columns += [Column("baseline", "count", "with")]
    columns += [Column("ΔBLEU", "delta", system) for system in over]
    rows: list[tuple[Value, ...]] = []
    for group in groups:
        values: list[Value] = [group.name, len(group.entries)]
        for system in systems:
            values += [group.bleu(system), group.chrf(system)]
        values += [len(group.baselines), *(group.delta(system) for system in systems)]
        rows.append(tuple(values))
    return Table(tuple(columns), tuple(rows))


def by_size(comparison: Comparison, groups: Sequence[Group]) -> Table:
    """A row of means per group of training sizes, with the means of the baselines that it has."""
    columns = [
        Column("Training data"),
        Column("Languages", "count"),
        Column("Train pairs", "range"),
    ]
    columns += _score_columns(comparison)
    rows: list[tuple[Value, ...]] = []
    for group in groups:
        values: list[Value] = [group.name, len(group.entries), _range(group)]
        for system in comparison.systems:
            values += [group.bleu(system), group.chrf(system)]
        values += [group.baseline_bleu, group.baseline_chrf]
        values += [group.delta(system) for system in comparison.systems]
        rows.append(tuple(values))
    return Table(tuple(columns), tuple(rows))


def recipe(comparison: Comparison) -> Table:
    """A row per system: what was run, how, and how long it took."""
    columns = tuple(
        Column(*spec)
        for spec in (
            ("System",),
            ("Kind",),
            ("Checkpoint", "code"),
            ("Decoding", "code"),
            ("Config", "code"),
            ("Languages", "count"),
            ("Sentences", "count"),
            ("Seconds", "count"),
            ("Sentences/s", "count"),
        )
    )
    rows: list[tuple[Value, ...]] = []
    for system in dict.fromkeys(row.system for row in comparison.used):
        here = [row for row in comparison.used if row.system == system]
        seconds = sum(row.seconds for row in here)
        sentences = sum(row.sentences for row in here)
        rows.append(
            (
                system,
                here[0].kind,
                *(_several(here, name) for name in ("checkpoint", "decode", "config")),
                len(here),
                sentences,
                round(seconds),
                round(sentences / seconds) if seconds else None,
            )
        )
    return Table(columns, tuple(rows))


def signatures(comparison: Comparison) -> list[tuple[str, str]]:
    """(metric, sacreBLEU signature) for every signature in use."""
    bleu = dict.fromkeys(row.bleu_signature for row in comparison.used)
    chrf = dict.fromkeys(row.chrf_signature for row in comparison.used)
    return [("BLEU", signature) for signature in bleu] + [("chrF++", s) for s in chrf]


def records(comparison: Comparison) -> list[dict[str, Value]]:
    """`by_language` for programs: full precision, and the recipe of every score."""
    table = by_language(comparison)
    recipe_of = (
        "system",
        "sentences",
        "checkpoint",
        "decode",
        "config",
        "seconds",
        "bleu_signature",
        "chrf_signature",
    )
    found = []
    for entry, values in zip(comparison.entries, table.rows, strict=True):
        record: dict[str, Value] = {
            "testset": comparison.testset,
            "target": comparison.target.code,
        }
        for column, value in zip(table.columns, values, strict=True):
            record[column.heading] = round(value, 4) if isinstance(value, float) else value
        for system in (*comparison.systems, "baseline"):
            row = entry.baseline if system == "baseline" else entry.rows.get(system)
            record |= {
                f"{system} {name}": getattr(row, name) if row else None for name in recipe_of
            }
        found.append(record)
    return found


def _score_columns(comparison: Comparison) -> list[Column]:
    columns = [
        Column(label, "score", system)
        for system in comparison.systems
        for label in ("BLEU", "chrF++")
    ]
    columns += [Column(label, "score", "baseline") for label in ("BLEU", "chrF++")]
    return columns + [Column("ΔBLEU", "delta", system) for system in comparison.systems]


def _range(group: Group) -> str:
    sizes = [entry.train_pairs for entry in group.entries]
    if not sizes:
        return ""
    low, high = min(sizes), max(sizes)
    return f"{high:,}" if low == high else f"{high:,} – {low:,}"


def _several(rows: Sequence[Row], name: str) -> str:
    """The values of a field: all of them if they are few, else the first ones and their number."""
    values = list(dict.fromkeys(getattr(row, name) for row in rows))
    more = f", … ({len(values)})" if len(values) > 3 else ""
    return ", ".join(values[:3]) + more
