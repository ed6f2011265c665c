"""What a reader must know before trusting a report: what is missing, uneven, left out."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from eval.records.analysis import Curve
from eval.records.analysis_index import Evidence
from eval.report import tables
from eval.report.comparison import METRICS, SMALL, Comparison, Entry, Group
from mmt import languages


class Note(NamedTuple):
    """A sentence without its full stop, and the languages that it is about."""

    text: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.text}: {', '.join(self.names)}." if self.names else f"{self.text}."


def on(comparison: Comparison, evidence: Evidence) -> tuple[Note, ...]:
    """All notes on a comparison: its score rows, then the analysis rows that it lacks."""
    entries, systems = comparison.entries, comparison.systems
    found = [*_on_baselines(comparison), *_on_small(comparison)]
    for system in systems:
        lacking = [entry for entry in entries if system not in entry.rows]
        if lacking:
            found.append(Note(f"No row of {system} for {len(lacking)}", _names(lacking)))
        for what in ("checkpoint", "decode", "config"):
            values = Counter(getattr(e.rows[system], what) for e in entries if system in e.rows)
            if len(values) > 1:
                parts = ", ".join(f"{value} for {count}" for value, count in values.items())
                found.append(Note(f"Rows of {system} differ in {what}: {parts}"))
    found += _on_doubled(comparison)
    found += _on_fairness(entries)
    found += _on_mixtures(comparison)
    found += _on_outputs(comparison, evidence)
    found += _on_steps(comparison, evidence)
    for part in comparison.ablations:
        said = _on_unshared(part) + _on_small(part) + _on_doubled(part) + _on_mixtures(part)
        said += _on_steps(part, evidence)
        found += [Note(f"Ablation {part.name}: {note.text}", note.names) for note in said]
    return (*found, *(_on_analysis(comparison, evidence) if len(evidence) else ()))


def answer(comparison: Comparison, evidence: Evidence) -> str:
    """What the figures say, in a sentence about the lead system, and what is doubtful of it; ''
    where nothing is compared.
    """
    lead, group = comparison.lead, comparison.compared
    if lead is None or not group.deltas(lead):
        return ""
    said = f"{lead} is better than the bilingual model on {_gain(group, lead)}."
    return f"{said} {doubts(comparison, evidence)}".rstrip()


def _gain(group: Group, system: str) -> str:
    """`94 of 108: +1.0 BLEU on average (95 % interval +0.6 to +1.4)`."""
    deltas, mean = group.deltas(system), tables.mean(group, system, "delta")
    assert mean
    ends = tables.interval(mean, "delta", " (95\N{NO-BREAK SPACE}% interval {})")
    better = f"{sum(delta > 0 for delta in deltas)} of {len(deltas)}"
    return f"{better}: {tables.text(mean.value, 'delta')} BLEU on average{ends}"


def doubts(comparison: Comparison, evidence: Evidence) -> str:
    """What the differences to the baselines may come from, in a sentence; '' where nothing is odd.

    That is where a tenth of the languages or more have baselines whose outputs are mostly broken or
    decoded otherwise, or a system and a baseline without a single right 4-gram. Where baselines are
    broken, what is left without their languages is said too.
    """
    lead = comparison.lead or ""
    rows = [(e, e.baseline, e.rows[lead]) for e in comparison.compared.entries if lead in e.rows]
    sound = tuple(e for e, baseline, _ in rows if not evidence.broken(baseline))
    broken = len(rows) - len(sound)
    none = sum(all(map(evidence.matchless, pair)) for _, *pair in rows)
    unlike = sum(
        baseline is not None and baseline.decode != row.decode for _, baseline, row in rows
    )
    said, without = [], ""
    if rows and broken >= len(rows) / 10:
        said.append(f"on {broken} most outputs of the bilingual model are broken")
        if sound:
            rest = _gain(Group("", sound), lead)
            without = f" Apart from {'it' if broken == 1 else 'these'}, {lead} is better on {rest}."
    if rows and none >= len(rows) / 10:
        said.append(f"on {none} neither has one 4-gram right")
    if rows and unlike >= len(rows) / 10:
        said.append(f"on {unlike} the bilingual model was decoded otherwise")
    where = "see what is missing or uneven"
    return f"But {_listed(said)}: {where}.{without}" if said else ""


def on_systems(
    systems: Sequence[str], baselines: Sequence[str], evidence: Evidence
) -> tuple[Note, ...]:
    """Which systems lack rows about their training; one note alone where there is no analysis."""
    if not len(evidence):
        return (
            Note(
                "There is no analysis.jsonl beside the results, so there are no intervals, tests, "
                "guards, costs, curves, routing and recipes"
            ),
        )
    found = []
    for kind in ("cost", "curve", "recipe", "routing"):
        asked = [*systems, *(baselines if kind in ("cost", "recipe") else [])]
        lacking = [system for system in asked if system not in evidence.systems(kind)]
        without = " (a system without experts has none)" if kind == "routing" else ""
        if lacking:
            found.append(Note(f"No {kind} row of {', '.join(lacking)}{without}"))
    return tuple(found)


def _on_baselines(comparison: Comparison) -> list[Note]:
    entries = comparison.entries
    bare = [entry for entry in entries if entry.baseline is None]
    if not comparison.systems:
        text = "There is no row of a multilingual system"
        return [Note(f"{text} but of those in the ablations" if comparison.ablations else text)]
    if len(bare) == len(entries):
        return [Note("No language has a bilingual baseline, so there is no ΔBLEU")]
    found = []
    if bare:
        share = f"{len(bare)} of {len(entries)} languages"
        found.append(Note(f"No bilingual baseline, and so no ΔBLEU, for {share}", _names(bare)))
    lone = [entry for entry in entries if not entry.rows]
    if lone:
        text = f"A bilingual baseline without a row of any multilingual system for {len(lone)}"
        found.append(Note(text, _names(lone)))
    return found


def _on_small(comparison: Comparison) -> list[Note]:
    small = [entry for entry in comparison.entries if entry.sentences < SMALL]
    if not small:
        return []
    what = f"{len(small)} of {len(comparison.entries)} languages have fewer than {SMALL} sentences"
    if "small" in comparison.allow:
        return [Note(f"{what}; they count in the means, as was asked for", _names(small))]
    said = "they are shown but left out of the means (--allow small counts them)"
    return [Note(f"{what}; {said}", _names(small))]


def _on_doubled(comparison: Comparison) -> list[Note]:
    found = []
    several = Counter((row.system, row.source) for row in comparison.rows)
    for system in dict.fromkeys(row.system for row in comparison.rows):
        doubled = [e for e in comparison.entries if several[system, e.language.code] > 1]
        if doubled:
            text = f"Several rows of {system}, of which the last one in the file counts, for"
            found.append(Note(f"{text} {len(doubled)}", _names(doubled)))
    return found


def _on_unshared(ablation: Comparison) -> list[Note]:
    shared = {entry.language.code for entry in ablation.entries}
    codes = dict.fromkeys(row.source for row in ablation.rows if row.source not in shared)
    if not codes:
        return []
    text = f"Not all of it have {len(codes)} of {len(codes) + len(shared)} languages, left out"
    return [Note(text, tuple(languages.find(code).name for code in codes))]


def _on_fairness(entries: Sequence[Entry]) -> list[Note]:
    found = []
    for what, said in (("train_pairs", "number of training pairs"), ("decode", "decoding")):
        unequal = [
            entry
            for entry in entries
            if entry.baseline
            and any(getattr(r, what) != getattr(entry.baseline, what) for r in entry.rows.values())
        ]
        if unequal:
            text = f"The baseline has another {said} for {len(unequal)}"
            found.append(Note(text, _names(unequal)))
    uneven = [e for e in entries if len({row.train_pairs for row in e.rows.values()}) > 1]
    if uneven:
        text = "The systems differ in their number of training pairs; shown is the first one's, for"
        found.append(Note(f"{text} {len(uneven)}", _names(uneven)))
    systems = dict.fromkeys(entry.baseline.system for entry in entries if entry.baseline)
    if len(systems) > 1:
        found.append(
            Note(
                f"The baselines come from {len(systems)} bilingual systems ({', '.join(systems)}); "
                f"where a language has several, the best counts"
            )
        )
    return found


def _on_mixtures(comparison: Comparison) -> list[Note]:
    """What was refused had it not been allowed."""
    found = []
    for metric in METRICS:
        signed = [getattr(row, f"{metric}_signature") for row in comparison.used]
        values = Counter(signature for signature in signed if signature is not None)
        if len(values) > 1:
            parts = ", ".join(f"{value} for {count} rows" for value, count in values.items())
            found.append(Note(f"Signatures are mixed, as was allowed: {parts}"))
    nameless = [row for row in comparison.used if row.testset_version is None]
    if nameless and len(nameless) < len(comparison.used):
        text = f"Of which version of the test set {len(nameless)} rows are is not known"
        found.append(Note(f"{text}, of the others it is"))
    uneven = [e for e in comparison.entries if _versions(e) > 1]
    if uneven:
        text = f"Versions of the test set are mixed, as was allowed, for {len(uneven)}"
        found.append(Note(text, _names(uneven)))
    return found


def _on_outputs(comparison: Comparison, evidence: Evidence) -> list[Note]:
    found = []
    for system in (*comparison.systems, ""):
        sides = [(e, e.rows.get(system) if system else e.baseline) for e in comparison.entries]
        there = [(entry, row) for entry, row in sides if row]
        who = system or "the baselines"
        broken = [entry for entry, row in there if evidence.broken(row)]
        if broken:
            text = (
                f"Half of the outputs of {who} or more are copies, empty, much too short or long, "
                f"looping or in another language, so that BLEU says little, for {len(broken)} of "
                f"{len(there)}"
            )
            found.append(Note(text, _names(broken)))
        if none := [entry for entry, row in there if evidence.matchless(row)]:
            text = (
                f"Not one 4-gram in the outputs of {who} is right, so that BLEU is what smoothing "
                f"makes of it (read chrF++), for {len(none)} of {len(there)}"
            )
            found.append(Note(text, _names(none)))
    return found


def _on_steps(comparison: Comparison, evidence: Evidence) -> list[Note]:
    """Which rows are of another step than the last that the system's cost is of, and cannot be of
    the checkpoint of the lowest validation loss, which is judged too.
    """
    found = []
    for system in comparison.systems:
        checkpoints = dict.fromkeys(row.checkpoint for row in comparison.used
                                    if row.system == system)  # fmt: skip
        for cost in evidence.costs(system)[:1]:
            for checkpoint in checkpoints:
                step = checkpoint.rpartition("/")[2].rpartition("+")[2]  # `a/1+2` is their average
                curve = evidence.curve(system)
                if step.isdecimal() and not _is_judged(int(step), cost.steps, curve):
                    text = f"The rows of {system} are of step {int(step):,}"
                    found.append(Note(f"{text}, its cost and curve of step {cost.steps:,}"))
    return found


def _is_judged(step: int, last: int, curve: Curve | None) -> bool:
    """Whether `mmt evaluate` may choose a step of a run that is at its last one."""
    measured = zip(curve.steps, curve.validation_loss, strict=True) if curve else ()
    losses = {at: loss for at, loss in measured if loss is not None}
    best = step in losses and losses[step] <= losses.get(last, losses[step])
    return step == last or best


def _on_analysis(comparison: Comparison, evidence: Evidence) -> list[Note]:
    entries, target = comparison.entries, comparison.target.code
    sides = [
        (f" of {system}", [(e, e.rows[system]) for e in entries if system in e.rows])
        for system in comparison.systems
    ]
    sides.append((" of the baselines", [(e, e.baseline) for e in entries if e.baseline]))
    kinds = {"interval": evidence.interval, "guards": evidence.guards, "overlap": evidence.overlap}
    found: list[Note] = []
    for kind, about in kinds.items():
        said = " with these scores" if kind == "interval" else ""
        if not any(about(row) for _, rows in sides for _, row in rows):
            found.append(Note(f"No {kind} rows"))
            continue
        for who, rows in sides:
            lacking = [entry for entry, row in rows if about(row) is None]
            found += _lacking(kind, who + said, lacking, len(rows))
    for who, rows in sides[:-1]:
        tested = [(entry, row) for entry, row in rows if entry.baseline]
        lacking = [entry for entry, row in tested if not evidence.paired(row, entry.baseline)]
        who += " against the baseline with these scores"
        found += _lacking("paired", who, lacking, len(tested))
    found += _on_counts(comparison, evidence)
    found += _on_recipes(comparison, evidence)
    found += _on_comet(comparison, evidence)
    codes = [(entry, entry.language.code) for entry in entries]
    lacking = [e for e, code in codes if not evidence.trust(comparison.testset, code, target)]
    return found + _lacking("trust", "", lacking, len(codes))


def _on_counts(comparison: Comparison, evidence: Evidence) -> list[Note]:
    """Whose micro means cannot be given."""
    found = []
    for system in (*comparison.systems, ""):
        sides = [
            (e, e.rows.get(system) if system else e.baseline) for e in comparison.all.entries
        ]
        there = [(entry, row) for entry, row in sides if row]
        lacking = [entry for entry, row in there if evidence.sums(row) is None]
        who = f" of {system}" if system else " of the baselines"
        who += " with these scores, and so no micro mean"
        found += _lacking("counts", f"{who}," if len(lacking) < len(there) else who,
                          lacking, len(there))  # fmt: skip
    return found


def _on_recipes(comparison: Comparison, evidence: Evidence) -> list[Note]:
    found = []
    for system in comparison.systems:
        scored = {entry.rows[system].config for entry in comparison.entries if system in entry.rows}
        shown = {recipe.config for recipe in evidence.recipes(system)}
        if shown and not shown & scored:
            ours, theirs = (", ".join(sorted(one)) for one in (shown, scored))
            text = f"The recipe shown of {system} is of config {ours}, its scores are of {theirs}"
            found.append(Note(text))
    return found


def _on_comet(comparison: Comparison, evidence: Evidence) -> list[Note]:
    """Whose scores these are; a report without any is a usual one."""
    scores = [comet for row in comparison.used if (comet := evidence.comet(row))]
    if not scores:
        return []
    scored = {comet.source for comet in scores}
    without = [entry for entry in comparison.entries if entry.language.code not in scored]
    models = ", ".join(dict.fromkeys(comet.model for comet in scores))
    said = f"COMET is by {models}, for the languages that its encoder was trained on"
    return [Note(f"{said}; not for {len(without)}" if without else said, _names(without))]


def _lacking(kind: str, who: str, entries: Sequence[Entry], total: int) -> list[Note]:
    if not entries:
        return []
    if len(entries) == total:
        return [Note(f"No {kind} rows{who}")]
    return [Note(f"No {kind} row{who} for {len(entries)}", _names(entries))]


def _versions(entry: Entry) -> int:
    """How many versions of the test set its rows are on, as far as that is known."""
    rows = [*entry.rows.values(), *([entry.baseline] if entry.baseline else [])]
    named = {row.testset_version for row in rows} - {None}
    return max(len(named), len({row.sentences for row in rows}))


def _listed(said: Sequence[str]) -> str:
    return " and ".join([*([", ".join(said[:-1])] if said[:-1] else []), *said[-1:]])


def _names(entries: Iterable[Entry]) -> tuple[str, ...]:
    return tuple(entry.language.name for entry in entries)
