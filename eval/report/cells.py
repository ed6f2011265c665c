"""The parts of a table: columns, values, and the formatting of values.

HTML, Markdown and CSV render the same tables, which tables.py and system_tables.py define.
"""

import dataclasses
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import NamedTuple, TypeAlias

from eval.analyses.mean_interval import ConfidenceInterval, mean_interval
from eval.records.analysis_index import RISKY, OutputCheck
from eval.report.comparison import Group, Score


class Estimate(NamedTuple):
    """A number and its 95 % interval.

    sure: whether a difference is significant. tooltip: details.
    """

    value: float
    range: ConfidenceInterval | None = None
    sure: bool | None = None
    tooltip: str = ""


class Risks(NamedTuple):
    """The output checks of a row and the shares of its outputs that fail them."""

    shares: tuple[tuple[OutputCheck, float], ...]

    @property
    def marked(self) -> list[tuple[OutputCheck, float]]:
        """Returns the checks whose share of outputs is at least `RISKY`."""
        return [(guard, share) for guard, share in self.shares if share >= RISKY]

    @property
    def worst(self) -> float:
        """Returns the largest share."""
        return max((share for _, share in self.shares), default=0.0)


class Grade(NamedTuple):
    """good, fair or poor, and the reasons."""

    mark: str
    reasons: tuple[str, ...]


Value: TypeAlias = str | int | float | Estimate | Risks | Grade | None


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a table.

    over: a line above the label, such as a system. kind: how values are formatted, see `text`. of:
    index in the palette of the system in the column, None for no system. rank: on narrow pages,
    columns with a low rank are shown first.
    """

    label: str
    kind: str = "text"
    over: str = ""
    of: int | None = None
    rank: int = 0

    @property
    def heading(self) -> str:
        """Returns both lines as one."""
        return f"{self.over} {self.label}".strip()


@dataclasses.dataclass(frozen=True)
class Table:
    """Columns and rows of values; None for an empty cell.

    tags: for each row, words that readers can filter by; () for no filter.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    tags: tuple[str, ...] = ()

    @property
    def reach(self) -> tuple[float, float]:
        """Returns how far the Δ values extend below and above zero; never (0, 0)."""
        indices = [index for index, column in enumerate(self.columns) if column.kind == "delta"]
        deltas = [v for row in self.rows for index in indices if (v := number(row[index]))]
        below, above = max(0.0, -min(deltas, default=0.0)), max(0.0, max(deltas, default=0.0))
        return (below, above) if below or above else (0.0, 1.0)

    @property
    def filled(self) -> "Table":
        """Returns the table without columns that have no value in any row."""
        return self._with(lambda value: value is not None)

    @property
    def visible(self) -> "Table":
        """Returns the table without columns that would look empty: no value, or no marked risk."""
        return self._with(lambda v: bool(v.marked) if isinstance(v, Risks) else v is not None)

    def _with(self, counts: Callable[[Value], bool]) -> "Table":
        places = range(len(self.columns))
        return self.only(
            [index for index in places if any(counts(row[index]) for row in self.rows)]
        )

    def only(self, indices: Sequence[int]) -> "Table":
        """Returns the table with the columns at these places."""
        return dataclasses.replace(
            self,
            columns=tuple(self.columns[index] for index in indices),
            rows=tuple(tuple(row[index] for index in indices) for row in self.rows),
        )


def mean(group: Group, system: str, score: Score) -> Estimate | None:
    """Returns the macro mean of a score with its interval over languages."""
    return averaged(group.values(system, score))


def averaged(values: Sequence[float], tooltip: str = "") -> Estimate | None:
    """Returns the mean of one value per language, with its interval over languages."""
    return Estimate(fmean(values), mean_interval(values), tooltip=tooltip) if values else None


def number(value: Value) -> float | None:
    """Returns the number that a value is sorted by, or None."""
    if isinstance(value, Estimate):
        return value.value
    if isinstance(value, Risks):
        return value.worst
    return value if isinstance(value, int | float) else None


def text(value: Value, kind: str) -> str:
    """Returns a value as formatted text.

    >>> text(20000, "count"), text(45.67, "score"), text(-3.0, "delta"), text(None, "score")
    ('20,000', '45.7', '−3.0', '')
    >>> text(Estimate(3.04, ConfidenceInterval(1, 5.5), True), "delta"), text(0.123, "share")
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
        return f"{round(value, 1) + 0.0:+.1f}".replace("-", "−")  # avoids −0.0
    if kind == "difference":  # of means: two decimals
        return f"{round(value, 2) + 0.0:+.2f}".replace("-", "−")
    if kind == "share":
        return f"{value:.1%}".replace("%", " %")
    if kind == "amount":
        return amount(value)
    if kind == "comet":
        return f"{value:.3f}".replace("-", "−")
    return f"{value:.1f}" if kind == "score" else str(value)


def interval(value: Estimate, kind: str, frame: str = "{}") -> str:
    """Returns `low to high` inserted in `frame`, or '' without an interval."""
    if value.range is None:
        return ""
    low, high = (text(end, kind) for end in value.range)
    return frame.format(f"{low} to {high}" if kind in ("delta", "difference") else f"{low}–{high}")


def amount(value: float) -> str:
    """Returns a number in three digits: 0.042, −3.14, 57.3, 812, 4.2k, 1.5M, 600B."""
    if value < 0:
        return f"−{amount(-value)}"
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
