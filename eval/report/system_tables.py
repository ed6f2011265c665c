"""The tables of systems: what they cost, how fast they learnt, their experts, risks and recipes."""

import difflib
import itertools
import re
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from matplotlib.ticker import MaxNLocator

from eval.records.analysis import Cost, Curve, Recipe, Routing
from eval.records.analysis_index import GUARDS, Evidence, measured, order_of_layer
from eval.records.results import Row
from eval.report import micro
from eval.report.comparison import Comparison, Entry, Group, by_resource, mean_interval
from eval.report.tables import Column, Estimate, Record, Table, Value, averaged, mean, pooled
from mmt import languages

_SHOWN = 3  # values of a field before the others are only counted


class Made(NamedTuple):
    """How a system was made, for a folded block. languages: names, of baselines made so."""

    title: str
    facts: tuple[tuple[str, str], ...]
    text: str
    languages: tuple[str, ...]


def costs(comparison: Comparison, evidence: Evidence) -> Table:
    """GShard's Table 1: a row per system and one for all baselines; empty without `cost` rows.

    Beside the device-hours of a student, and of a system that began with another's weights, stand
    those with its parents', which it needs too.
    """
    columns = (
        Column("System"), Column("Parameters", "amount"), Column("active", "amount"),
        Column("Device", "text"), Column("Devices", "count"), Column("Steps", "count"),
        Column("Steps/s", "amount"), Column("Tokens", "amount"), Column("Tokens/step", "amount"),
        Column("Hours", "amount"), Column("Device-hours", "amount"),
        Column("with its parents", "amount", "Device-hours"), Column("Mean BLEU", "score"),
        Column("Mean ΔBLEU", "delta"), Column("ΔBLEU per device-hour", "amount"),
    )  # fmt: skip
    group = comparison.all
    rows: list[tuple[Value, ...]] = []
    for system in comparison.systems:
        for cost in evidence.costs(system)[:1]:
            delta = group.delta(system)
            more = _with_parents(system, cost, evidence)
            hours = cost.device_hours if more is None else more
            rows.append((
                system, *_spent([cost]), more,
                mean(group, system, "bleu"), mean(group, system, "delta"),
                delta / hours if delta is not None and hours else None,
            ))  # fmt: skip
    for system in dict.fromkeys(e.baseline.system for e in comparison.entries if e.baseline):
        if found := evidence.costs(system):
            title = f"{system}, {len(found)} models in all"
            rows.append((title, *_spent(found), None, averaged(group.baseline_bleus), None, None))
    return Table(columns, tuple(rows)).filled


def efficiency(systems: Sequence[str], evidence: Evidence) -> Table:
    """GShard's Table 2: target tokens until a loss is reached; empty without `curve` rows.

    It is the validation loss where every system has one, else the training loss; between two
    measurements it is taken to fall evenly.
    """
    curves = {s: curve for s in systems if (curve := evidence.curve(s)) and any(curve.tokens)}
    which = "validation loss"
    reached = {s: measured(curve, curve.validation_loss) for s, curve in curves.items()}
    if not all(reached.values()):
        which = "loss"
        reached = {s: measured(curve, curve.loss) for s, curve in curves.items()}
    reached = {system: seen for system, seen in reached.items() if seen}
    levels = _levels([[loss for _, loss in seen] for seen in reached.values()])
    columns = (Column("System"), *(Column(f"{level:g}", "amount", which) for level in levels))
    columns += (Column("best", "fine", which), Column("Tokens in all", "amount"))
    rows: list[tuple[Value, ...]] = []
    for system, seen in reached.items():
        first = [_reached(seen, level) for level in levels]
        best = min(loss for _, loss in seen)
        rows.append((system, *first, f"{best:.3f}", max(tokens for tokens, _ in seen)))
    return Table(columns, tuple(rows))


