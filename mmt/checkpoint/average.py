"""Averages the parameters of several checkpoints."""

import functools
from pathlib import Path
from typing import Any

import jax

from mmt.checkpoint.restore import restore_params
from mmt.run import Run


def average(model_dir: str | Path, shapes: Any, *, last: int, step: int | None = None) -> Any:
    """Returns the mean of the parameters of a run over its `last_steps`.

    Memory holds the running mean and one checkpoint. `shapes` and errors are those of
    `restore_params` and `last_steps`.
    """
    first, *later_steps = Run(model_dir).last_steps(last, step=step)
    mean = restore_params(model_dir, shapes, step=first)
    for count, step_number in enumerate(later_steps, 2):
        mean = _update_mean(mean, restore_params(model_dir, shapes, step=step_number), 1 / count)
    return mean


@functools.partial(jax.jit, donate_argnums=0)
def _update_mean(mean: Any, params: Any, weight: Any) -> Any:
    return jax.tree.map(lambda m, o: m + (o - m) * weight, mean, params)
