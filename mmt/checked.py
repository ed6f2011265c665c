"""Checks the fields of dataclasses against their annotations and ranges; gin and JSON do not.

A field's range is in its metadata: `emb_dim: int = field(default=512, metadata=within(1))`.
Conditions on several fields are checked by the dataclass.
"""

import collections.abc
import dataclasses
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mmt import suggest

Number = int | float

HUGE = 1e18  # larger than any count, time or loss
_MAX_INT = 2**31 - 1  # the largest dimension of an array or token id
_RANGE = "range"
_SCALARS = {
    int: "a whole number", float: "a number", str: "text", bool: "True or False",
    type(None): "None",
}  # fmt: skip


class Range(NamedTuple):
    """The numbers from `low` to `high`, without `low` if `above`, without `high` if `below`.

    slack: tolerance for rounding errors above `high`.
    """

    low: Number
    high: Number = math.inf
    above: bool = False
    below: bool = False
    slack: float = 0.0

    def holds(self, number: Number) -> bool:
        """Returns whether `number` is in the range; NaN never is."""
        above_low = number > self.low if self.above else number >= self.low
        return above_low and (
            number < self.high if self.below else number <= self.high + self.slack
        )

    def allowed(self, number: Number) -> str:
        """Returns a description of the range: '1 or more', '0 to 1', '0 <= x < 1'."""
        if self.high >= HUGE and not number > self.high:
            return f"above {self.low}" if self.above else f"{self.low} or more"
        if self.above or self.below:
            signs = ["<" if is_excluded else "<=" for is_excluded in (self.above, self.below)]
            return f"{self.low} {signs[0]} x {signs[1]} {self.high}"
        return f"{self.low} to {self.high}"


def within(
    low: Number,
    high: Number = math.inf,
    *,
    above: bool = False,
    below: bool = False,
    slack: float = 0.0,
) -> dict[str, Range]:
    """Returns metadata of a field with numbers in a `Range`: one, or a tuple or mapping of them."""
    return {_RANGE: Range(low, high, above, below, slack)}


class Words(NamedTuple):
    """The texts of error messages. Each is a format of `owner`, `name`, `value` and `allowed`.

    annotation: a type annotation in words.
    """

    type_fault: str
    range_fault: str
    annotation: Callable[[Any], str]


def check(instance: Any, *, max_int: int | None = _MAX_INT, words: Words | None = None) -> None:
    """Raises ValueError for a field that does not fit its annotation or its range.

    An int fits float too. A bool does not fit a number, a text no sequence of texts.

    max_int: the largest absolute value of an int; None: no limit.
    words: PYTHON if None; or JSON.
    """
    words = words or PYTHON
    owner = type(instance).__name__
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        if not holds(value, field.type):
            allowed = words.annotation(field.type)
            raise ValueError(
                words.type_fault.format(
                    owner=owner, name=field.name, value=short(value), allowed=allowed
                )
            )
        if max_int is not None and type(value) is int and abs(value) > max_int:
            raise ValueError(f"{owner}.{field.name} = {value}; allowed: -{max_int} to {max_int}")
    for field in dataclasses.fields(instance):
        if _RANGE in field.metadata:
            bounds, value = field.metadata[_RANGE], getattr(instance, field.name)
            for number in _numbers(value):
                if not bounds.holds(number):
                    allowed = bounds.allowed(number)
                    if holds(None, field.type):
                        allowed += f", or {words.annotation(types.NoneType)}"
                    raise ValueError(
                        words.range_fault.format(
                            owner=owner, name=field.name, value=number, allowed=allowed
                        )
                    )


def one_of(instance: Any, name: str, value: str, allowed: Sequence[str]) -> None:
    """Raises ValueError, with the nearest, unless the `value` of a field `name` is in `allowed`."""
    if value not in allowed:
        near = suggest.hint(value, allowed, cutoff=0.0)
        raise ValueError(
            f"{type(instance).__name__}.{name}: {value!r}; allowed: {', '.join(allowed)}{near}"
        )


