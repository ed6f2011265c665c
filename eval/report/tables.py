"""The tables of scores, as columns and values, for HTML, Markdown and CSV.

There is no markup here; comparison.py does the computing. system_tables.py has the tables of
systems, csv_tables.py those of CSV files.
"""

import dataclasses
from collections.abc import Sequence

from eval.analyses.mean_interval import ConfidenceInterval
from eval.records.analysis_index import AnalysisIndex, shares, sure
from eval.records.results import Row
from eval.report import micro
from eval.report.cells import Column, Estimate, Grade, Risks, Table, Value, averaged, mean
from eval.report.comparison import Comparison, Entry, Group, by_resource

_SCORES = (
    ("BLEU", "score"), ("chrF++", "score"), ("spBLEU", "score"), ("TER", "score"),
    ("COMET", "comet"), ("epochs", "amount"), ("risks", "risks"),
)  # fmt: skip
_RANKS = (5, 6, 7, 7, 6, 8, 7)  # of the columns of _SCORES; see `Column.rank`
_MARKDOWN_SYSTEMS = 3
_CSV_ALONE = ("epochs", "risks", "trust", "Script", "Family")  # columns that `narrowed` omits
_COST = ("device_hours", "parameters", "active_parameters")


def by_language(comparison: Comparison, analyses: AnalysisIndex) -> Table:
    """Returns a row per language, including small ones; comparable languages come first.

    Both parts are in descending order of training data.
    """
    rows, tags = [], []
    resource = {
        entry.language.code: group.name
        for group in by_resource(comparison.all)
        for entry in group.entries
    }
    for entry in comparables_first(comparison):
        language = entry.language
        values: list[Value] = [language.name, entry.train_pairs]
        for system in comparison.systems:
            row = entry.rows.get(system)
            values += [_delta(entry, system, analyses), *_scores(row, analyses)]
        trust = analyses.testset_quality(comparison.testset, language.code, comparison.target.code)
        values += [*_scores(entry.baseline, analyses), entry.sentences]
        values.append(Grade(trust.mark, trust.reasons) if trust else None)
        rows.append((*values, language.code, language.script, language.family))
        words = [resource.get(language.code, "small"), *_tags(comparison, entry, analyses)]
        checks = analyses.output_checks(entry.rows.get(comparison.primary_system or ""))
        words += ["risky"] if checks and Risks(tuple(shares(checks))).marked else []
        tags.append(" ".join([*words, *([trust.mark] if trust else [])]))
    return Table(_language_columns(comparison), tuple(rows), tuple(tags)).filled


def is_wide(comparison: Comparison) -> bool:
    """Returns whether tables with columns for every system are too wide for Markdown."""
    return len(comparison.systems) > _MARKDOWN_SYSTEMS


def narrowed(table: Table, comparison: Comparison) -> Table:
    """Returns a table with fewer columns, and intervals of the primary system's ΔBLEU only.

    Without baselines, BLEU has the intervals.
    """
    primary, score = comparison.primary_system, _main_score(table)

    def cell(column: Column, value: Value) -> Value:
        if isinstance(value, Estimate) and (column.over, column.label) != (primary, score):
            return value._replace(range=None)
        return value

    rows = tuple(tuple(map(cell, table.columns, row)) for row in table.rows)
    return dataclasses.replace(table, rows=rows).only(
        [i for i, c in enumerate(table.columns) if not i or c.label not in _CSV_ALONE]
    )


def narrowed_means(table: Table, comparison: Comparison) -> Table:
    """Returns a narrowed table of means; systems other than the primary one have ΔBLEU only.

    Without baselines, they have BLEU only.
    """
    score, others = _main_score(table), {*comparison.systems} - {comparison.primary_system}
    table = narrowed(table, comparison)
    columns = enumerate(table.columns)
    return table.only([i for i, c in columns if c.over not in others or c.label == score])


def _main_score(table: Table) -> str:
    return "ΔBLEU" if any(column.label == "ΔBLEU" for column in table.columns) else "BLEU"


def comparables_first(comparison: Comparison) -> list[Entry]:
    """Returns the languages with a multilingual score and a baseline, then the others."""
    return sorted(comparison.entries, key=lambda entry: not (entry.baseline and entry.rows))


