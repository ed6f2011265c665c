"""Learning-rate schedules, and an optax optimizer applied to one layer and one expert at a time.

Scanned layers and experts are stacked in one array. Optimizers with statistics of a whole array
(Adafactor's factored moments, parameter scale and clipping) must not treat the stack as one matrix.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
import optax.contrib
from flax import linen as nn
from jax.sharding import PartitionSpec
from jaxtyping import Array

_MIN_MATRIX_SIDE = 32  # of a matrix that Muon updates
_TABLES = {"router", "router_bias", "gate", "relative_bias"}  # names of parameters or modules


def stack_axes(boxed: Any) -> Any:
    """Returns, for every parameter, the number of its leading axes that index layers or experts.

    boxed: parameters with the names of their axes.
    """
    specs = nn.get_partition_spec(boxed)
    stacked_axes = lambda spec: sum(axis in ("layers", "expert") for axis in spec[:2])  # noqa: E731
    return jax.tree.map(stacked_axes, specs, is_leaf=lambda x: isinstance(x, PartitionSpec))


def init(optimizer: optax.GradientTransformation, stacked: Any, params: Any) -> Any:
    """Returns the optimizer's state of every parameter.

    stacked: the `stack_axes` of the parameters.
    """
    return _apply_to_each(optimizer, "init", stacked, params)


def update(
    optimizer: optax.GradientTransformation,
    stacked: Any,
    *,
    gradients: Any,
    state: Any,
    params: Any,
) -> tuple[Any, Any]:
    """Returns (updates, state) of the optimizer, applied to each layer and expert by itself."""
    results = _apply_to_each(optimizer, "update", stacked, gradients, state, params)
    updates, state = (jax.tree.map(lambda _, pair, i=i: pair[i], params, results) for i in range(2))
    return updates, state


def _apply_to_each(
    optimizer: optax.GradientTransformation, method: str, stacked: Any, *trees: Any
) -> Any:
    def apply(path: Any, axes: int, *leaves: Any) -> Any:
        is_table = not _TABLES.isdisjoint(key.key for key in path)
        used = optimizer.tables if is_table and isinstance(optimizer, _Muon) else optimizer
        batched = getattr(used, method)
        for _ in range(axes):
            batched = jax.vmap(batched)
        return batched(*leaves)

    return jax.tree_util.tree_map_with_path(apply, stacked, *trees)


def relative_adam(
    learning_rate: optax.ScalarOrSchedule, *, b1: float = 0.9, b2: float = 0.98
) -> optax.GradientTransformation:
    """Returns Adam whose steps are relative to the size of a parameter, as Adafactor's are.

    A step is the rate times the root mean square of the parameter, at least 1e-3 (Shazeer and Stern
    2018, section 8). So one rate fits embeddings of scale 1 and matrices of scale 1 / sqrt(embed).
    """
    return optax.chain(
        optax.scale_by_adam(b1=b1, b2=b2),
        optax.scale_by_param_block_rms(),
        optax.scale_by_learning_rate(learning_rate),
    )


def muon(
    learning_rate: optax.ScalarOrSchedule,
    *,
    others: optax.GradientTransformation,
    vocab_size: int,
    beta: float = 0.95,
    consistent_rms: float = 0.2,
    weight_decay: float = 0.0,
) -> optax.GradientTransformation:
    """Returns Muon for the matrices inside the layers, and `others` for all other parameters.

    Muon (Jordan et al. 2024) orthogonalises the momentum of a matrix. An optimizer sees
    one parameter of one layer and expert at a time. Routers, gates and position biases are no
    matrices, by their names. Of others the shape decides:
      two axes: a matrix, unless an axis is of the vocabulary or shorter than 32;
      three axes: attention. [embed heads kv] is the matrix from embed to heads * kv, and [heads kv
        embed] the matrix from heads * kv to embed.

    Args:
      others: updates embeddings and norms, of scale 1, and logits, of scale 1 / sqrt(embed).
      vocab_size: the smaller vocabulary. A longer or equal axis belongs to a vocabulary.
      consistent_rms: scale of an update relative to a matrix with orthonormal rows, times the
        square root of the longer axis (Liu et al. 2025), so that its size is like Adam's.
    """
    matrices = optax.contrib.muon(
        learning_rate, beta=beta, weight_decay=weight_decay, consistent_rms=consistent_rms,
        muon_weight_dimension_numbers=lambda params: jax.tree.map(
            lambda x: muon_axes(x.shape, vocab_size), params
        ),
    )  # fmt: skip

    def partitioned(is_matrix: Callable[[Array], bool]) -> optax.GradientTransformation:
        return optax.partition(
            {True: matrices, False: others}, lambda params: jax.tree.map(is_matrix, params)
        )

    muon = _Muon(*partitioned(lambda x: muon_axes(x.shape, vocab_size) is not None))
    muon.tables = partitioned(lambda x: False)
    return muon


class _Muon(optax.GradientTransformation):
    """Muon for parameters whose shape decides; `tables` is the optimizer of the others.

    Both have the same structure of state.
    """

    tables: optax.GradientTransformation


def muon_axes(
    shape: tuple[int, ...], vocab_size: int
) -> optax.contrib.MuonDimensionNumbers | None:
    """Returns which axes of a parameter are the inputs and outputs of its matrix; None: no matrix.

    >>> muon_axes((256, 4, 64), 16000)
    MuonDimensionNumbers(reduction_axis=(0,), output_axis=(1, 2))
    """
    if len(shape) == 2 and min(shape) >= _MIN_MATRIX_SIDE and max(shape) < vocab_size:
        return optax.contrib.MuonDimensionNumbers((0,), (1,))
    if len(shape) == 3:
        inputs_first = shape[0] >= shape[2]  # embed is the longest axis of attention's kernels
        axes = ((0,), (1, 2)) if inputs_first else ((0, 1), (2,))
        return optax.contrib.MuonDimensionNumbers(*axes)
    return None


def inverse_sqrt(peak: float, *, warmup_steps: int, ramp: bool = True) -> optax.Schedule:
    """Returns peak * sqrt(warmup / step) after the warm-up; before it linear, or flat without ramp.

    T5 and GShard (App. A.2) are flat: lr 1.0 / sqrt(max(step, 10,000)) is
    inverse_sqrt(0.01, warmup_steps=10_000, ramp=False). ValueError for a warm-up of no steps, after
    which the rate would be 0.
    """
    if warmup_steps < 1:
        raise ValueError(
            f"train.inverse_sqrt.warmup_steps is {warmup_steps}; allowed: 1 or more, since the "
            "rate at a step is peak * sqrt(warmup_steps / step)"
        )

    def schedule(count: Any) -> Array:
        step = jnp.asarray(count, jnp.float32) + 1.0
        warmup = jnp.minimum(1.0, step / warmup_steps) if ramp else 1.0
        return peak * warmup * jnp.sqrt(warmup_steps / jnp.maximum(step, warmup_steps))

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
        remaining = (steps - jnp.asarray(count, jnp.float32)) / cooldown_steps
        return schedule(count) * jnp.clip(remaining, 0.0, 1.0)

    return cooled
