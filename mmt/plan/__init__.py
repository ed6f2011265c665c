"""`mmt plan`: what a model needs of machines that need not exist."""

from mmt.plan.estimate import Comparison, Plan, compared, plan

__all__ = [
    "Comparison",
    "Plan",
    "compared",
    "plan",
]
