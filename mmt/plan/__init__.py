"""`mmt plan`: the memory and time that a model needs on machines that need not be available."""

from mmt.plan.estimate import MeshComparison, TopologyPlan, compare_meshes, plan
from mmt.plan.run_forecast import RunForecast
from mmt.plan.run_inputs import forecast
from mmt.plan.run_table import table

__all__ = [
    "MeshComparison",
    "RunForecast",
    "TopologyPlan",
    "compare_meshes",
    "forecast",
    "plan",
    "table",
]