def risks(comparison: Comparison, evidence: Evidence) -> Table:
    """Shares of all outputs of a system that each guard holds for; empty without `guards` rows."""
    columns = [Column("System"), *(Column(guard.meaning, "share") for guard in GUARDS)]
    columns += [Column("Sentences", "count")]
    rows: list[tuple[Value, ...]] = []
    for system in (*comparison.systems, ""):
        about = [e.rows.get(system) if system else e.baseline for e in comparison.entries]
        found = [guards for row in about if (guards := evidence.guards(row))]
        if not found:
            continue
        shares: list[Value] = []
        for guard in GUARDS:
            known = [(s, g.sentences) for g in found if (s := getattr(g, guard.name)) is not None]
            weight = sum(sentences for _, sentences in known)
            shares.append(sum(s * n for s, n in known) / weight if weight else None)
        rows.append((system or "baselines", *shares, sum(g.sentences for g in found)))
    return Table(tuple(columns), tuple(rows)).filled


def experts(rows: Sequence[Routing]) -> Table:
    """A row per layer of one system: how evenly its experts are used; means over languages."""
    columns = (
        Column("Layer"), Column("Experts", "count"), Column("Busiest expert, × fair", "score"),
        Column("Idlest expert, × fair", "score"), Column("Tokens dropped", "share"),
        Column("most, of a language", "share"), Column("Entropy", "fine"),
        Column("least, of a language", "fine"), Column("Languages", "count"),
    )  # fmt: skip
    found: dict[str, list[Routing]] = {}
    for row in rows:
        found.setdefault(row.layer, []).append(row)
    lines: list[tuple[Value, ...]] = []
    for layer in sorted(found, key=order_of_layer):
        here = found[layer]
        load = [fmean(shares) for shares in zip(*(row.load for row in here), strict=True)]
        drops, spread = [row.drop_rate for row in here], [row.entropy for row in here]
        lines.append((
            layer, len(load), max(load) * len(load), min(load) * len(load), fmean(drops),
            max(drops), f"{fmean(spread):.3f}", f"{min(spread):.3f}", len(here),
        ))  # fmt: skip
    return Table(columns, tuple(lines))


def ablation(comparison: Comparison, evidence: Evidence) -> Table:
    """A row per value of what was varied, over the languages that all have; by value if numbers.

    The systems outside of the ablation that have these languages follow, as `system NAME`. A
    validation loss is the last one measured, over those of these languages that all systems
    measured; where one does not say on which it did, each is over its own.
    """
    group = comparison.all
    columns = [Column(comparison.name), Column("Languages", "count"), Column("Mean BLEU", "score"),
               Column("Mean chrF++", "score"), Column("Mean ΔBLEU", "delta")]  # fmt: skip
    parts = [part for part in by_resource(group) if part.entries]
    columns += [Column("BLEU", "score", part.name) for part in parts]
    columns += [Column("Validation loss", "fine"), Column("Steps", "count"),
                Column("Device-hours", "amount"),
                Column("with its parents", "amount", "Device-hours")]  # fmt: skip
    systems = (*sorted(comparison.systems, key=_by_value), *comparison.references)
    codes = {entry.language.code for entry in group.entries}
    losses = _last_losses([evidence.curve(system) for system in systems], codes)
    rows: list[tuple[Value, ...]] = []
    for system, loss in zip(systems, losses, strict=True):
        cost = next(iter(evidence.costs(system)), None)
        varied = system in comparison.systems
        rows.append((
            system.partition(":")[2].strip() if varied else f"system {system}",
            len(group.values(system, "bleu")),
            mean(group, system, "bleu"), group.chrf(system), mean(group, system, "delta"),
            *(mean(part, system, "bleu") for part in parts), f"{loss:.3f}" if loss else None,
            cost.steps if cost else None, cost.device_hours if cost else None,
            _with_parents(system, cost, evidence) if cost else None,
        ))  # fmt: skip
    return Table(tuple(columns), tuple(rows)).filled


def _last_losses(curves: Sequence[Curve | None], codes: set[str]) -> list[float | None]:
    last = [measured(curve, curve.validation_loss)[-1:] if curve else [] for curve in curves]
    of_each = [curve.language_validation_loss for curve, here in zip(curves, last, strict=True)
               if curve and here]  # fmt: skip
    shared = codes.intersection(*of_each) if of_each else set()
    if shared:
        means = iter(fmean(losses[code] for code in shared) for losses in of_each)
        return [next(means) if here else None for here in last]
    return [here[0][1] if here else None for here in last]


