"""An optax optimizer applied to one parameter of one layer and one expert at a time.

Scanned layers and experts lie stacked in one array; an optimizer that looks at a whole array
(Adafactor's factored moments, parameter scale and clipping) must not see the stack as one matrix.
"""

from collections.abc import Callable
from typing import Any

import jax
import optax


def init(optimizer: optax.GradientTransformation, stacked: Any, params: Any) -> Any:
    """For every parameter the optimizer's state of it.

    stacked: for every parameter, how many of its leading axes only count layers or experts.
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
    """(updates, state) as the optimizer gives them for each layer and expert by itself."""
    both = _each(optimizer.update, stacked, gradients, state, params)
    updates, state = (jax.tree.map(lambda _, pair, i=i: pair[i], params, both) for i in range(2))
    return updates, state


def _each(function: Callable[..., Any], stacked: Any, *trees: Any) -> Any:
    def one(axes: int, *leaves: Any) -> Any:
        mapped = function
        for _ in range(axes):
            mapped = jax.vmap(mapped)
        return mapped(*leaves)

    return jax.tree.map(one, stacked, *trees)