def holds(value: Any, annotation: Any) -> bool:
    """Returns whether `value` fits `annotation`, inside containers too."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is types.UnionType:
        return any(holds(value, kind) for kind in inner)
    if origin is tuple:
        return isinstance(value, tuple) and all(holds(item, inner[0]) for item in value)
    if origin is collections.abc.Sequence:
        several = isinstance(value, Sequence) and not isinstance(value, str)
        return several and all(holds(item, inner[0]) for item in value)
    if origin is collections.abc.Callable:
        return callable(value)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(
            holds(key, inner[0]) and holds(item, inner[1]) for key, item in value.items()
        )
    if isinstance(value, bool):
        return annotation is bool
    return isinstance(value, (int, float) if annotation is float else annotation)


def expected_scalar(value: Any, annotation: Any) -> str:
    """Returns a description of the scalars that an annotation allows; '' if `value` fits.

    References of gin and other annotations are not checked.

    >>> expected_scalar("many", int)
    'a whole number'
    """
    kinds = typing.get_args(annotation) or (annotation,)
    is_value = isinstance(value, str | int | float | bool | list | tuple | dict)
    if not is_value or not all(kind in _SCALARS for kind in kinds) or holds(value, annotation):
        return ""
    return " or ".join(_SCALARS[kind] for kind in kinds)


def _numbers(value: Any) -> Iterable[Number]:
    """Yields the numbers of a field's value: itself, or those of a tuple or mapping; none for None.
    """
    values = value.values() if isinstance(value, Mapping) else value
    items = (value,) if isinstance(value, int | float | None) else values
    return [number for number in items if number is not None]


def short(value: Any) -> str:
    """Returns the text of a value for a message, cut after 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _python_type(kind: Any) -> str:
    if typing.get_origin(kind) is collections.abc.Callable:
        return "a function"
    if typing.get_origin(kind) is collections.abc.Sequence:
        return f"list[{_python_type(*typing.get_args(kind))}]"
    if typing.get_origin(kind) is types.UnionType:
        return " | ".join(map(_python_type, typing.get_args(kind)))
    if kind is types.NoneType:
        return "None"
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)


_JSON = {str: "text", int: "a whole number", float: "a number", types.NoneType: "null"}


def _json_type(kind: Any) -> str:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        return " or ".join(map(_json_type, inner))
    if origin is tuple:
        return f"a list (in Python a tuple), each item {_json_type(inner[0])}"
    if origin is not None:
        return f"an object, each value {_json_type(inner[1])}"
    return _JSON.get(kind, f"a {kind.__name__}")


PYTHON = Words(
    "{owner}.{name} = {value}; allowed: {allowed}",
    "{owner}.{name} = {value}; allowed: {allowed}",
    _python_type,
)
JSON = Words(
    "{name} is {value}; expected {allowed}", "{name} is {value}; allowed: {allowed}", _json_type
)


def difference(where: str, old: Any, new: Any) -> tuple[str, Any, Any]:
    """Returns the path of the first difference between two settings, and both values.

    where: the path of the settings themselves, the start of the result.

    >>> difference("stages", [{"until": {"steps": 5}}], [{"until": {"steps": 9}}])
    ('stages[0].until.steps', 5, 9)
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() & new.keys()):
            if old[key] != new[key]:
                return difference(f"{where}.{key}", old[key], new[key])
    if isinstance(old, list) and isinstance(new, list):
        if len(old) == len(new) and isinstance([*old, ""][0], dict):
            index = next(index for index, item in enumerate(old) if item != new[index])
            return difference(f"{where}[{index}]", old[index], new[index])
        removed, added = ([x for x in a if x not in b] for a, b in ((old, new), (new, old)))
        if removed or added:
            return f"{where} (without equal parts)", removed, added
    return where, old, new


def same(saved: Mapping[str, Any], current: Mapping[str, Any], where: str, *, first: str) -> None:
    """Raises ValueError with the first difference between settings that must be equal to resume.

    Args:
        saved: the settings in `where`, for the message.
        current: those of this run.
        where: what holds the saved settings.
        first: the setting that is compared first.
    """
    for key in sorted(current.keys() | saved.keys(), key=lambda key: key != first):
        if saved.get(key) != current.get(key):
            name, old, new = difference(key, saved.get(key), current.get(key))
            raise ValueError(
                f"{where} has {name} {old!r}, this run has {new!r}: continue with the same value, "
                "or start a new run"
            )