def recipe(comparison: Comparison) -> Table:
    """A row per system: what was run, how, and how long translating took."""
    columns = (
        Column("System"), Column("Kind"), Column("Checkpoint", "code"), Column("Decoding", "code"),
        Column("Config", "code"), Column("Languages", "count"), Column("Sentences", "count"),
        Column("Seconds", "count"), Column("Sentences/s", "count"),
    )  # fmt: skip
    used = [*comparison.used, *(row for one in comparison.ablations for row in one.used)]
    rows: list[tuple[Value, ...]] = []
    for system in dict.fromkeys(row.system for row in used):
        here = list(dict.fromkeys(row for row in used if row.system == system))
        seconds = sum(row.seconds for row in here)
        sentences = sum(row.sentences for row in here)
        rows.append((
            system, here[0].kind,
            *(_several(here, name) for name in ("checkpoint", "decode", "config")),
            len(here), sentences, round(seconds),
            round(sentences / seconds) if seconds > 1e-9 else None,
        ))  # fmt: skip
    return Table(columns, tuple(rows))


def recipes(systems: Iterable[str], evidence: Evidence) -> list[Made]:
    """Every system's config; of baselines each different one, as a difference to the first."""
    made = []
    for system in systems:
        alike: dict[tuple[str, str], list[Recipe]] = {}
        for row in evidence.recipes(system):
            alike.setdefault((row.text, row.chosen), []).append(row)
        first = ""
        for (text, chosen), rows in alike.items():
            names = tuple(languages.find(row.source).name for row in rows if row.source)
            facts = [("config", ", ".join(dict.fromkeys(row.config for row in rows)))]
            facts += [("chosen", chosen)] if chosen else []
            facts += [("seed", ", ".join(dict.fromkeys(str(row.seed) for row in rows)))]
            hashes = (
                ("corpus", [row.corpus for row in rows if row.corpus]),
                ("vocabulary", [one for row in rows for one in row.vocabulary.values()]),
            )
            facts += [(name, ", ".join(dict.fromkeys(found))) for name, found in hashes if found]
            facts += [(name, version) for name, version in sorted(rows[0].versions.items())]
            count = f", {len(names)} language{'' if len(names) == 1 else 's'}" if names else ""
            made.append(Made(f"{system}{count}", tuple(facts), _unlike(first, text), names))
            first = first or text
    return made


def signatures(comparison: Comparison) -> list[tuple[str, str]]:
    """(metric, sacreBLEU signature) for every signature in use."""
    names = {"bleu": "BLEU", "chrf": "chrF++", "spbleu": "spBLEU", "ter": "TER"}
    found = {
        (name, getattr(row, f"{metric}_signature")): None
        for metric, name in names.items()
        for row in comparison.used
    }
    return [(name, signature) for name, signature in found if signature is not None]


def pairs(comparison: Comparison, evidence: Evidence) -> list[Record]:
    """For programs: a record per language and two multilingual systems, each two once, of the
    comparison or of one of its ablations; with interval and tests, where they were tested.
    """
    found = []
    for part in (comparison, *comparison.ablations):
        for system, other in itertools.combinations(part.systems, 2):
            for entry in part.entries:
                if system in entry.rows and other in entry.rows:
                    found.append(_pair(comparison, entry, system, other, evidence))
    return found


def _pair(
    comparison: Comparison, entry: Entry, system: str, other: str, evidence: Evidence
) -> Record:
    ours, theirs = entry.rows[system], entry.rows[other]
    test = evidence.paired(ours, theirs)
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


def means(comparison: Comparison, evidence: Evidence) -> list[Record]:
    """For programs: a record per system and group, with macro and micro means and intervals."""
    group = comparison.all
    groups = [("all", group), *(("resource", part) for part in by_resource(group))]
    groups += [("script", part) for part in comparison.by(lambda one: one.script)]
    groups += [("family", part) for part in comparison.by(lambda one: one.family)]
    found = []
    for system in comparison.systems:
        for kind, part in groups:
            if part.values(system, "bleu"):
                found.append(_means(comparison, system, kind, part, evidence))
    return found


