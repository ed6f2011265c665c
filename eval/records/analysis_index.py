"""Analysis rows found again by what they are about, and what they say in one word.

The rows of analysis.jsonl stand beside those of results.jsonl; here they are looked up for a row, a
system or a language. No score is computed, and a row made from other texts does not count.
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
    Remark,
    SystemRecipe,
    TestsetDescription,
    TestsetQuality,
    TrainOverlap,
)
from eval.records.results import Row

SURE = 0.05  # a difference is significant where both tests give less than this
RISKY = 0.05  # a guard is shown where it holds for at least this share of the outputs
BROKEN = 0.5  # and where it holds for so many, the score says little
_NEAR = 0.05  # BLEU: how far a paired row's difference may be from that of the rows it is about


class OutputCheck(NamedTuple):
    """What is wrong with some outputs. name: a field of `analysis.OutputChecks`; sign: its mark."""

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
    """All analysis rows of a report; of rows with equal keys the last counts.

    >>> AnalysisIndex([]).output_checks(row) is None
    True
    """

    def __init__(self, rows: Iterable[analysis.Row]) -> None:
        self._rows = {row.key: row for row in rows}
        self._of_system: dict[tuple[str, str], list[Any]] = {}
        self._sums: dict[tuple[str, ...], np.ndarray] = {}  # of counts, which are slow to unpack
        for row in self._rows.values():
            self._of_system.setdefault((row.kind, row.system), []).append(row)

    def __len__(self) -> int:
        return len(self._rows)

    def interval(self, row: Row | None) -> Interval | None:
        """The intervals of a row's scores, unless they are far from them."""
        found = self._about("interval", row)
        if not (row and found):
            return None
        room = _NEAR + found.bleu_high - found.bleu_low  # a bootstrap's interval may be skew
        return found if found.bleu_low - room <= row.bleu <= found.bleu_high + room else None

    def hypotheses(self, row: Row | None) -> str | None:
        """The hash of a row's texts, where it is known."""
        found = self.interval(row) or self._of_texts("counts", row)
        return found.hypotheses if found else None

    def output_checks(self, row: Row | None) -> OutputChecks | None:
        """What is wrong with a row's outputs."""
        return self._of_texts("guards", row)

    def broken(self, row: Row | None) -> bool | None:
        """Whether a guard but that for reciting holds for half of a row's outputs or more."""
        found = self.output_checks(row)
        if found is None:
            return None
        return any(share >= BROKEN for guard, share in shares(found) if guard.name != "recited")

    def matchless(self, row: Row | None) -> bool | None:
        """Whether no 4-gram of any output is right: then BLEU is what smoothing makes."""
        found = self._counted(row)
        return None if found is None else not found[5]

    def sums(self, row: Row | None) -> np.ndarray | None:
        """BLEU's counts of all sentences of a row (10,), see `metrics.bleu`, unless that makes
        another BLEU of them than the row's.
        """
        found = self._counted(row)
        if row is None or found is None:
            return None
        return found if abs(metrics.bleu(found) - row.bleu) <= _NEAR else None

    def comet(self, row: Row | None) -> Comet | None:
        """A row's COMET."""
        return self._of_texts("comet", row)

    def train_overlap(self, row: Row | None) -> TrainOverlap | None:
        """A row's BLEU by overlap with the training English."""
        return self._of_texts("overlap", row)

    def paired(self, row: Row | None, against: Row | None) -> Paired | None:
        """The test of one row against another, unless it is about other scores than theirs."""
        found = against and self._about("paired", row, against.system, against.checkpoint)
        if not (row and against and found):
            return None
        return found if abs(found.delta - (row.bleu - against.bleu)) <= _NEAR else None

    def testset_quality(self, testset: str, source: str, target: str) -> TestsetQuality | None:
        """How far scores of a language can be trusted."""
        found: Any = self._rows.get(("trust", testset, source, target))
        return found

    def texts(self, testset: str, target: str) -> str:
        """Of a test set `news; licence: CC0; cite: Some News, 2019`, as far as known."""
        found = self._rows.get(("texts", testset, target))
        if not isinstance(found, TestsetDescription):
            return ""
        said = {"": found.domain, "licence: ": found.licence, "cite: ": found.citation}
        return "; ".join(what + text for what, text in said.items() if text)

    def costs(self, system: str) -> Sequence[Cost]:
        """What training took: one row, or one for every language of a bilingual system."""
        return self._of_system.get(("cost", system), [])

    def recipes(self, system: str) -> Sequence[SystemRecipe]:
        """How it was made: one row, or one for every language of a bilingual system."""
        return self._of_system.get(("recipe", system), [])

    def teacher(self, system: str) -> str:
        """The system that it was distilled from, else ""."""
        return next((recipe.teacher for recipe in self.recipes(system)), "")

    def before(self, system: str) -> Sequence[Cost]:
        """What the training took of the systems that it needed first: its teacher, the one whose
        weights it began with, and what these needed.
        """
        needed = [system]
        for one in needed:
            made = self.recipes(one)[:1]
            parents = [name for recipe in made for name in (recipe.teacher, recipe.initial)]
            needed += dict.fromkeys(name for name in parents if name and name not in needed)
        return [cost for one in needed[1:] for cost in self.costs(one)[:1]]

    def curve(self, system: str) -> Curve | None:
        """Its training over time."""
        return next(iter(self._of_system.get(("curve", system), [])), None)

    def routing(self, system: str, checkpoints: Iterable[str]) -> Sequence[ExpertLoad]:
        """Its experts' load, at one of these checkpoints or, if none is there, at the last; on the
        test set that has it for most languages.
        """
        rows = self._of_system.get(("routing", system), [])
        at = next((c for c in checkpoints if any(row.checkpoint == c for row in rows)), None)
        at = at or (rows[-1].checkpoint if rows else None)
        rows = [row for row in rows if row.checkpoint == at]
        sets = Counter(row.testset for row in rows)
        return [row for row in rows if row.testset == max(sets, key=sets.__getitem__)]

    @property
    def remarks(self) -> Sequence[Remark]:
        """What was found on the way, in the order it was written down."""
        return [row for row in self._rows.values() if isinstance(row, Remark)]

    def systems(self, kind: str) -> list[str]:
        """The systems that have rows of this kind, in their order."""
        return [system for of, system in self._of_system if of == kind]

    def epochs(self, row: Row) -> float | None:
        """How often a row's system saw the language's pairs."""
        found = (cost.epochs.get(row.source) for cost in self.costs(row.system))
        return next((epochs for epochs in found if epochs is not None), None)

    def _counted(self, row: Row | None) -> np.ndarray | None:
        found = self._of_texts("counts", row)
        if found is None:
            return None
        if found.key not in self._sums:
            counts = metrics.unpacked(found.packed, found.sentences)
            self._sums[found.key] = counts.sum(axis=0)
        return self._sums[found.key]

    def _of_texts(self, kind: str, row: Row | None) -> Any:
        """What is about the texts that a row scores: those of its interval, where it has one."""
        found, interval = self._about(kind, row), self._about("interval", row)
        if interval is None or found is None:
            return found
        return found if self.interval(row) and found.hypotheses == interval.hypotheses else None

    def _about(self, kind: str, row: Row | None, *more: str) -> Any:
        return row and self._rows.get((kind, *row.key, *more))


def sure(test: Paired | None) -> bool | None:
    """Whether a difference is significant by both tests; None where it was not tested."""
    return max(test.p_bootstrap, test.p_randomization) < SURE if test else None


def order_of_layer(layer: str) -> tuple[bool, int]:
    """Sorts `encoder.1`, `encoder.11`, `decoder.1` like that."""
    stack, number = layer.split(".")
    return stack != "encoder", int(number)


def measured(curve: Curve, values: Sequence[float | None]) -> list[tuple[float, float]]:
    """(tokens, value) of a curve wherever both are known, from the first token on."""
    both = zip(curve.tokens, values, strict=True)
    return [(tokens, value) for tokens, value in both if tokens and value is not None]


def shares(checks: OutputChecks) -> list[tuple[OutputCheck, float]]:
    """Returns each output check and the share of outputs that fail it, where it is known."""
    known = [(check, getattr(checks, check.name)) for check in OUTPUT_CHECKS]
    return [(check, share) for check, share in known if share is not None]