def _language_columns(comparison: Comparison) -> tuple[Column, ...]:
    columns = [Column("Language"), Column("Train pairs", "count", rank=2)]
    for system in comparison.systems:
        of, best = comparison.palette.index(system), system == comparison.systems[0]
        columns.append(Column("ΔBLEU", "delta", system, of, rank=1 if best else 3))
        for (label, kind), rank in zip(_SCORES, _RANKS, strict=True):
            rank = 1 if best and label == "BLEU" else rank - best
            columns.append(Column(label, kind, system, of, rank))
    for (label, kind), rank in zip(_SCORES, _RANKS, strict=True):
        columns.append(Column(label, kind, "baseline", rank=2 if label == "BLEU" else rank))
    columns += [Column("Sentences", "count", rank=5), Column("trust", "grade", "Test set", rank=5)]
    columns += [Column("Code", "code", rank=6), Column("Script", rank=6)]
    return (*columns, Column("Family", rank=6))


def by_group(comparison: Comparison, groups: Sequence[Group], label: str) -> Table:
    """Returns a row of means per group; ΔBLEU is over its languages with a baseline."""
    columns = [Column(label), Column("Languages", "count", rank=2)]
    columns += [Column("Train pairs", "range", rank=4), Column("baseline", "count", "with", rank=4)]
    columns.append(Column("BLEU", "score", "baseline", rank=2))
    for system in comparison.systems:
        of, best = comparison.palette.index(system), system == comparison.systems[0]
        columns.append(Column("ΔBLEU", "delta", system, of, rank=1 if best else 3))
        columns.append(Column("BLEU", "score", system, of, rank=1 if best else 5))
        columns.append(Column("chrF++", "score", system, of, rank=4 if best else 6))
    rows: list[tuple[Value, ...]] = []
    for group in groups:
        values: list[Value] = [group.name, len(group.entries), _range(group)]
        values += [len(group.baselines), averaged(group.baseline_bleus)]
        for system in comparison.systems:
            values += [mean(group, system, "delta"), mean(group, system, "bleu")]
            values.append(group.chrf(system))
        rows.append(tuple(values))
    return Table(tuple(columns), tuple(rows)).filled


def at_a_glance(comparison: Comparison, analyses: AnalysisIndex) -> Table:
    """Returns a row per multilingual system: means, and the number of languages above the baseline.
    """
    columns = (
        Column("System"), Column("Mean ΔBLEU", "delta", rank=1),
        Column("micro", "delta", "ΔBLEU", rank=5), Column("Languages up", "of", rank=1),
        Column("up", "count", "significantly", rank=2),
        Column("down", "count", "significantly", rank=2),
        Column("of the best", "share", "Share of ΔBLEU", rank=6),
        Column("of its teacher", "share", "Share of ΔBLEU", rank=5),
        Column("Mean BLEU", "score", rank=1), Column("micro", "score", "BLEU", rank=5),
        Column("Mean chrF++", "score", rank=2), Column("Mean ΔchrF++", "delta", rank=4),
        Column("Mean COMET", "comet", rank=2), Column("Languages", "count", rank=3),
        Column("Device-hours", "amount", rank=3), Column("Parameters", "amount", rank=3),
        Column("active", "amount", "Parameters", rank=4),
    )  # fmt: skip
    group = comparison.all
    rows: list[tuple[Value, ...]] = []
    for system in comparison.systems:
        deltas = group.deltas(system)
        tests = [sure(analyses.paired(e.rows.get(system), e.baseline)) for e in group.entries]
        is_up = [(e.delta(system) or 0) > 0 for e in group.entries]
        tested = any(test is not None for test in tests)
        up = sum(test is True and up_ for test, up_ in zip(tests, is_up, strict=True))
        down = sum(test is True for test in tests) - up
        cost = next(iter(analyses.costs(system)), None)
        rows.append((
            system, mean(group, system, "delta"),
            pooled(micro.delta(group, system, analyses)),
            f"{sum(d > 0 for d in deltas)} of {len(deltas)}" if deltas else None,
            up if tested else None, down if tested else None,
            _share_of_delta(group, system, comparison.primary_system or ""),
            _share_of_delta(group, system, analyses.teacher(system)),
            mean(group, system, "bleu"), pooled(micro.bleu(group, system, analyses)),
            group.chrf(system), mean(group, system, "chrf_delta"),
            _comet([entry.rows.get(system) for entry in group.entries], analyses),
            len(group.values(system, "bleu")), *(getattr(cost, name, None) for name in _COST),
        ))  # fmt: skip
    return Table(columns, tuple(rows)).filled


