"""Saves and restores checkpoints. The only package that imports Orbax."""

from mmt.checkpoint.store import (
    Checkpoints,
    Policy,
    average,
    check_model,
    raised_alone,
    read_params,
    restore_params,
    write_params,
    write_tree,
)

__all__ = [
    "Checkpoints",
    "Policy",
    "average",
    "check_model",
    "raised_alone",
    "read_params",
    "restore_params",
    "write_params",
    "write_tree",
]
