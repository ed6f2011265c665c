"""The corpora of a system as tables: what it has seen of them, their cleaning, and what they give.

Rows of analysis.jsonl are `corpora` (eval/analyses/provenance.py) and `corpus_effect`
(eval/analyses/corpus_effects.py).
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from eval.analyses.mean_interval import ConfidenceInterval
from eval.records.analysis_index import AnalysisIndex
from eval.records.provenance import GROUPS, CorpusEffect, CorpusUse
from eval.records.results import Row
from eval.report.caveats import Note
from eval.report.cells import Column, Estimate, Table, Value
from mmt import languages

_OVERLAP = "overlap"
_NOT_CLEANED, _NOT_CHECKED = "not cleaned", "not checked"
_HAVE = {"with": "Have it and others", "only": "Have only it", "others": "Do not have it"}


class Use(NamedTuple):
    """A corpus of one language (FLORES code)."""

    source: str
    of: CorpusUse


@dataclasses.dataclass(frozen=True)
class CorporaPart:
    """The part of the page on the corpora of one system."""

    system: str
    notes: tuple[Note, ...]
    totals: Table  # a row per corpus
    effects: Table  # a row per corpus and test set
    rules: Table  # a row per corpus, a column per cleaning rule
    languages: Table  # a row per language and corpus


def parts(analyses: AnalysisIndex, rows: Sequence[Row]) -> list[CorporaPart]:
    """Returns the part of each scored system with `corpora` rows, but ablations, `NAME:VALUE`.

    rows: the scores of the report. Effects that were measured with other checkpoints are left out.
    """
    scored = {row.system for row in rows if ":" not in row.system}
    systems = [system for system in analyses.systems("corpora") if system in scored]
    return [_part(system, analyses, rows) for system in systems]


def _part(system: str, analyses: AnalysisIndex, rows: Sequence[Row]) -> CorporaPart:
    of_system = analyses.corpora(system)
    uses = [Use(row.source, use) for row in of_system for use in row.corpora]
    all_effects = analyses.corpus_effects(system)
    latest = {(row.system, row.testset, row.target, row.source): row.checkpoint for row in rows}
    score_checkpoints = {(*key[:3], checkpoint) for key, checkpoint in latest.items()}
    effects = [effect for effect in all_effects if _is_current(effect, score_checkpoints)]
    notes = _notes(uses, effects, named=all(row.named for row in of_system))
    if len(effects) < len(all_effects):
        stale = dict.fromkeys(effect.corpus for effect in all_effects if effect not in effects)
        notes.append(Note("Effects of other checkpoints than the scores, not shown", tuple(stale)))
    return CorporaPart(
        system, tuple(notes), _totals(uses), _effects(effects), _rules(uses),
        _by_language(uses, effects),
    )  # fmt: skip


def _is_current(effect: CorpusEffect, score_checkpoints: set[tuple[str, str, str, str]]) -> bool:
    testset_key = effect.testset, effect.target
    pairs = (effect.system, effect.checkpoint), (effect.against, effect.against_checkpoint)
    return all(
        (system, *testset_key, checkpoint) in score_checkpoints for system, checkpoint in pairs
    )


def _notes(
    uses: Sequence[Use], effects: Sequence[CorpusEffect], *, named: bool
) -> list[Note]:
    notes = []
    if not named:
        notes.append(Note(
            "The cache names no corpora (it was built by an earlier version or from SeqIO's cache):"
            " all text of a language counts as one corpus"
        ))  # fmt: skip
    if any(use.of.examples is None for use in uses):
        notes.append(Note("The examples seen are not known: the run counted none"))
    unknown = [use for use in uses if use.of.examples and use.of.loss is None]
    if unknown:
        notes.append(Note(
            "The training loss of some corpora is not known: a run of an earlier version sums it up"
            " by language, and the second half of a short run may have none",
            _named(use.source for use in unknown),
        ))  # fmt: skip
    if any(use.of.read is None for use in uses if not use.of.text):
        notes.append(Note(
            "Corpora without cleaning rules were not compared with test sets; [clean] in the "
            "corpus.toml, or `mmt data prepare`, does that"
        ))  # fmt: skip
    for test, count in _overlaps(uses).items():
        places = dict.fromkeys(use.of.listed for use in uses if use.of.overlap.get(test))
        listed_in = f", listed in {', '.join(filter(None, places))}" if any(places) else ""
        notes.append(Note(f"Overlap with {test}: {count:,} training pairs were removed{listed_in}"))
    if not effects:
        notes.append(Note(
            "What each corpus gives was not measured; study.Study.leave_out of "
            "`mmt report --train` does it"
        ))  # fmt: skip
    for corpus in dict.fromkeys(effect.corpus for effect in effects if effect.group == "only"):
        codes = (e.source for e in effects if (e.corpus, e.group) == (corpus, "only") and e.source)
        notes.append(Note(f"Without {corpus}, no training data remain", _named(codes)))
    return notes


def _totals(uses: Sequence[Use]) -> Table:
    columns = (
        Column("Corpus"), Column("Languages", "count", rank=2),
        Column("read", "count", "Pairs", rank=3), Column("by rules", "count", "Dropped", rank=2),
        Column("for overlap", "count", "Dropped", rank=1),
        Column("kept", "count", "Pairs", rank=1), Column("Examples seen", "count", rank=1),
        Column("Share", "share", rank=1), Column("Training loss", "fine", rank=1),
    )  # fmt: skip
    all_examples = sum(use.of.examples or 0 for use in uses)
    rows: list[tuple[Value, ...]] = []
    for name, of_corpus in _by_corpus(uses).items():
        examples = sum(use.examples or 0 for use in of_corpus) if _known(of_corpus) else None
        tokens = sum(use.tokens or 0 for use in of_corpus if use.loss is not None)
        nats = sum(use.loss * (use.tokens or 0) for use in of_corpus if use.loss is not None)
        rows.append((
            name, len(of_corpus), *_cleaning(of_corpus), sum(use.pairs for use in of_corpus),
            examples, examples / all_examples if examples is not None and all_examples else None,
            f"{nats / tokens:.3f}" if tokens else None,
        ))  # fmt: skip
    return Table(columns, tuple(rows)).filled


def _by_language(uses: Sequence[Use], effects: Sequence[CorpusEffect]) -> Table:
    testsets = dict.fromkeys((effect.testset, effect.target) for effect in effects)
    columns = [
        Column("Language"), Column("Corpus"), Column("read", "count", "Pairs", rank=3),
        Column("by rules", "count", "Dropped", rank=2),
        Column("for overlap", "count", "Dropped", rank=1),
        Column("kept", "count", "Pairs", rank=1), Column("Examples seen", "count", rank=1),
        Column("of the language", "share", "Share", rank=1), Column("Epochs", "amount", rank=2),
        Column("Training loss", "fine", rank=1),
    ]  # fmt: skip
    for i, (testset, _) in enumerate(testsets):
        over = f"gives on {testset}" if len(testsets) > 1 else "Gives"
        columns += [Column("BLEU", "difference", over, rank=1 + i),
                    Column("chrF++", "difference", over, rank=2 + i)]  # fmt: skip
    effect_of = {(e.testset, e.target, e.corpus, e.source): e for e in effects if e.source}
    examples_by_language: Counter[str] = Counter()
    for source, of in uses:
        examples_by_language[source] += of.examples or 0
    rows: list[tuple[Value, ...]] = []
    for source, use in uses:
        share = None
        if use.examples is not None and examples_by_language[source]:
            share = use.examples / examples_by_language[source]
        of_use = [_given(effect_of, testset, use.corpus, source) for testset in testsets]
        rows.append((
            languages.name_of(source), f"{use.corpus}, monolingual" if use.text else use.corpus,
            *_cleaning([use]), use.pairs, use.examples, share,
            use.examples / use.pairs if use.examples is not None and use.pairs else None,
            f"{use.loss:.3f}" if use.loss is not None else None,
            *(value for values in of_use for value in values),
        ))  # fmt: skip
    return Table(tuple(columns), tuple(rows)).filled


def _effects(effects: Sequence[CorpusEffect]) -> Table:
    """Returns what each corpus gives, as means over the languages that have it, or do not."""
    columns = [Column("Corpus"), Column("Test set"), Column("Pairs", "count", rank=3)]
    for i, group in enumerate(GROUPS):
        columns += [Column("BLEU", "difference", _HAVE[group], rank=1 + i),
                    Column("chrF++", "difference", _HAVE[group], rank=2 + i),
                    Column("languages", "count", _HAVE[group], rank=3 + i)]  # fmt: skip
    rows: list[tuple[Value, ...]] = []
    for key in dict.fromkeys((effect.corpus, effect.testset, effect.target) for effect in effects):
        groups = {effect.group: effect for effect in effects
                  if (effect.corpus, effect.testset, effect.target) == key
                  and not effect.source}  # fmt: skip
        cells: list[Value] = []
        for group in GROUPS:
            effect = groups.get(group)
            cells += [*_estimates(effect), effect.languages if effect else None]
        rows.append((*key[:2], sum(effect.pairs for effect in groups.values()), *cells))
    return Table(tuple(columns), tuple(rows)).filled


def _rules(uses: Sequence[Use]) -> Table:
    """Returns the pairs that each cleaning rule dropped or changed, a row per corpus."""
    counts: dict[str, Counter[str]] = {}
    for name, of_corpus in _by_corpus(uses).items():
        if all(use.read is None for use in of_corpus):
            continue
        counted = counts.setdefault(name, Counter())
        for use in of_corpus:
            for reason, count in use.dropped.items():
                counted[reason.partition(":")[0]] += count
            for rule, count in use.changed.items():
                counted[f"~{rule}"] += count
    names = sorted({rule for counted in counts.values() for rule in counted})
    columns = [Column("Corpus")]
    columns += [Column(name.removeprefix("~"), "count", "Changed by" if name[0] == "~" else
                       "Dropped by", rank=1) for name in names]  # fmt: skip
    rows: list[tuple[Value, ...]] = [
        (corpus, *(counted[name] for name in names)) for corpus, counted in counts.items()
    ]
    return Table(tuple(columns), tuple(rows) if names else ())


def _cleaning(uses: Sequence[CorpusUse]) -> tuple[Value, Value, Value]:
    """Returns the pairs read, those dropped by rules, and those dropped for overlap."""
    cleaned = [use for use in uses if use.read is not None]
    if not cleaned:
        return None, _NOT_CLEANED, _NOT_CHECKED
    dropped: Counter[str] = Counter()
    for use in cleaned:
        dropped.update(use.dropped)
    overlap = {reason: count for reason, count in dropped.items() if reason.startswith(_OVERLAP)}
    by_rules = {reason: count for reason, count in dropped.items() if reason not in overlap}
    checked = any(use.overlap for use in cleaned)
    return (
        sum(use.read or 0 for use in cleaned), _sum(by_rules),
        _sum(overlap) if checked else _NOT_CHECKED,
    )  # fmt: skip


def _sum(dropped: dict[str, int]) -> Estimate:
    """Returns the number of dropped pairs, with the reasons as details."""
    ordered = sorted(dropped.items(), key=lambda item: -item[1])
    details = ", ".join(f"{reason} {count:,}" for reason, count in ordered)
    return Estimate(sum(dropped.values()), tooltip=details)


def _given(
    effect_of: dict[tuple[str, str, str, str], CorpusEffect], testset: tuple[str, str], corpus: str,
    source: str,
) -> tuple[Value, Value]:  # fmt: skip
    """Returns what a corpus gives to a language; a file of a glob has what the whole glob gives."""
    names = corpus.split("/")
    for end in range(len(names), 0, -1):
        if effect := effect_of.get((*testset, "/".join(names[:end]), source)):
            return _estimates(effect)
    return None, None


def _estimates(effect: CorpusEffect | None) -> tuple[Value, Value]:
    if effect is None:
        return None, None
    return (
        Estimate(effect.bleu, ConfidenceInterval(effect.bleu_low, effect.bleu_high)),
        Estimate(effect.chrf, ConfidenceInterval(effect.chrf_low, effect.chrf_high)),
    )


def _by_corpus(uses: Sequence[Use]) -> dict[str, list[CorpusUse]]:
    by_corpus: dict[str, list[CorpusUse]] = {}
    for _, use in uses:
        name = f"{use.corpus}, monolingual" if use.text else use.corpus
        by_corpus.setdefault(name, []).append(use)
    return by_corpus


def _known(uses: Sequence[CorpusUse]) -> bool:
    return all(use.examples is not None for use in uses)


def _overlaps(uses: Sequence[Use]) -> Counter[str]:
    """Returns test set -> pairs removed for overlap with it."""
    counts: Counter[str] = Counter()
    for _, use in uses:
        counts.update(use.overlap)
    return counts


def _named(codes: Iterator[str]) -> tuple[str, ...]:
    return tuple(map(languages.name_of, dict.fromkeys(codes)))