def _share_of_delta(group: Group, system: str, whole: str) -> float | None:
    """Returns a system's mean ΔBLEU divided by that of `whole`, over the languages of both."""
    both = [(e.delta(system), e.delta(whole)) for e in group.entries]
    pairs = [(ours, theirs) for ours, theirs in both if ours is not None and theirs is not None]
    sum_of_whole = sum(theirs for _, theirs in pairs)
    return sum(ours for ours, _ in pairs) / sum_of_whole if sum_of_whole > 0 else None


def _comet(rows: Sequence[Row | None], analyses: AnalysisIndex) -> Estimate | None:
    """Returns the mean COMET of the rows that have one."""
    scores = [comet.score for row in rows if (comet := analyses.comet(row))]
    return averaged(scores, f"over the {len(scores)} languages that its encoder knows")


def against_each_other(comparison: Comparison, analyses: AnalysisIndex) -> Table:
    """Returns the mean BLEU difference, row's system minus column's, over languages of both."""
    systems, group = comparison.systems, comparison.all
    columns = [Column("System"), *(Column(s, "difference", "minus", rank=1) for s in systems)]
    rows: list[tuple[Value, ...]] = []
    for system in systems:
        values: list[Value] = [system]
        for other in systems:
            differences = group.differences(system, other)
            if system == other or not differences:
                values.append(None)
                continue
            up = sum(difference > 0 for difference in differences)
            tooltip = f"{up} of {len(differences)} languages up"
            row_pairs = [(e.rows.get(system), e.rows.get(other)) for e in group.entries]
            tests = [sure(analyses.paired(*rows)) for rows in row_pairs]
            if any(test is not None for test in tests):
                tooltip += f", {tests.count(True)} of all differ significantly"
            values.append(averaged(differences, tooltip))
        rows.append(tuple(values))
    return Table(tuple(columns), tuple(rows))


def pooled(micro_mean: micro.Micro | None) -> Estimate | None:
    """Returns a micro mean with its interval over languages."""
    return Estimate(*micro_mean) if micro_mean else None


def _scores(row: Row | None, analyses: AnalysisIndex) -> list[Value]:
    """Returns the values of `_SCORES` for a row."""
    if row is None:
        return [None] * len(_SCORES)
    ends, guards = analyses.interval(row), analyses.output_checks(row)
    return [
        Estimate(row.bleu, ConfidenceInterval(ends.bleu_low, ends.bleu_high) if ends else None),
        Estimate(row.chrf, ConfidenceInterval(ends.chrf_low, ends.chrf_high) if ends else None),
        row.spbleu,
        row.ter,
        comet.score if (comet := analyses.comet(row)) else None,
        analyses.epochs(row),
        Risks(tuple(shares(guards))) if guards else None,
    ]


def _delta(entry: Entry, system: str, analyses: AnalysisIndex) -> Estimate | None:
    delta = entry.delta(system)
    if delta is None:
        return None
    test = analyses.paired(entry.rows[system], entry.baseline)
    if test is None:
        return Estimate(delta)
    tooltip = f"p = {test.p_bootstrap:.3g} (bootstrap), {test.p_randomization:.3g} (randomisation)"
    return Estimate(delta, ConfidenceInterval(test.delta_low, test.delta_high), sure(test), tooltip)


def _tags(comparison: Comparison, entry: Entry, analyses: AnalysisIndex) -> list[str]:
    """Returns the filter words of a language; up and down refer to the primary system."""
    words = ["baseline"] if entry.baseline and entry.rows else []
    primary = comparison.primary_system
    delta = entry.delta(primary) if primary else None
    if primary and delta is not None:
        direction = "up" if delta > 0 else "down"
        significant = sure(analyses.paired(entry.rows[primary], entry.baseline))
        words += [direction, *([f"surely-{direction}"] if significant else [])]
    return words


def _range(group: Group) -> str:
    sizes = [entry.train_pairs for entry in group.entries]
    if not sizes:
        return ""
    low, high = min(sizes), max(sizes)
    return f"{high:,}" if low == high else f"{high:,} – {low:,}"
