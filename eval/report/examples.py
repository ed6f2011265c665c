"""Example sentences of a report: per language the best, typical and worst of the primary system.

The texts are from `hypotheses/` beside a results file, if it exists; all numbers are independent of
it. chrF++ of single sentences ranks them, for this choice only.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from eval import metrics
from eval.analyses import output_checks
from eval.analyses.update import ScoredTexts
from eval.records.analysis_index import OUTPUT_CHECKS, AnalysisIndex
from eval.records.results import Row
from eval.report import tables
from eval.report.caveats import Note
from eval.report.comparison import Comparison, Entry

SYSTEMS = 4  # multilingual systems whose outputs are shown, the primary system first
_LONG = 30  # characters: shorter references are too easy to be informative
_RANKED = 200  # sentences of a language that are considered, spread over the test set


class Output(NamedTuple):
    """A translation by a system. chrf: chrF++ of this sentence. risks: output checks that it fails.
    """

    system: str
    text: str
    chrf: float
    risks: tuple[str, ...]


class Example(NamedTuple):
    """A sentence and its translations. rank: why it was chosen."""

    rank: str
    source: str | None
    reference: str
    outputs: tuple[Output, ...]


class Shown(NamedTuple):
    """The examples of one language."""

    entry: Entry
    examples: tuple[Example, ...]


class _Texts(NamedTuple):
    """Stored texts of a row; empty where a file is missing."""

    source: tuple[str, ...]
    reference: tuple[str, ...]
    output: tuple[str, ...]


def examples(
    comparison: Comparison, files: Mapping[Row, Path], analyses: AnalysisIndex
) -> tuple[tuple[Shown, ...], tuple[Note, ...]]:
    """Returns a few sentences per language, and notes on missing or inconsistent texts.

    files: the results file of each row whose texts may be shown. analyses: has the hashes of the
    texts.
    """
    result, missing, unfit = [], [], []
    kept_any = False
    for entry in tables.comparables_first(comparison):
        rows = _rows(comparison, entry)
        texts = {row: _texts(files, row) for row in rows}
        present = [row for row in rows if texts[row].output and texts[row].reference]
        fitting = [
            row
            for row in present
            if len(texts[row].output) == len(texts[row].reference) == row.sentences
            and _are_its_own(row, files[row], analyses)
            and texts[row].reference == texts[present[0]].reference
        ]
        kept_any = kept_any or bool(present)
        missing += [entry] * (len(present) < len(rows))
        unfit += [entry] * (len(fitting) < len(present))
        if fitting:
            texts_of = {row.system: texts[row] for row in fitting}
            result.append(Shown(entry, _chosen(texts_of, comparison.target.code)))
    if not kept_any:
        text = "No translations are kept beside the results, so there are no examples"
        return (), (Note(text),)
    notes = []
    for entries, fault in ((missing, "are missing"), (unfit, "do not fit and are left out")):
        if entries:
            names = tuple(entry.language.name for entry in entries)
            notes.append(Note(f"Kept translations {fault} for {len(entries)}", names))
    return tuple(result), tuple(notes)


def _are_its_own(row: Row, file: Path, analyses: AnalysisIndex) -> bool:
    """Returns whether a row's intervals were computed from these texts, or are unknown."""
    item, interval = ScoredTexts(row, file), analyses.interval(row)
    if not (item.has_texts and len(analyses)):
        return True
    return interval is not None and interval.hypotheses == item.hash


def _rows(comparison: Comparison, entry: Entry) -> list[Row]:
    """Returns the rows of the primary system, of a few others, and of the baseline."""
    primary = comparison.primary_system
    order = sorted(comparison.systems, key=lambda system: system != primary)[:SYSTEMS]
    rows = [entry.rows[system] for system in order if system in entry.rows]
    return rows + ([entry.baseline] if entry.baseline else [])


def _chosen(texts: Mapping[str, _Texts], target: str) -> tuple[Example, ...]:
    """Returns the best, the middle and the two worst sentences of the first system."""
    first = next(iter(texts.values()))
    lengths = np.array([len(line) for line in first.reference])
    places = np.flatnonzero(lengths >= min(_LONG, np.median(lengths)))
    places = places[np.linspace(0, len(places) - 1, min(len(places), _RANKED)).astype(int)]
    scores = _scores(first, places.tolist())
    ranked = places[np.argsort(-scores, kind="stable")].tolist()
    ranks = {ranked[0]: "best", ranked[len(ranked) // 2]: "typical"}
    ranks |= {i: "worst" for i in ranked[-2:] if i not in ranks}
    has_sources = len(first.source) == len(first.reference)
    chrf = {
        system: _scores(system_texts, list(ranks)).tolist()
        for system, system_texts in texts.items()
    }
    return tuple(
        Example(
            rank,
            first.source[i] if has_sources else None,
            first.reference[i],
            tuple(
                Output(
                    system,
                    system_texts.output[i],
                    chrf[system][index],
                    _risks(system_texts, i, target),
                )
                for system, system_texts in texts.items()
            ),
        )
        for index, (i, rank) in enumerate(ranks.items())
    )


def _risks(kept: _Texts, i: int, target: str) -> tuple[str, ...]:
    """Returns the checks that an output fails; `recited` is not checked here."""
    if len(kept.source) != len(kept.output):
        return ()
    texts = kept.source[i], kept.output[i], kept.reference[i]
    flags = output_checks.flags(*texts, target=target)
    meanings = {check.name: check.meaning for check in OUTPUT_CHECKS}
    meanings["copy"] = "a copy of the source"
    return tuple(meanings[name] for name in flags._fields if getattr(flags, name))


def _scores(texts: _Texts, indices: Sequence[int]) -> np.ndarray:
    """Returns chrF++ of each sentence."""
    judge = metrics.References([texts.reference[i] for i in indices])
    return metrics.chrf(judge.statistics([texts.output[i] for i in indices]).chrf)


def _texts(files: Mapping[Row, Path], row: Row) -> _Texts:
    if row not in files:
        return _Texts((), (), ())
    stored = ScoredTexts(row, files[row])
    return _Texts(*(_lines(stored.path(kind)) for kind in ("src", "ref", "hyp")))


def _lines(path: Path) -> tuple[str, ...]:
    """Returns the lines of a stored text; () if there is no such file."""
    if not path.is_file():
        return ()
    return tuple(path.read_text("utf-8", errors="replace").removesuffix("\n").split("\n"))
