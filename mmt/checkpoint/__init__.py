"""Saves and restores checkpoints. The only package that imports Orbax."""

from mmt.checkpoint.store import (
    Checkpoints,
    Policy,
    available_steps,
    average,
    best_step,
    check_model,
    last_steps,
    raised_alone,
    read_params,
    restore_params,
    write_params,
    write_tree,
)

__all__ = [
    "Checkpoints",
    "Policy",
    "available_steps",
    "average",
    "best_step",
    "check_model",
    "last_steps",
    "raised_alone",
    "read_params",
    "restore_params",
    "write_params",
    "write_tree",
]
