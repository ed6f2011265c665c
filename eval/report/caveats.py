"""The caveats of a report: scores and analyses that are missing, uneven, doubtful or left out."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from eval.records.analysis import Curve
from eval.records.analysis_index import AnalysisIndex
from eval.records.results import Row, several_origins
from eval.report import cells
from eval.report.comparison import METRICS, SMALL, Comparison, Entry, Group
from mmt import languages

_SIGNATURES = {"bleu": "BLEU", "chrf": "chrF++", "spbleu": "spBLEU", "ter": "TER"}
# Names of the kinds of analysis rows, singular and plural.
_ANALYSES = {
    "interval": ("confidence interval", "confidence intervals"),
    "guards": ("output check", "output checks"),
    "overlap": ("overlap with the training English", "overlap with the training English"),
    "paired": ("significance test against the baseline", "significance tests against the baseline"),
    "counts": ("micro mean (it needs n-gram counts)", "micro means (they need n-gram counts)"),
    "trust": ("grade of the test set", "grades of the test set"),
}
_TRAINING = {
    "cost": "training cost", "curve": "training curve", "recipe": "recipe",
    "routing": "expert routing",
}  # fmt: skip
_BASELINES = "the baselines"
_Side = tuple[Entry, Row]  # a language, and the row of a system or of its baseline


class Note(NamedTuple):
    """A sentence without its full stop, and the languages that it concerns."""

    text: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.text}: {', '.join(self.names)}." if self.names else f"{self.text}."


def on(comparison: Comparison, analyses: AnalysisIndex) -> tuple[Note, ...]:
    """Returns all notes on a comparison: on its scores, then on missing analyses."""
    entries = comparison.entries
    notes = [*_on_baselines(comparison), *_on_small(comparison)]
    for system in comparison.systems:
        lacking = [entry for entry in entries if system not in entry.rows]
        if lacking:
            notes.append(Note(f"{system} has no score for {_count(lacking)}", _names(lacking)))
        for origin in several_origins(e.rows[system] for e in entries if system in e.rows):
            notes.append(Note(f"The scores of {system} have more than one {origin}"))
    notes += _on_doubled(comparison)
    notes += _on_fairness(entries)
    notes += _on_mixtures(comparison)
    notes += _on_outputs(comparison, analyses)
    notes += _on_costs(comparison, analyses)
    for part in comparison.ablations:
        of_part = _on_unshared(part) + _on_small(part) + _on_doubled(part) + _on_mixtures(part)
        of_part += _on_costs(part, analyses)
        notes += [Note(f"Ablation {part.name}: {note.text}", note.names) for note in of_part]
    return (*notes, *(_on_analysis(comparison, analyses) if len(analyses) else ()))


def answer(comparison: Comparison, analyses: AnalysisIndex) -> str:
    """Returns the result of the primary system and its doubts in words; '' without ΔBLEU."""
    primary, group = comparison.primary_system, comparison.compared
    if primary is None or not group.deltas(primary):
        return ""
    result = f"{primary} is better than the bilingual model on {_gain(group, primary)}."
    return f"{result} {doubts(comparison, analyses)}".rstrip()


def _gain(group: Group, system: str) -> str:
    """Returns `94 of 108 languages: +1.0 BLEU on average (95 % interval +0.6 to +1.4)`."""
    deltas, mean = group.deltas(system), cells.mean(group, system, "delta")
    assert mean
    ends = cells.interval(mean, "delta", " (95\N{NO-BREAK SPACE}% interval {})")
    better = f"{sum(delta > 0 for delta in deltas)} of {len(deltas)} languages"
    return f"{better}: {cells.text(mean.value, 'delta')} BLEU on average{ends}"


def doubts(comparison: Comparison, analyses: AnalysisIndex) -> str:
    """Returns a sentence on other causes of the differences to the baselines, or ''.

    It lists causes that affect at least a tenth of the languages: baselines with mostly broken
    outputs or different decoding, and pairs without a correct 4-gram. If baselines are broken, it
    also gives the result without their languages.
    """
    primary = comparison.primary_system or ""
    entries = [entry for entry in comparison.compared.entries if primary in entry.rows]
    rows = [(entry, entry.baseline, entry.rows[primary]) for entry in entries]
    sound = tuple(e for e, baseline, _ in rows if not analyses.broken(baseline))
    broken = len(rows) - len(sound)
    matchless = sum(all(map(analyses.matchless, pair)) for _, *pair in rows)
    unlike = sum(
        baseline is not None and baseline.decode != row.decode for _, baseline, row in rows
    )
    reasons, exclusion = [], ""
    if rows and broken >= len(rows) / 10:
        reasons.append(f"on {broken} of them, most outputs of the bilingual model are broken")
        if sound:
            remaining = _gain(Group("", sound), primary)
            which = "this" if broken == 1 else "these"
            exclusion = f" Without {which}, {primary} is better on {remaining}."
    if rows and matchless >= len(rows) / 10:
        reasons.append(f"on {matchless}, neither model has a correct 4-gram")
    if rows and unlike >= len(rows) / 10:
        reasons.append(f"on {unlike}, the bilingual model was decoded differently")
    return f"However, {_listed(reasons)} (see Caveats).{exclusion}" if reasons else ""


def on_systems(
    systems: Sequence[str], baselines: Sequence[str], analyses: AnalysisIndex
) -> tuple[Note, ...]:
    """Returns notes on systems without rows about their training; one note if no analysis exists.
    """
    if not len(analyses):
        return (
            Note(
                "There is no analysis.jsonl beside the results, so intervals, tests, output "
                "checks, costs, curves, routing and recipes are missing"
            ),
        )
    notes = []
    for kind, meaning in _TRAINING.items():
        expected = [*systems, *(baselines if kind in ("cost", "recipe") else [])]
        lacking = [system for system in expected if system not in analyses.systems(kind)]
        dense = " (a dense model has none)" if kind == "routing" else ""
        if lacking:
            notes.append(Note(f"There is no {meaning} of {', '.join(lacking)}{dense}"))
    return tuple(notes)


def _on_baselines(comparison: Comparison) -> list[Note]:
    entries = comparison.entries
    bare = [entry for entry in entries if entry.baseline is None]
    if not comparison.systems:
        outside = " outside the ablations" if comparison.ablations else ""
        return [Note(f"There is no score of a multilingual system{outside}")]
    if len(bare) == len(entries):
        return [Note("No language has a bilingual baseline, so there is no ΔBLEU")]
    notes = []
    if bare:
        text = f"{len(bare)} of {len(entries)} languages have no bilingual baseline, so no ΔBLEU"
        notes.append(Note(text, _names(bare)))
    lone = [entry for entry in entries if not entry.rows]
    if lone:
        text = f"No multilingual system has a score for {_count(lone)} with a baseline"
        notes.append(Note(text, _names(lone)))
    return notes


def _on_small(comparison: Comparison) -> list[Note]:
    small = [entry for entry in comparison.entries if entry.sentences < SMALL]
    if not small:
        return []
    counts_text = (
        f"{len(small)} of {len(comparison.entries)} languages have fewer than {SMALL} sentences"
    )
    if "small" in comparison.allow:
        return [Note(f"{counts_text}; the means include them, as requested", _names(small))]
    return [
        Note(f"{counts_text}; the means exclude them (--allow small includes them)", _names(small))
    ]


def _on_doubled(comparison: Comparison) -> list[Note]:
    notes = []
    several = Counter((row.system, row.source) for row in comparison.rows)
    for system in dict.fromkeys(row.system for row in comparison.rows):
        doubled = [e for e in comparison.entries if several[system, e.language.code] > 1]
        if doubled:
            text = f"{system} has several scores for {_count(doubled)}"
            notes.append(Note(f"{text}; the last one in the file counts", _names(doubled)))
    return notes


def _on_unshared(ablation: Comparison) -> list[Note]:
    shared = {entry.language.code for entry in ablation.entries}
    codes = dict.fromkeys(row.source for row in ablation.rows if row.source not in shared)
    if not codes:
        return []
    text = f"{len(codes)} of {len(codes) + len(shared)} languages are left out, because not all of"
    names = tuple(languages.find(code).name for code in codes)
    return [Note(f"{text} its systems have them", names)]


def _on_fairness(entries: Sequence[Entry]) -> list[Note]:
    notes = []
    different = {
        "train_pairs": "was trained on a different number of pairs",
        "decode": "was decoded differently",
    }
    for field, meaning in different.items():
        unequal = [
            entry
            for entry in entries
            if entry.baseline
            and any(
                getattr(r, field) != getattr(entry.baseline, field) for r in entry.rows.values()
            )
        ]
        if unequal:
            text = f"The baseline of {_count(unequal)} {meaning}"
            notes.append(Note(text, _names(unequal)))
    uneven = [e for e in entries if len({row.train_pairs for row in e.rows.values()}) > 1]
    if uneven:
        text = f"The systems were trained on different numbers of pairs of {_count(uneven)}"
        text += "; the page shows the number of the first system in the file"
        notes.append(Note(text, _names(uneven)))
    systems = dict.fromkeys(entry.baseline.system for entry in entries if entry.baseline)
    if len(systems) > 1:
        text = f"The baselines come from {len(systems)} bilingual systems ({', '.join(systems)})"
        notes.append(Note(f"{text}; the best one of a language counts"))
    return notes


def _on_mixtures(comparison: Comparison) -> list[Note]:
    """Returns notes on differences that are errors unless allowed."""
    notes = []
    for metric in METRICS:
        signed = [getattr(row, f"{metric}_signature") for row in comparison.used]
        values = Counter(signature for signature in signed if signature is not None)
        if len(values) > 1:
            parts = ", ".join(f"{value} ({count} rows)" for value, count in values.items())
            text = f"{_SIGNATURES[metric]} has several signatures, as allowed: {parts}"
            notes.append(Note(text))
    nameless = [row for row in comparison.used if row.testset_version is None]
    if nameless and len(nameless) < len(comparison.used):
        count = f"{len(nameless)} of {len(comparison.used)} rows"
        notes.append(Note(f"The version of the test set is unknown for {count}"))
    uneven = [e for e in comparison.entries if _versions(e) > 1]
    if uneven:
        text = f"Versions of the test set are mixed, as allowed, for {_count(uneven)}"
        notes.append(Note(text, _names(uneven)))
    return notes


def _on_outputs(comparison: Comparison, analyses: AnalysisIndex) -> list[Note]:
    notes = []
    for system, sides in _sides(comparison, comparison.entries):
        broken = [entry for entry, row in sides if analyses.broken(row)]
        if broken:
            text = (
                f"On {len(broken)} of {len(sides)} languages, at least half of the outputs of "
                f"{system} are copies, empty, much too short or long, looping or in another "
                "language, so BLEU says little"
            )
            notes.append(Note(text, _names(broken)))
        if matchless := [entry for entry, row in sides if analyses.matchless(row)]:
            text = (
                f"The outputs of {system} have no correct 4-gram on {len(matchless)} of "
                f"{len(sides)} languages, so BLEU is only its smoothing (read chrF++ instead)"
            )
            notes.append(Note(text, _names(matchless)))
    return notes


def _on_costs(comparison: Comparison, analyses: AnalysisIndex) -> list[Note]:
    """Returns notes on costs that lack a parent's, or are of another training step than the scores.

    Scores may be from the last step or from the step with the lowest validation loss.
    """
    notes = []
    for system in comparison.systems:
        checkpoints = dict.fromkeys(row.checkpoint for row in comparison.used
                                    if row.system == system)  # fmt: skip
        for cost in analyses.costs(system)[:1]:
            parents = analyses.parent_costs(system).items()
            for parent in (name for name, parent_cost in parents if parent_cost is None):
                text = f"The cost of {system} excludes that of {parent}, from which it started"
                notes.append(Note(f"{text}: {parent} has no cost row"))
            for checkpoint in checkpoints:
                step = checkpoint.rpartition("/")[2].rpartition("+")[2]  # `a/1+2`: an average
                curve = analyses.curve(system)
                if step.isdecimal() and not _is_judged(int(step), cost.steps, curve):
                    text = f"The scores of {system} are from step {int(step):,}"
                    notes.append(Note(f"{text}, its cost and curve from step {cost.steps:,}"))
    return notes


def _is_judged(step: int, last: int, curve: Curve | None) -> bool:
    """Returns whether `mmt evaluate` may choose a step of a run with this last step."""
    measured = zip(curve.steps, curve.validation_loss, strict=True) if curve else ()
    losses = {at: loss for at, loss in measured if loss is not None}
    best = step in losses and losses[step] <= losses.get(last, losses[step])
    return step == last or best


def _on_analysis(comparison: Comparison, analyses: AnalysisIndex) -> list[Note]:
    entries, target = comparison.entries, comparison.target.code
    sides = _sides(comparison, entries)
    notes = _on_rows("interval", sides, analyses.interval)
    notes += _on_rows("guards", sides, analyses.output_checks)
    if any(analyses.train_overlap(row) for _, of_system in sides for _, row in of_system):
        notes += _on_rows("overlap", sides, analyses.train_overlap)
    else:
        text = "BLEU by overlap with the training English was not measured"
        notes.append(Note(f"{text} (mmt report --corpus CORPUS measures it)"))
    for system, of_system in sides:
        if system == _BASELINES:
            continue
        tested = [(entry, row) for entry, row in of_system if entry.baseline]
        lacking = [entry for entry, row in tested if not analyses.paired(row, entry.baseline)]
        notes += _lacking("paired", system, lacking, len(tested))
    notes += _on_rows("counts", _sides(comparison, comparison.all.entries), analyses.sums)
    notes += _on_recipes(comparison, analyses)
    notes += _on_comet(comparison, analyses)
    codes = [(entry, entry.language.code) for entry in entries]
    name = comparison.testset
    lacking = [e for e, code in codes if not analyses.testset_quality(name, code, target)]
    return notes + _lacking("trust", "", lacking, len(codes))


def _sides(comparison: Comparison, entries: Iterable[Entry]) -> list[tuple[str, list[_Side]]]:
    """Returns every system, and the baselines, with their languages and rows."""
    listed = list(entries)
    sides = [
        (system, [(entry, entry.rows[system]) for entry in listed if system in entry.rows])
        for system in comparison.systems
    ]
    return [*sides, (_BASELINES, [(e, e.baseline) for e in listed if e.baseline])]


def _on_rows(
    kind: str, sides: Sequence[tuple[str, list[_Side]]], find: Callable[[Row], Any]
) -> list[Note]:
    """Returns notes on systems without analysis rows of a kind; one note if all lack them."""
    if not any(find(row) is not None for _, of_system in sides for _, row in of_system):
        return [Note(f"There are no {_ANALYSES[kind][1]}")]
    notes = []
    for system, of_system in sides:
        lacking = [entry for entry, row in of_system if find(row) is None]
        notes += _lacking(kind, system, lacking, len(of_system))
    return notes


def _on_recipes(comparison: Comparison, analyses: AnalysisIndex) -> list[Note]:
    notes = []
    for system in comparison.systems:
        scored = {entry.rows[system].config for entry in comparison.entries if system in entry.rows}
        recorded_configs = {recipe.config for recipe in analyses.recipes(system)}
        if recorded_configs and not recorded_configs & scored:
            ours, theirs = (", ".join(sorted(configs)) for configs in (recorded_configs, scored))
            text = f"The recipe of {system} is of config {ours}, but its scores are of {theirs}"
            notes.append(Note(text))
    return notes


def _on_comet(comparison: Comparison, analyses: AnalysisIndex) -> list[Note]:
    """Returns notes on the COMET model and languages without COMET; [] without COMET scores."""
    scores = [comet for row in comparison.used if (comet := analyses.comet(row))]
    if not scores:
        return []
    scored = {comet.source for comet in scores}
    unscored = [entry for entry in comparison.entries if entry.language.code not in scored]
    models = ", ".join(dict.fromkeys(comet.model for comet in scores))
    text = f"COMET is {models}, for the languages that its encoder was trained on"
    missing = f"; {_count(unscored)} have none" if unscored else ""
    return [Note(f"{text}{missing}", _names(unscored))]


def _lacking(kind: str, who: str, entries: Sequence[Entry], total: int) -> list[Note]:
    if not entries:
        return []
    of_whom = f" for {who}" if who else ""
    singular, plural = _ANALYSES[kind]
    if len(entries) == total:
        return [Note(f"There are no {plural}{of_whom}")]
    return [Note(f"There is no {singular}{of_whom} on {_count(entries)}", _names(entries))]


def _versions(entry: Entry) -> int:
    """Returns the number of versions of the test set among its rows, as far as known."""
    rows = [*entry.rows.values(), *([entry.baseline] if entry.baseline else [])]
    named = {row.testset_version for row in rows} - {None}
    return max(len(named), len({row.sentences for row in rows}))


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([*([", ".join(parts[:-1])] if parts[:-1] else []), *parts[-1:]])


def _count(entries: Sequence[Entry]) -> str:
    return f"{len(entries)} language{'' if len(entries) == 1 else 's'}"


def _names(entries: Iterable[Entry]) -> tuple[str, ...]:
    return tuple(entry.language.name for entry in entries)
