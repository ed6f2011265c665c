"""What a traced program computes, counted from its jaxpr: the products of matrices.

XLA's own `cost_analysis` counts the body of a loop once, and our layers are a loop.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple


class Work(NamedTuple):
    """Of all devices together. flops: 2·m·n·k of every product; bytes: its operands and result."""

    flops: float
    bytes: float

    def __add__(self, other: Any) -> "Work":
        return Work(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, count: int) -> "Work":
        return Work(self.flops * count, self.bytes * count)


def count(jaxpr: Any) -> Work:
    """The work of a jaxpr, a scan's body once per iteration, recomputation included.

    A `while` counts as one iteration, a `cond` as its dearest branch.
    """
    total = Work(0.0, 0.0)
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        name, inner = equation.primitive.name, list(_inner(equation.params))
        if name in ("dot_general", "ragged_dot", "ragged_dot_general"):
            total += _product(equation)
        elif name == "cond":
            total += max(map(count, inner))
        else:
            times = equation.params["length"] if name == "scan" else 1
            for one in inner:
                total += count(one).times(times)
    return total


def _inner(params: dict[str, Any]) -> Iterator[Any]:
    """The jaxprs among an equation's parameters."""
    for value in params.values():
        for one in value if isinstance(value, tuple | list) else (value,):
            if hasattr(getattr(one, "jaxpr", one), "eqns"):
                yield one


def _product(equation: Any) -> Work:
    left, right = (variable.aval for variable in equation.invars[:2])
    result = equation.outvars[0].aval
    if equation.primitive.name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        depth = math.prod(left.shape[axis] for axis in contracted)
    else:  # [rows in] with [groups in out]
        depth = left.shape[-1]
    moved = sum(a.size * a.dtype.itemsize for a in (left, right, result))
    return Work(2.0 * result.size * depth, float(moved))
