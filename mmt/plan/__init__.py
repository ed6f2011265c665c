"""`mmt plan`: the memory and time that a model needs on machines that need not be available."""

from mmt.plan.estimate import MeshComparison, TopologyPlan, compare_meshes, plan

__all__ = [
    "MeshComparison",
    "TopologyPlan",
    "compare_meshes",
    "plan",
]
