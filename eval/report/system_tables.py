"""The tables of systems: cost, sample efficiency, experts and risks."""

import re
from collections.abc import Sequence
from statistics import fmean

from matplotlib.ticker import MaxNLocator

from eval.records.analysis import Cost, Curve, ExpertLoad
from eval.records.analysis_index import OUTPUT_CHECKS, AnalysisIndex, measured, order_of_layer
from eval.records.behaviour import BehaviourShares
from eval.records.contrastive import SUMMED, ContrastiveAccuracy, summaries
from eval.records.results import Row
from eval.report.cells import Column, Table, Value, averaged, mean
from eval.report.comparison import Comparison, Group, Score, by_resource, by_size
from mmt import languages

_SHOWN = 3  # values of a field; further ones are only counted


def costs(comparison: Comparison, analyses: AnalysisIndex) -> Table:
    """Returns GShard's Table 1: a row per system, a bilingual one with all its models; empty
    without `cost` rows.

    The mean BLEU of a bilingual system is over the languages that it is the baseline of.
    A student, or a system that started from another system's weights, also has its device-hours
    including those systems, unless the cost of one of them is unknown.
    """
    columns = (
        Column("System"), Column("Parameters", "amount", rank=1),
        Column("active", "amount", "Parameters", rank=2), Column("Device", "text", rank=6),
        Column("Devices", "count", rank=5), Column("Steps", "count", rank=3),
        Column("Steps/s", "amount", rank=4), Column("Tokens", "amount", rank=2),
        Column("Tokens/step", "amount", rank=4), Column("Hours", "amount", rank=3),
        Column("Device-hours", "amount", rank=1),
        Column("with its parents", "amount", "Device-hours", rank=2),
        Column("Mean BLEU", "score", rank=2), Column("Mean ΔBLEU", "delta", rank=1),
        Column("per device-hour", "amount", "ΔBLEU", rank=3),
    )  # fmt: skip
    group = comparison.all
    rows: list[tuple[Value, ...]] = []
    for system in comparison.systems:
        for cost in analyses.costs(system)[:1]:
            delta = group.delta(system)
            hours = _total_hours(system, cost, analyses)
            rows.append((
                system, *_spent([cost]), hours if analyses.parent_costs(system) else None,
                mean(group, system, "bleu"), mean(group, system, "delta"),
                delta / hours if delta is not None and hours else None,
            ))  # fmt: skip
    for system in dict.fromkeys(e.baseline.system for e in comparison.entries if e.baseline):
        if of_models := analyses.costs(system):
            title = f"{system}, {len(of_models)} model{'' if len(of_models) == 1 else 's'}"
            baselines = [entry.baseline for entry in group.entries if entry.baseline]
            bleu = averaged([row.bleu for row in baselines if row.system == system])
            rows.append((title, *_spent(of_models), None, bleu, None, None))
    return Table(columns, tuple(rows)).filled


def efficiency(systems: Sequence[str], analyses: AnalysisIndex) -> Table:
    """Returns GShard's Table 2: target tokens until a loss is reached; empty without `curve` rows.

    The loss is the validation loss if every system has one, else the training loss. It is
    interpolated linearly between measurements.
    """
    curves = {s: curve for s in systems if (curve := analyses.curve(s)) and any(curve.tokens)}
    which = "validation loss"
    reached = {s: measured(curve, curve.validation_loss) for s, curve in curves.items()}
    if not all(reached.values()):
        which = "loss"
        reached = {s: measured(curve, curve.loss) for s, curve in curves.items()}
    reached = {system: points for system, points in reached.items() if points}
    levels = _levels([[loss for _, loss in points] for points in reached.values()])
    at_levels = [Column(f"{level:g}", "amount", which, rank=2) for level in levels]
    columns = (Column("System"), *at_levels, Column("best", "fine", which, rank=1),
               Column("Tokens in all", "amount", rank=1))  # fmt: skip
    rows: list[tuple[Value, ...]] = []
    for system, points in reached.items():
        first = [_reached(points, level) for level in levels]
        best = min(loss for _, loss in points)
        rows.append((system, *first, f"{best:.3f}", max(tokens for tokens, _ in points)))
    return Table(columns, tuple(rows))


