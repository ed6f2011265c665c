"""The rows of analysis.jsonl that describe an evaluated run, such as its cost and its corpora."""

from collections.abc import Callable, Sequence
from typing import Any

from eval.analyses import cost, provenance, routing
from eval.records import analysis
from eval.records.analysis import ExpertLoad, Reliability
from eval.records.provenance import CorpusUses
from eval.systems import System
from eval.testsets import TestSet
from mmt.run import Run
from mmt.translate import Translator
from mmt.translate.risk import Calibration


def rows(run: Run, system: System, translator: Translator, testset: TestSet) -> list[Any]:
    """Returns the rows of a run as `system`; its routing is measured on `testset`."""
    routed = routing.routing(
        translator, testset, system=system.name, checkpoint=system.checkpoint,
        **routing.as_trained(run.directory),
    )  # fmt: skip
    used = provenance.uses(run.directory, system)
    return [*cost.cost(run.directory, system), *used, *routed, *_reliability(run, system)]


def outdated(
    new: Sequence[Any], system: System, testset: TestSet
) -> Callable[[analysis.Row], bool]:
    """Returns whether an older row is of a language or layer that a retrained run no longer has.

    new: the rows of the run. testset: with all its languages.
    """
    trained = {row.source for row in new if isinstance(row, CorpusUses)}
    layers = {(row.layer, len(row.load)) for row in new if isinstance(row, ExpertLoad)}
    measured_again = system.checkpoint, testset.name

    def is_outdated(row: analysis.Row) -> bool:
        if row.system != system.name:
            return False
        if isinstance(row, CorpusUses):
            return row.source not in trained
        if not isinstance(row, ExpertLoad):
            return False
        lost = (row.checkpoint, row.testset) == measured_again
        lost &= row.source not in testset.languages
        return lost or (row.layer, len(row.load)) not in layers

    return is_outdated


def _reliability(run: Run, system: System) -> list[Reliability]:
    """Returns how reliable the confidence of a calibrated run is."""
    if not run.risk.is_file():
        return []
    calibration = Calibration.load(run.directory)
    confidence, chrf, lines = zip(*calibration.reliability, strict=True)
    counts = tuple(int(count) for count in lines)
    return [
        Reliability(
            system=system.name, decode=calibration.decode, confidence=confidence, chrf=chrf,
            lines=counts,
        )
    ]  # fmt: skip
