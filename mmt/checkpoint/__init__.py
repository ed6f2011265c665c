"""Saves and restores checkpoints. The only package that imports Orbax."""

from mmt.checkpoint.average import average
from mmt.checkpoint.policy import Policy
from mmt.checkpoint.restore import check_model, data_state, meter_size, read_params, restore_params
from mmt.checkpoint.save import Checkpoints, Write, write_params
from mmt.checkpoint.streaming import without_duplicate_logs, write_tree

__all__ = [
    "Checkpoints",
    "Policy",
    "Write",
    "average",
    "check_model",
    "data_state",
    "meter_size",
    "without_duplicate_logs",
    "read_params",
    "restore_params",
    "write_params",
    "write_tree",
]
