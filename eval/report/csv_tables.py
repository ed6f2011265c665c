"""The CSV tables of a report: full precision, and the origin of every score."""

import itertools
from statistics import fmean
from typing import TypeAlias

from eval.analyses.mean_interval import mean_interval
from eval.records.analysis_index import AnalysisIndex
from eval.report import micro
from eval.report.cells import Estimate, Grade, Risks, Value, mean
from eval.report.comparison import METRICS, Comparison, Entry, Group, by_resource
from eval.report.tables import by_language, comparables_first, pooled

Record: TypeAlias = dict[str, str | int | float | None]  # column -> value


def records(comparison: Comparison, analyses: AnalysisIndex) -> list[Record]:
    """Returns `by_language` with full precision and the origin of every score."""
    table = by_language(comparison, analyses)
    recipe = ["system", "sentences", "testset_version", "checkpoint", "decode", "config", "seconds"]
    signatures = [f"{metric}_signature" for metric in METRICS]
    recipe += [s for s in signatures if any(getattr(row, s) for row in comparison.used)]
    lines = []
    for entry, values in zip(comparables_first(comparison), table.rows, strict=True):
        record: Record = {
            "testset": comparison.testset, "target": comparison.target.code,
            "counts in means": int(comparison.counts(entry)),
        }  # fmt: skip
        for column, value in zip(table.columns, values, strict=True):
            record |= plain(column.heading, value)
        for system in (*comparison.systems, "baseline"):
            row = entry.baseline if system == "baseline" else entry.rows.get(system)
            record |= {f"{system} {name}": getattr(row, name) if row else None for name in recipe}
            record[f"{system} hypotheses"] = analyses.hypotheses(row)
            test = None if system == "baseline" else analyses.paired(row, entry.baseline)
            for name in ("p_bootstrap", "p_randomization"):
                record[f"{system} {name}"] = getattr(test, name) if test else None
        lines.append(record)
    return lines


def plain(heading: str, value: Value) -> Record:
    """Returns a value as plain columns: an estimate gives three, risks one per check."""
    if isinstance(value, Estimate):
        ends = zip(("low", "high"), value.range or (), strict=False)
        parts = {heading: value.value} | {f"{heading} {end}": bound for end, bound in ends}
        return {name: round(part, 4) for name, part in parts.items()}
    if isinstance(value, Risks):
        stem = heading.removesuffix("risks")
        return {f"{stem}{guard.name}": round(share, 4) for guard, share in value.shares}
    if isinstance(value, Grade):
        return {heading: value.mark, f"{heading} reasons": "; ".join(value.reasons)}
    return {heading: round(value, 4) if isinstance(value, float) else value}


def pairs(comparison: Comparison, analyses: AnalysisIndex) -> list[Record]:
    """Returns a record per language and pair of multilingual systems, each pair once.

    Pairs are within the comparison, within an ablation, or of an ablation with one of its
    references. Records have interval and tests, if any.
    """
    records = []
    for part in (comparison, *comparison.ablations):
        with_references = itertools.product(part.systems, part.references)
        for system, other in (*itertools.combinations(part.systems, 2), *with_references):
            for entry in part.entries:
                if system in entry.rows and other in entry.rows:
                    records.append(_pair(comparison, entry, system, other, analyses))
    return records


def _pair(
    comparison: Comparison, entry: Entry, system: str, other: str, analyses: AnalysisIndex
) -> Record:
    ours, theirs = entry.rows[system], entry.rows[other]
    test = analyses.paired(ours, theirs)
    values = ("delta_low", "delta_high", "p_bootstrap", "p_randomization")
    low, high, *p = [getattr(test, name) if test else None for name in values]
    return {
        "testset": comparison.testset, "target": comparison.target.code,
        "Language": entry.language.name, "Code": entry.language.code,
        "Train pairs": entry.train_pairs, "system": system, "less": other,
        "BLEU difference": round(ours.bleu - theirs.bleu, 4), "low": low, "high": high,
        **dict(zip(values[2:], p, strict=True)),
        "chrF++ difference": round(ours.chrf - theirs.chrf, 4),
        "counts in means": int(comparison.counts(entry)),
    }  # fmt: skip


def means(comparison: Comparison, analyses: AnalysisIndex) -> list[Record]:
    """Returns a record per system and group, with macro and micro means and intervals."""
    group = comparison.all
    groups = [("all", group), *(("resource", part) for part in by_resource(group))]
    groups += [("script", part) for part in comparison.by(lambda language: language.script)]
    groups += [("family", part) for part in comparison.by(lambda language: language.family)]
    records = []
    for system in comparison.systems:
        for kind, part in groups:
            if part.values(system, "bleu"):
                records.append(_means(comparison, system, kind, part, analyses))
    return records


def _means(
    comparison: Comparison, system: str, kind: str, part: Group, analyses: AnalysisIndex
) -> Record:
    record: Record = {
        "testset": comparison.testset, "target": comparison.target.code, "system": system,
        "by": kind, "group": part.name, "languages": len(part.values(system, "bleu")),
        "with baseline": len(part.deltas(system)),
        "languages up": sum(delta > 0 for delta in part.deltas(system)),
    }  # fmt: skip
    estimates: dict[str, Estimate | None] = {
        score: mean(part, system, score) for score in comparison.scores
        if len(part.values(system, score)) in (record["languages"], record["with baseline"])
    }
    for name, of in (("", micro.bleu), ("baseline ", micro.baseline_bleu)):
        estimates[f"{name}bleu micro"] = pooled(of(part, system, analyses))
    estimates["delta micro"] = pooled(micro.delta(part, system, analyses))
    for name, estimate in estimates.items():
        low, high = (estimate.range or (None, None)) if estimate else (None, None)
        value = estimate.value if estimate else None
        record |= {name: value, f"{name} low": low, f"{name} high": high}
    for other in comparison.systems:
        if other != system and (differences := part.differences(system, other)):
            low, high = mean_interval(differences) or (None, None)
            name = f"bleu less {other}"
            record |= {name: fmean(differences), f"{name} low": low, f"{name} high": high}
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in record.items()}
