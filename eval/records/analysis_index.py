"""An index of analysis.jsonl: rows by result row, system or language.

No score is computed. Rows computed from other texts than the result row are ignored.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from eval import metrics
from eval.records import analysis
from eval.records.analysis import (
    Comet,
    Cost,
    Curve,
    ExpertLoad,
    Interval,
    OutputChecks,
    Paired,
    Reliability,
    Remark,
    SystemRecipe,
    TestsetDescription,
    TestsetQuality,
    TrainOverlap,
)
from eval.records.behaviour import BehaviourShares
from eval.records.contrastive import ContrastiveAccuracy
from eval.records.provenance import CorpusEffect, CorpusUses
from eval.records.results import Row

SURE = 0.05  # a difference is significant if both p-values are below
RISKY = 0.05  # a check is shown if at least this share of the outputs fails it
BROKEN = 0.5  # if this share of the outputs fails, the score has little meaning
_NEAR = 0.05  # BLEU: tolerance between a paired row's difference and that of its result rows


class OutputCheck(NamedTuple):
    """A kind of wrong output. name: a field of `analysis.OutputChecks`; sign: its mark."""

    name: str
    sign: str
    meaning: str


OUTPUT_CHECKS = (
    OutputCheck("copies", "C", "copies of the source"),
    OutputCheck("empty", "E", "empty"),
    OutputCheck("short", "S", "much too short"),
    OutputCheck("long", "L", "much too long"),
    OutputCheck("looping", "O", "looping"),
    OutputCheck("not_english", "N", "not in the target language"),
    OutputCheck("recited", "R", "a line of the training English, recited"),
)


class AnalysisIndex:
    """All analysis rows of a report; of rows with equal keys, the last one counts.

    >>> AnalysisIndex([]).output_checks(None) is None
    True
    """

    def __init__(self, rows: Iterable[analysis.Row]) -> None:
        self._rows = {row.key: row for row in rows}
        self._of_system: dict[tuple[str, str], list[Any]] = {}
        self._sums: dict[tuple[str, ...], np.ndarray] = {}  # cached: counts are slow to unpack
        for row in self._rows.values():
            self._of_system.setdefault((row.kind, row.system), []).append(row)

    def __len__(self) -> int:
        return len(self._rows)

    def interval(self, row: Row | None) -> Interval | None:
        """Returns the intervals of a row's scores, unless they are far from the scores."""
        interval = self._about("interval", row)
        if not (row and interval):
            return None
        # A bootstrap interval can be skewed, so the score may lie outside it.
        tolerance = _NEAR + interval.bleu_high - interval.bleu_low
        is_plausible = interval.bleu_low - tolerance <= row.bleu <= interval.bleu_high + tolerance
        return interval if is_plausible else None

    def hypotheses(self, row: Row | None) -> str | None:
        """Returns the hash of a row's texts, if known."""
        row_of_texts = self.interval(row) or self._of_texts("counts", row)
        return row_of_texts.hypotheses if row_of_texts else None

    def output_checks(self, row: Row | None) -> OutputChecks | None:
        """Returns the output checks of a row."""
        return self._of_texts("guards", row)

    def broken(self, row: Row | None) -> bool | None:
        """Returns whether at least half of the outputs fail a check other than `recited`."""
        checks = self.output_checks(row)
        if checks is None:
            return None
        return any(share >= BROKEN for check, share in shares(checks) if check.name != "recited")

    def matchless(self, row: Row | None) -> bool | None:
        """Returns whether no output has a matching 4-gram; BLEU is then an effect of smoothing."""
        sums = self._counted(row)
        return None if sums is None else not sums[5]

    def sums(self, row: Row | None) -> np.ndarray | None:
        """Returns BLEU's counts summed over all sentences of a row (10,), for `metrics.bleu`.

        None if they do not give the row's BLEU.
        """
        sums = self._counted(row)
        if row is None or sums is None:
            return None
        return sums if abs(metrics.bleu(sums) - row.bleu) <= _NEAR else None

    def comet(self, row: Row | None) -> Comet | None:
        """Returns a row's COMET."""
        return self._of_texts("comet", row)

    def train_overlap(self, row: Row | None) -> TrainOverlap | None:
        """Returns a row's BLEU by overlap with the training English."""
        return self._of_texts("overlap", row)

    def paired(self, row: Row | None, against: Row | None) -> Paired | None:
        """Returns the test of one row against another, unless it was computed from other scores."""
        test = against and self._about("paired", row, against.system, against.checkpoint)
        if not (row and against and test):
            return None
        return test if abs(test.delta - (row.bleu - against.bleu)) <= _NEAR else None

    def testset_quality(self, testset: str, source: str, target: str) -> TestsetQuality | None:
        """Returns the quality of a test set in a language."""
        quality: Any = self._rows.get(("trust", testset, source, target))
        return quality

    def texts(self, testset: str, target: str) -> str:
        """Returns facts of a test set, where known: `news; licence: CC0; cite: Some News, 2019`."""
        description = self._rows.get(("texts", testset, target))
        if not isinstance(description, TestsetDescription):
            return ""
        facts = (
            ("", description.domain),
            ("licence: ", description.licence),
            ("cite: ", description.citation),
        )
        return "; ".join(label + text for label, text in facts if text)

    def costs(self, system: str) -> Sequence[Cost]:
        """Returns the cost of training: one row, or one per language of a bilingual system."""
        return self._of_system.get(("cost", system), [])

    def recipes(self, system: str) -> Sequence[SystemRecipe]:
        """Returns how it was made: one row, or one per language of a bilingual system."""
        return self._of_system.get(("recipe", system), [])

    def teacher(self, system: str) -> str:
        """Returns the system that it was distilled from, else ""."""
        return next((recipe.teacher for recipe in self.recipes(system)), "")

    def parent_costs(self, system: str) -> dict[str, Cost | None]:
        """Returns the costs of the systems it depends on; None for those without a `cost` row.

        These are its teacher, the system whose weights it started from, and those that these depend
        on.
        """
        lineage = [system]
        for ancestor in lineage:
            recipe_rows = self.recipes(ancestor)[:1]
            parents = [name for recipe in recipe_rows for name in (recipe.teacher, recipe.initial)]
            lineage += dict.fromkeys(name for name in parents if name and name not in lineage)
        return {parent: next(iter(self.costs(parent)), None) for parent in lineage[1:]}

    def curve(self, system: str) -> Curve | None:
        """Returns its training curve."""
        return next(iter(self._of_system.get(("curve", system), [])), None)

    def corpora(self, system: str) -> Sequence[CorpusUses]:
        """Returns the corpora that it was trained on, a row per language."""
        return self._of_system.get(("corpora", system), [])

    def corpus_effects(self, system: str) -> Sequence[CorpusEffect]:
        """Returns what each corpus gives to it, by language and by group of languages."""
        return self._of_system.get(("corpus_effect", system), [])

    def reliability(self, system: str) -> Reliability | None:
        """Returns the chrF of its lines by their confidence."""
        return next(iter(self._of_system.get(("reliability", system), [])), None)

    def behaviour(self, system: str) -> Sequence[BehaviourShares]:
        """Returns how it behaves in each language, at the checkpoint and decoding of its last row.
        """
        rows = self._of_system.get(("behaviour", system), [])
        last = [(row.checkpoint, row.decode) for row in rows[-1:]]
        return [row for row in rows if (row.checkpoint, row.decode) in last]

    def contrastive(self, system: str) -> Sequence[ContrastiveAccuracy]:
        """Returns its accuracy on contrastive examples, at the checkpoint of the last row."""
        rows = self._of_system.get(("contrastive", system), [])
        return [row for row in rows if row.checkpoint == rows[-1].checkpoint]

    def routing(self, system: str, checkpoints: Iterable[str]) -> Sequence[ExpertLoad]:
        """Returns its expert load at the first of `checkpoints` that has any, else at the last one.

        If several test sets have rows, those of the set with the most rows are returned.
        """
        rows = self._of_system.get(("routing", system), [])
        checkpoint = next(
            (c for c in checkpoints if any(row.checkpoint == c for row in rows)), None
        )
        checkpoint = checkpoint or (rows[-1].checkpoint if rows else None)
        rows = [row for row in rows if row.checkpoint == checkpoint]
        sets = Counter(row.testset for row in rows)
        return [row for row in rows if row.testset == max(sets, key=sets.__getitem__)]

    @property
    def remarks(self) -> Sequence[Remark]:
        """Returns the remarks of a study, in their order."""
        return [row for row in self._rows.values() if isinstance(row, Remark)]

    def systems(self, kind: str) -> list[str]:
        """Returns the systems that have rows of this kind, in file order."""
        return [system for of, system in self._of_system if of == kind]

    def epochs(self, row: Row) -> float | None:
        """Returns the passes of a row's system over the language's pairs."""
        by_cost = (cost.epochs.get(row.source) for cost in self.costs(row.system))
        return next((epochs for epochs in by_cost if epochs is not None), None)

    def _counted(self, row: Row | None) -> np.ndarray | None:
        counts_row = self._of_texts("counts", row)
        if counts_row is None:
            return None
        if counts_row.key not in self._sums:
            counts = metrics.unpacked(counts_row.packed, counts_row.sentences)
            self._sums[counts_row.key] = counts.sum(axis=0)
        return self._sums[counts_row.key]

    def _of_texts(self, kind: str, row: Row | None) -> Any:
        """Returns the row of a kind, unless its interval is of other texts."""
        about_texts, interval = self._about(kind, row), self._about("interval", row)
        if interval is None or about_texts is None:
            return about_texts
        same_texts = about_texts.hypotheses == interval.hypotheses
        return about_texts if self.interval(row) and same_texts else None

    def _about(self, kind: str, row: Row | None, *extra_key: str) -> Any:
        return row and self._rows.get((kind, *row.key, *extra_key))


def sure(test: Paired | None) -> bool | None:
    """Returns whether both tests find a difference significant; None without tests."""
    return max(test.p_bootstrap, test.p_randomization) < SURE if test else None


def order_of_layer(layer: str) -> tuple[bool, int]:
    """Returns a sort key of layers: `encoder.1`, `encoder.11`, `decoder.1`."""
    stack, number = layer.split(".")
    return stack != "encoder", int(number)


def measured(curve: Curve, values: Sequence[float | None]) -> list[tuple[float, float]]:
    """Returns the points (tokens, value) of a curve where both are known, from the first token."""
    points = zip(curve.tokens, values, strict=True)
    return [(tokens, value) for tokens, value in points if tokens and value is not None]


def shares(checks: OutputChecks) -> list[tuple[OutputCheck, float]]:
    """Returns each output check and the share of outputs that fail it, where it is known."""
    values = [(check, getattr(checks, check.name)) for check in OUTPUT_CHECKS]
    return [(check, share) for check, share in values if share is not None]
