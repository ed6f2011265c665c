"""The rows of analysis.jsonl that describe an evaluated run, such as its cost and its corpora."""

from typing import Any

from eval.analyses import cost, provenance, routing
from eval.records.analysis import Reliability
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
