"""Counts the work of a traced program from its jaxpr: products of matrices only.

XLA's own `cost_analysis` counts the body of a loop once, and the layers of a model are a loop.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple


class Work(NamedTuple):
    """Work of all devices together.

    `flops` are 2·m·n·k per product; `bytes` are the sizes of its operands and result.
    """

    flops: float
    bytes: float

    def __add__(self, other: Any) -> "Work":
        return Work(*(left + right for left, right in zip(self, other, strict=True)))

    def times(self, count: int) -> "Work":
        return Work(self.flops * count, self.bytes * count)


def count(jaxpr: Any) -> Work:
    """Returns the work of a jaxpr, recomputation included.

    A scan's body counts once per iteration, a `while` loop's once; a `cond` counts as its most
    expensive branch.
    """
    total = Work(0.0, 0.0)
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        name, inner = equation.primitive.name, list(_inner_jaxprs(equation.params))
        if name in ("dot_general", "ragged_dot", "ragged_dot_general"):
            total += _product(equation)
        elif name == "cond":
            total += max(map(count, inner))
        else:
            times = equation.params["length"] if name == "scan" else 1
            for jaxpr_of_equation in inner:
                total += count(jaxpr_of_equation).times(times)
    return total


def _inner_jaxprs(params: dict[str, Any]) -> Iterator[Any]:
    """Yields the jaxprs among an equation's parameters."""
    for value in params.values():
        for candidate in value if isinstance(value, tuple | list) else (value,):
            if hasattr(getattr(candidate, "jaxpr", candidate), "eqns"):
                yield candidate


def _product(equation: Any) -> Work:
    """Returns the work of one product of matrices."""
    left, right = (variable.aval for variable in equation.invars[:2])
    result = equation.outvars[0].aval
    if equation.primitive.name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        depth = math.prod(left.shape[axis] for axis in contracted)
    else:  # [rows in] with [groups in out]
        depth = left.shape[-1]
    bytes_moved = sum(a.size * a.dtype.itemsize for a in (left, right, result))
    return Work(2.0 * result.size * depth, float(bytes_moved))
