"""Averages the parameters of several checkpoints."""

import functools
from pathlib import Path
from typing import Any

import jax

from mmt.checkpoint.restore import restore_params
from mmt.run import Run


def average(model_dir: str | Path, shapes: Any, *, last: int, step: int | None = None) -> Any:
    """Returns the mean of the parameters of a run over its `last_steps`.

    It is a running mean: only one checkpoint at a time is in memory beside it. `shapes` and errors
    are those of `restore_params` and `last_steps`.
    """
    first, *others = Run(model_dir).last_steps(last, step=step)
    mean = restore_params(model_dir, shapes, step=first)
    for count, other in enumerate(others, 2):
        mean = _nearer(mean, restore_params(model_dir, shapes, step=other), 1 / count)
    return mean


@functools.partial(jax.jit, donate_argnums=0)
def _nearer(mean: Any, other: Any, share: Any) -> Any:
    return jax.tree.map(lambda m, o: m + (o - m) * share, mean, other)
