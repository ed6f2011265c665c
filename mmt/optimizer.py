"""Learning-rate schedules, and an optax optimizer applied to one layer and one expert at a time.

Scanned layers and experts are stacked in one array. Optimizers with statistics of a whole array
(Adafactor's factored moments, parameter scale and clipping) must not treat the stack as one matrix.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array


def init(optimizer: optax.GradientTransformation, stacked: Any, params: Any) -> Any:
    """Returns the optimizer's state of every parameter.

    stacked: for every parameter, the number of its leading axes that index layers or experts.
    """
    return _each(optimizer.init, stacked, params)


def update(
    optimizer: optax.GradientTransformation,
    stacked: Any,
    *,
    gradients: Any,
    state: Any,
    params: Any,
) -> tuple[Any, Any]:
    """Returns (updates, state) of the optimizer, applied to each layer and expert by itself."""
    both = _each(optimizer.update, stacked, gradients, state, params)
    updates, state = (jax.tree.map(lambda _, pair, i=i: pair[i], params, both) for i in range(2))
    return updates, state


def _each(function: Callable[..., Any], stacked: Any, *trees: Any) -> Any:
    def mapped_over(axes: int, *leaves: Any) -> Any:
        mapped = function
        for _ in range(axes):
            mapped = jax.vmap(mapped)
        return mapped(*leaves)

    return jax.tree.map(mapped_over, stacked, *trees)


def inverse_sqrt(peak: float, *, warmup_steps: int, ramp: bool = True) -> optax.Schedule:
    """Returns peak * sqrt(warmup / step) after the warm-up; before it linear, or flat without ramp.

    T5 and GShard (App. A.2) are flat: lr 1.0 / sqrt(max(step, 10,000)) is
    inverse_sqrt(0.01, warmup_steps=10_000, ramp=False).
    """

    def schedule(count: Any) -> Array:
        step = jnp.asarray(count, jnp.float32) + 1.0
        rise = jnp.minimum(1.0, step / warmup_steps) if ramp else 1.0
        return peak * rise * jnp.sqrt(warmup_steps / jnp.maximum(step, warmup_steps))

    return schedule


def warmup_cosine(peak: float, *, warmup_steps: int, steps: int) -> optax.Schedule:
    """Returns a schedule that rises linearly to `peak` and falls to 0 at `steps` as half a cosine.

    Loshchilov & Hutter 2017, without restarts. Raises ValueError where the warm-up is too long.
    """
    if not 0 <= warmup_steps < steps:
        raise ValueError(
            f"TRAIN_STEPS is {steps}, and the warm-up has {warmup_steps} steps "
            "(train.warmup_cosine.warmup_steps); allowed: more steps, or a shorter warm-up"
        )
    return optax.warmup_cosine_decay_schedule(0.0, peak, warmup_steps, steps)


def cooldown(schedule: optax.Schedule, *, steps: int, cooldown_steps: int) -> optax.Schedule:
    """Multiplies a schedule by a factor that falls from 1 to 0 over the last `cooldown_steps`.

    With `inverse_sqrt` it is the schedule of Zhai et al. 2022 (arXiv 2106.04560), with a constant a
    trapezoid. Before the cooldown the rate does not depend on `steps`: a longer run is the same up
    to there. ValueError for a cooldown of no steps, or of more than `steps`.
    """
    if not 0 < cooldown_steps <= steps:
        raise ValueError(
            f"train.cooldown.cooldown_steps is {cooldown_steps}; allowed: 1 to {steps}, which is "
            "TRAIN_STEPS"
        )

    def cooled(count: Any) -> Array:
        left = (steps - jnp.asarray(count, jnp.float32)) / cooldown_steps
        return schedule(count) * jnp.clip(left, 0.0, 1.0)

    return cooled
