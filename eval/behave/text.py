"""The results of the suite as text: Markdown tables, which are also read on a terminal."""

from collections.abc import Iterable, Sequence

from eval.behave.difference import BehaviourDifference, GroupDifference
from eval.behave.suite import JudgedCase
from eval.records.behaviour import BehaviourShares

_NONE = "–"
_MARKS = {"better": "▲", "worse": "▼", "tie": "="}


def table(rows: Sequence[BehaviourShares]) -> str:
    """Returns languages × behaviours of one system: percent of the cases passed, and the means."""
    names = list(dict.fromkeys(name for row in rows for name in row.shares))
    needed = {name: row.needed[name] for row in rows for name in row.needed}
    lines = [
        [row.source, *(_percent(row.shares.get(name)) for name in names),
         _percent(_mean(row.shares.values()))]
        for row in rows
    ]  # fmt: skip
    mean_shares = [
        _mean([row.shares[name] for row in rows if name in row.shares]) for name in names
    ]  # fmt: skip
    lines.append(["mean", *map(_percent, mean_shares), _percent(_mean(mean_shares))])
    lines.append(["needed", *(_percent(needed[name]) for name in names), ""])
    return markdown(["language", *names, "mean"], lines)


def differences(first: str, other: str, difference: BehaviourDifference) -> str:
    """Returns what `other` has more or less than `first`, by behaviour and by language."""
    if not difference.behaviours:
        return f"{first} and {other} have no case in common, so they are not compared"
    parts = [
        _difference("behaviour", first, other, difference.behaviours),
        _difference("language", first, other, difference.languages),
    ]
    if difference.left_out:
        parts.append(f"not compared: {difference.left_out:,} cases that only one of them has")
    legend = f"{other} is better ▲, worse ▼ or not significantly different = (q < 0.05)"
    return "\n\n".join([*parts, legend])


def failures(judged: Iterable[JudgedCase]) -> str:
    """Returns a line per failed case: language, behaviour, reason, source, output, with tabs."""
    return "\n".join(
        "\t".join(
            (case.language, case.behaviour, case.fault, _shown(case.source), _shown(case.output))
        )
        for case in judged
        if case.fault
    )


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns an aligned Markdown table; the first column is text, the others are numbers."""
    widths = [max(2, *map(len, column)) for column in zip(columns, *rows, strict=True)]
    first, *others = widths
    rule = ["-" * first, *("-" * (width - 1) + ":" for width in others)]
    lines = [
        [cell.rjust(width) if number else cell.ljust(width)
         for number, (cell, width) in enumerate(zip(row, widths, strict=True))]
        for row in (columns, rule, *rows)
    ]  # fmt: skip
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _difference(group_name: str, first: str, other: str, groups: Sequence[GroupDifference]) -> str:
    columns = (group_name, "cases", first, other, f"only {first}", f"only {other}", "p", "q", "")
    rows = [
        (
            group.name, f"{group.cases:,}", *(_percent(n / group.cases) for n in group.passed),
            *(f"{n:,}" for n in group.only), f"{group.p:.4f}", f"{group.q:.4f}",
            _MARKS[group.verdict],
        )
        for group in groups
    ]  # fmt: skip
    return markdown(columns, rows)


def _mean(shares: Iterable[float]) -> float:
    values = list(shares)
    return sum(values) / len(values)


def _percent(share: float | None) -> str:
    return _NONE if share is None else f"{100 * share:.0f}"


def _shown(text: str) -> str:
    """Returns a text on one line, with its line breaks and tabs as escapes."""
    return text.replace("\n", "\\n").replace("\t", "\\t").replace("\u2028", "\\u2028")