def risks(comparison: Comparison, analyses: AnalysisIndex) -> Table:
    """Returns each system's shares of outputs that fail a check; empty without `guards` rows."""
    checked = [Column(check.meaning, "share", rank=1) for check in OUTPUT_CHECKS]
    columns = [Column("System"), *checked]
    columns += [Column("Sentences", "count", rank=2)]
    rows: list[tuple[Value, ...]] = []
    for system in (*comparison.systems, ""):
        about = [e.rows.get(system) if system else e.baseline for e in comparison.entries]
        of_rows = [guards for row in about if (guards := analyses.output_checks(row))]
        if not of_rows:
            continue
        shares: list[Value] = []
        for guard in OUTPUT_CHECKS:
            shares_known = [
                (s, g.sentences) for g in of_rows if (s := getattr(g, guard.name)) is not None
            ]
            weight = sum(sentences for _, sentences in shares_known)
            shares.append(sum(s * n for s, n in shares_known) / weight if weight else None)
        rows.append((system or "baselines", *shares, sum(g.sentences for g in of_rows)))
    return Table(tuple(columns), tuple(rows)).filled


def experts(rows: Sequence[ExpertLoad]) -> Table:
    """Returns a row per layer of one system: the balance of its experts, as means over languages.
    """
    columns = (
        Column("Layer"), Column("Experts", "count", rank=2),
        Column("× fair share", "score", "Busiest expert", rank=1),
        Column("× fair share", "score", "Idlest expert", rank=1),
        Column("mean", "share", "Tokens dropped", rank=1),
        Column("largest of a language", "share", "Tokens dropped", rank=2),
        Column("mean", "fine", "Entropy", rank=1),
        Column("smallest of a language", "fine", "Entropy", rank=2),
        Column("mean", "fine", "Gate", rank=1),
        Column("smallest of a language", "fine", "Gate", rank=2),
        Column("largest of a language", "fine", "Gate", rank=2),
        Column("Languages", "count", rank=3),
    )  # fmt: skip
    by_layer: dict[str, list[ExpertLoad]] = {}
    for row in rows:
        by_layer.setdefault(row.layer, []).append(row)
    lines: list[tuple[Value, ...]] = []
    for layer in sorted(by_layer, key=order_of_layer):
        of_layer = by_layer[layer]
        load = [fmean(shares) for shares in zip(*(row.load for row in of_layer), strict=True)]
        drops, spread = [row.drop_rate for row in of_layer], [row.entropy for row in of_layer]
        gates = [row.gate for row in of_layer if row.gate is not None]
        used = [_fine(of(gates)) if gates else None for of in (fmean, min, max)]
        lines.append((
            layer, len(load), max(load) * len(load), min(load) * len(load), fmean(drops),
            max(drops), _fine(fmean(spread)), _fine(min(spread)), *used, len(of_layer),
        ))  # fmt: skip
    return Table(columns, tuple(lines)).filled


def behaviours(rows: Sequence[BehaviourShares]) -> Table:
    """Returns a row per behaviour of one system: the share of the cases passed, over languages."""
    columns = (
        Column("Behaviour"), Column("passed, mean", "share", rank=1),
        Column("needed", "share", rank=2), Column("lowest", "share", rank=1),
        Column("of"), Column("Languages", "count", rank=2), Column("Cases", "count", rank=3),
    )  # fmt: skip
    lines: list[tuple[Value, ...]] = []
    for name in dict.fromkeys(name for row in rows for name in row.shares):
        of_languages = [row for row in rows if name in row.shares]
        lowest = min(of_languages, key=lambda row: row.shares[name])
        lines.append((
            name, fmean(row.shares[name] for row in of_languages), lowest.needed[name],
            lowest.shares[name], languages.name_of(lowest.source), len(of_languages),
            sum(row.cases[name] for row in of_languages),
        ))  # fmt: skip
    return Table(columns, tuple(lines))


def contrastive(analyses: AnalysisIndex) -> Table:
    """Returns a row per system, test set, number of previous lines and phenomenon: the share of the
    contrastive examples of all languages whose reference is more likely, by context.
    """
    columns = (
        Column("System"), Column("Test set", rank=2), Column("Lines", "count", rank=2),
        Column("Word"), Column("in context", "share", "Right", rank=1),
        Column("without", "share", "Right", rank=1),
        Column("with another document's", "share", "Right", rank=1),
        Column("Examples", "count", rank=2), Column("Languages", "count", rank=3),
    )  # fmt: skip
    lines: list[tuple[Value, ...]] = []
    for system in analyses.systems("contrastive"):
        by_set: dict[tuple[str, int], list[ContrastiveAccuracy]] = {}
        for row in analyses.contrastive(system):
            by_set.setdefault((row.testset, row.context_lines), []).append(row)
        for (testset, count), rows in by_set.items():
            for name, sums in summaries(rows).items():
                sources = {row.source for row in rows if row.phenomenon in SUMMED[name]}
                right = sums.in_context, sums.without_context, sums.other_context
                shares = (number / sums.examples for number in right)
                lines.append((system, testset, count, name, *shares, sums.examples, len(sources)))
    return Table(columns, tuple(lines))


