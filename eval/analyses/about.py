"""The rows of analysis.jsonl that describe an evaluated run: cost, curve, recipe and routing."""

from typing import Any

from eval.analyses import cost, routing
from eval.systems import System
from eval.testsets import TestSet
from mmt.run import Run
from mmt.translate import Translator


def rows(run: Run, system: System, translator: Translator, testset: TestSet) -> list[Any]:
    """Returns the rows of a run as `system`; its routing is measured on `testset`."""
    routed = routing.routing(
        translator, testset, system=system.name, checkpoint=system.checkpoint,
        **routing.as_trained(run.directory),
    )  # fmt: skip
    return [*cost.cost(run.directory, system), *routed]
