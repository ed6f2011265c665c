"""Whether a dataclass holds what its annotations say; gin and keyword arguments do not ask.

What values mean, and what a number may be beyond its type, is for the dataclass to check.
"""

import collections.abc
import dataclasses
import types
import typing
from collections.abc import Sequence
from typing import Any

from mmt import suggest

_MOST = 2**31 - 1  # what an array's dimension or a token id can be


def check(instance: Any, *, most: int = _MOST) -> None:
    """ValueError for a field of another type than annotated, or an int beyond 32 bits (or `most`).

    An int stands for a float too; a bool is no number, a text no sequence of texts.
    """
    for field in dataclasses.fields(instance):
        name, value = f"{type(instance).__name__}.{field.name}", getattr(instance, field.name)
        kind: Any = field.type
        if not _is(value, kind):
            raise ValueError(f"{name} = {value!r}; allowed: {_name(kind)}")
        if type(value) is int and abs(value) > most:
            raise ValueError(f"{name} = {value}; allowed: -{most} to {most}")


def one_of(instance: Any, name: str, value: str, allowed: Sequence[str]) -> None:
    """ValueError, with the nearest, for a value of the field `name` that is not `allowed`."""
    if value not in allowed:
        near = suggest.hint(value, allowed, cutoff=0.0)
        raise ValueError(
            f"{type(instance).__name__}.{name}: {value!r}; allowed: {', '.join(allowed)}{near}"
        )


def _is(value: Any, kind: Any) -> bool:
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        return any(_is(value, one) for one in of)
    if origin is tuple:
        return isinstance(value, tuple) and all(_is(one, of[0]) for one in value)
    if origin is collections.abc.Sequence:
        several = isinstance(value, Sequence) and not isinstance(value, str)
        return several and all(_is(one, of[0]) for one in value)
    if origin is collections.abc.Callable:
        return callable(value)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _name(kind: Any) -> str:
    if typing.get_origin(kind) is collections.abc.Callable:
        return "a function"
    if typing.get_origin(kind) is collections.abc.Sequence:
        return f"list[{_name(*typing.get_args(kind))}]"
    if typing.get_origin(kind) is types.UnionType:
        return " | ".join(map(_name, typing.get_args(kind)))
    if kind is types.NoneType:
        return "None"
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