def ablation(comparison: Comparison, analyses: AnalysisIndex) -> Table:
    """Returns a row per value of an ablation, over the languages that all systems have.

    Rows are sorted by value. Systems outside the ablation that have these languages follow, as
    `system NAME`. A validation loss is the last one, over the languages that all systems measured.
    If a system's loss is not known by language, each loss is over its own languages. Source use is
    the last one measured: the loss with another line's source less the loss.
    """
    group = comparison.all
    columns = [
        Column(comparison.name), Column("Languages", "count", rank=3),
        Column("Mean BLEU", "score", rank=1), Column("Mean chrF++", "score", rank=2),
        Column("Mean ΔBLEU", "delta", rank=1),
    ]  # fmt: skip
    parts = [part for part in by_resource(group) if part.entries]
    columns += [Column("BLEU", "score", part.name, rank=4) for part in parts]
    columns += [
        Column("Validation loss", "fine", rank=1), Column("Source use", "fine", rank=2),
        Column("Steps", "count", rank=2), Column("Device-hours", "amount", rank=2),
        Column("with its parents", "amount", "Device-hours", rank=3),
    ]  # fmt: skip
    systems = (*sorted(comparison.systems, key=_by_value), *comparison.references)
    codes = {entry.language.code for entry in group.entries}
    losses = _last_losses([analyses.curve(system) for system in systems], codes)
    rows: list[tuple[Value, ...]] = []
    for system, loss in zip(systems, losses, strict=True):
        cost = next(iter(analyses.costs(system)), None)
        varied = system in comparison.systems
        has_parents = bool(analyses.parent_costs(system))
        rows.append((
            system.partition(":")[2].strip() if varied else f"system {system}",
            len(group.values(system, "bleu")),
            mean(group, system, "bleu"), group.chrf(system), mean(group, system, "delta"),
            *(mean(part, system, "bleu") for part in parts), f"{loss:.3f}" if loss else None,
            _last_source_use(analyses.curve(system)),
            cost.steps if cost else None, cost.device_hours if cost else None,
            _total_hours(system, cost, analyses) if cost and has_parents else None,
        ))  # fmt: skip
    return Table(tuple(columns), tuple(rows)).filled


def gains(comparison: Comparison) -> Table:
    """Returns what each value of an ablation gives to large and small languages.

    These are differences to the only system outside the ablation, with 95 % intervals over the
    languages that means include. Empty without such a system, or with several.
    """
    if len(comparison.references) != 1:
        return Table((), ())
    (control,) = comparison.references
    all_languages = Group(f"all {len(comparison.all.entries)}", comparison.all.entries)
    parts = [part for part in (*by_size(all_languages), all_languages) if part.entries]
    metrics: tuple[tuple[Score, str], ...] = (("bleu", "BLEU"), ("chrf", "chrF++"))
    columns = [
        Column(part.name, "difference", f"{title} less {control}", rank=rank)
        for rank, (_, title) in enumerate(metrics, 1)
        for part in parts
    ]
    rows: list[tuple[Value, ...]] = []
    for system in sorted(comparison.systems, key=_by_value):
        differences = [
            averaged(part.differences(system, control, metric))
            for metric, _ in metrics
            for part in parts
        ]
        rows.append((system.partition(":")[2].strip(), *differences))
    return Table((Column(comparison.name), *columns), tuple(rows)).filled


def _last_source_use(curve: Curve | None) -> str | None:
    values = [value for value in curve.source_use if value is not None] if curve else []
    return f"{values[-1]:.3f}" if values else None


def _last_losses(curves: Sequence[Curve | None], codes: set[str]) -> list[float | None]:
    last = [measured(curve, curve.validation_loss)[-1:] if curve else [] for curve in curves]
    of_each = [
        curve.language_validation_loss
        for curve, last_point in zip(curves, last, strict=True)
        if curve and last_point
    ]
    shared = codes.intersection(*of_each) if of_each else set()
    if shared:
        mean_losses = iter(fmean(losses[code] for code in shared) for losses in of_each)
        return [next(mean_losses) if last_point else None for last_point in last]
    return [last_point[0][1] if last_point else None for last_point in last]