def _means(
    comparison: Comparison, system: str, kind: str, part: Group, evidence: Evidence
) -> Record:
    record: Record = {
        "testset": comparison.testset, "target": comparison.target.code, "system": system,
        "by": kind, "group": part.name, "languages": len(part.values(system, "bleu")),
        "with baseline": len(part.deltas(system)),
        "languages up": sum(delta > 0 for delta in part.deltas(system)),
    }  # fmt: skip
    found: dict[str, Estimate | None] = {
        score: mean(part, system, score) for score in comparison.scores
        if len(part.values(system, score)) in (record["languages"], record["with baseline"])
    }
    for name, of in (("", micro.bleu), ("baseline ", micro.baseline_bleu)):
        found[f"{name}bleu micro"] = pooled(of(part, system, evidence))
    found["delta micro"] = pooled(micro.delta(part, system, evidence))
    for name, one in found.items():
        low, high = (one.range or (None, None)) if one else (None, None)
        record |= {name: one.value if one else None, f"{name} low": low, f"{name} high": high}
    for other in comparison.systems:
        if other != system and (less := part.differences(system, other)):
            low, high = mean_interval(less) or (None, None)
            name = f"bleu less {other}"
            record |= {name: fmean(less), f"{name} low": low, f"{name} high": high}
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in record.items()}


def _spent(found: Sequence[Cost]) -> list[Value]:
    """From Parameters to Device-hours; of several models the sums."""
    seconds, steps = sum(cost.seconds for cost in found), sum(cost.steps for cost in found)
    tokens, hours = sum(c.tokens for c in found), sum(c.device_hours for c in found)
    return [
        sum(cost.parameters for cost in found), sum(cost.active_parameters for cost in found),
        ", ".join(dict.fromkeys(cost.device for cost in found)),
        max(cost.devices for cost in found), steps, steps / seconds if seconds > 1e-9 else None,
        tokens, tokens / steps if steps else None, seconds / 3600, hours,
    ]  # fmt: skip


def _with_parents(system: str, cost: Cost, evidence: Evidence) -> float | None:
    """Its device-hours and those of the systems that it needed first; None where it needed none."""
    before = evidence.before(system)
    return sum(one.device_hours for one in (cost, *before)) if before else None


def _levels(losses: Sequence[Sequence[float]]) -> list[float]:
    """Round losses, high to low, between the worst system's best and the best system's best.

    For one system, or systems that are close, from halfway between its median and its best.
    """
    if not losses:
        return []
    low = min(min(seen) for seen in losses)
    middle = sorted(losses[0])[len(losses[0]) // 2]
    high = max(max(min(seen) for seen in losses), (low + middle) / 2)
    ticks = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    return sorted((float(tick) for tick in ticks if tick >= low), reverse=True)


def _reached(seen: Sequence[tuple[float, float]], level: float) -> float | None:
    """The tokens at which a curve first comes down to a level, on the line between two points.

    >>> _reached([(0, 5.0), (10, 4.0), (20, 3.0)], 3.5)
    15.0
    """
    before: tuple[float, float] | None = None
    for tokens, loss in seen:
        if loss <= level:
            if before is None:
                return tokens
            return before[0] + (tokens - before[0]) * (before[1] - level) / (before[1] - loss)
        before = tokens, loss
    return None


def _unlike(first: str, text: str) -> str:
    """A text, or what differs from the first one where that is shorter."""
    if not first:
        return text
    lines = difflib.unified_diff(
        first.splitlines(), text.splitlines(), "the first one", "this one", n=0, lineterm=""
    )
    difference = "\n".join(lines)
    return difference if len(difference) < len(text) else text


def _by_value(system: str) -> list[str | float]:
    """By the numbers in it, as numbers, and the words between: 5, 20, T5, T20, UniMax."""
    parts = re.split(r"(\d+(?:\.\d+)?)", system.partition(":")[2].strip())
    return [float(part) if place % 2 else part for place, part in enumerate(parts)]


def _several(rows: Sequence[Row], name: str) -> str:
    """The values of a field: all of them if they are few, else the first ones and their number."""
    values = list(dict.fromkeys(getattr(row, name) for row in rows))
    more = f", … ({len(values)})" if len(values) > _SHOWN else ""
    return ", ".join(values[:_SHOWN]) + more
