"""Bilingual baselines: their training, tuning and scoring."""

from eval.baselines.bilingual import Judge, baselines, choose
from eval.baselines.tuning import Class, Plan

__all__ = [
    "Class",
    "Judge",
    "Plan",
    "baselines",
    "choose",
]