def recipe(comparison: Comparison) -> Table:
    """Returns a row per system: checkpoint, decoding, and translation speed."""
    columns = (
        Column("System"), Column("Kind", rank=2), Column("Checkpoint", "code", rank=3),
        Column("Decoding", "code", rank=2), Column("Config", "code", rank=3),
        Column("Languages", "count", rank=1), Column("Sentences", "count", rank=1),
        Column("Seconds", "count", rank=4), Column("Sentences/s", "count", rank=2),
    )  # fmt: skip
    used = [*comparison.used, *(row for part in comparison.ablations for row in part.used)]
    rows: list[tuple[Value, ...]] = []
    for system in dict.fromkeys(row.system for row in used):
        of_system = list(dict.fromkeys(row for row in used if row.system == system))
        seconds = sum(row.seconds for row in of_system)
        sentences = sum(row.sentences for row in of_system)
        rows.append((
            system, of_system[0].kind,
            *(_several(of_system, name) for name in ("checkpoint", "decode", "config")),
            len(of_system), sentences, round(seconds),
            round(sentences / seconds) if seconds > 1e-9 else None,
        ))  # fmt: skip
    return Table(columns, tuple(rows))


def signatures(comparison: Comparison) -> list[tuple[str, str]]:
    """Returns (metric, sacreBLEU signature) for every signature in use."""
    names = {"bleu": "BLEU", "chrf": "chrF++", "spbleu": "spBLEU", "ter": "TER"}
    in_use = {
        (name, getattr(row, f"{metric}_signature")): None
        for metric, name in names.items()
        for row in comparison.used
    }
    return [(name, signature) for name, signature in in_use if signature is not None]


def _spent(costs: Sequence[Cost]) -> list[Value]:
    """Returns the cells from Parameters to Device-hours; sums for several models."""
    seconds, steps = sum(cost.seconds for cost in costs), sum(cost.steps for cost in costs)
    tokens, hours = sum(c.tokens for c in costs), sum(c.device_hours for c in costs)
    return [
        sum(cost.parameters for cost in costs), sum(cost.active_parameters for cost in costs),
        ", ".join(dict.fromkeys(cost.device for cost in costs)),
        max(cost.devices for cost in costs), steps, steps / seconds if seconds > 1e-9 else None,
        tokens, tokens / steps if steps else None, seconds / 3600, hours,
    ]  # fmt: skip


def _total_hours(system: str, cost: Cost, analyses: AnalysisIndex) -> float | None:
    """Returns device-hours of a system and the systems it started from; None if one is unknown."""
    costs = [cost, *analyses.parent_costs(system).values()]
    hours = [each.device_hours for each in costs if each]
    return sum(hours) if len(hours) == len(costs) else None


def _fine(value: float) -> str:
    """Returns three decimals, without negative zero."""
    return f"{round(value, 3) + 0.0:.3f}"


def _levels(losses: Sequence[Sequence[float]]) -> list[float]:
    """Returns round losses, high to low, between the worst system's best and the best system's
    best.

    For one system, or similar ones, the range starts halfway between the median and the best.
    """
    if not losses:
        return []
    low = min(min(series) for series in losses)
    middle = sorted(losses[0])[len(losses[0]) // 2]
    high = max(max(min(series) for series in losses), (low + middle) / 2)
    ticks = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    return sorted((float(tick) for tick in ticks if tick >= low), reverse=True)


def _reached(points: Sequence[tuple[float, float]], level: float) -> float | None:
    """Returns the tokens at which a curve first falls to a level, by linear interpolation.

    >>> _reached([(0, 5.0), (10, 4.0), (20, 3.0)], 3.5)
    15.0
    """
    before: tuple[float, float] | None = None
    for tokens, loss in points:
        if loss <= level:
            if before is None:
                return tokens
            return before[0] + (tokens - before[0]) * (before[1] - level) / (before[1] - loss)
        before = tokens, loss
    return None


def _by_value(system: str) -> list[str | float]:
    """Returns a sort key with numbers as numbers: 5, 20, T5, T20, UniMax."""
    parts = re.split(r"(\d+(?:\.\d+)?)", system.partition(":")[2].strip())
    return [float(part) if i % 2 else part for i, part in enumerate(parts)]


def _several(rows: Sequence[Row], name: str) -> str:
    """Returns the values of a field; if there are many, the first ones and their number."""
    values = list(dict.fromkeys(getattr(row, name) for row in rows))
    rest = f", … ({len(values)})" if len(values) > _SHOWN else ""
    return ", ".join(values[:_SHOWN]) + rest
