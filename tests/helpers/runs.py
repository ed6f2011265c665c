"""Comparing runs: their parameters and their metrics."""

import jax

from mmt.run import read_metrics

_CLOCKS = ("tokens_per_second", "data_wait", "seconds")


def equal_trees(a, b) -> bool:
    """Whether all arrays of two trees are equal, bit for bit."""
    return jax.tree.all(jax.tree.map(lambda x, y: bool((x == y).all()), a, b))


def rows_without_clocks(directory) -> list[dict]:
    """Returns the rows of a run's metrics.jsonl without what depends on the machine's speed."""
    rows = read_metrics(directory / "metrics.jsonl")
    return [{key: row[key] for key in row if key not in _CLOCKS} for row in rows]


def training_rows(directory) -> list[dict]:
    """Returns those of the rows that are about training steps."""
    return [row for row in rows_without_clocks(directory) if "loss" in row]
