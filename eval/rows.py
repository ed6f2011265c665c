"""Files of rows, one JSON object a line: read strictly, written so that nothing is lost.

What a row is, its key, and what its values mean are for the file's own module (results.py,
analysis.py). Here: files, locks, JSON, and whether a dataclass holds what its annotations say.
"""

import contextlib
import dataclasses
import fcntl
import functools
import json
import math
import os
import shutil
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from mmt import languages, suggest
from mmt.data.lines import one_line

_hint = functools.partial(suggest.hint, cutoff=0.5, show=repr)
HUGE = 1e18  # no count, time or loss is larger


class Keyed(Protocol):
    """A row; one with an equal key replaces an older one."""

    @property
    def key(self) -> tuple[str, ...]:
        """What the row is about."""


R = TypeVar("R", bound=Keyed)
Parse = Callable[[dict[str, Any]], R]
_KINDS = {str: "text", int: "a whole number", float: "a number"}


def read(path: Path, parse: Parse[R]) -> list[tuple[R, bytes]]:
    """The rows of a file with their lines, in its order. Blank lines are no rows.

    Raises ValueError `file:line: what is wrong` for a line that is no JSON object or that `parse`
    (an object's keys and values -> a row) refuses, and OSError where the file cannot be read.
    """
    rows = []
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        near = _hint(path.name, [one.name for one in path.parent.glob("*.jsonl")])
        raise FileNotFoundError(error.errno, f"{error.strerror}{near}", str(path)) from error
    for number, raw in enumerate(content.split(b"\n"), start=1):
        if raw.strip():
            try:
                rows.append((parse(parsed(raw.decode())), raw))
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {_reason(error)}") from error
    return rows


def parsed(line: str) -> dict[str, Any]:
    """A JSON object; ValueError where a line is none, or has a key twice or half a character."""
    try:
        return _object(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(_reason(error)) from error


def add(
    path: Path,
    rows: Sequence[R],
    parse: Parse[R],
    *,
    values: Callable[[Any], Mapping[str, Any]] = dataclasses.asdict,
) -> None:
    """Adds `rows` at the end of the file; each takes the place of an older one with its key.

    values: a row -> the keys and values to write. All other lines stay as they are, byte for byte.
    Writers wait for each other. Raises ValueError where the file holds a broken row, OSError where
    the disk is full or read-only; in both cases the file is as it was.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path.parent):
        newest = {row.key: row for row in rows}
        old = read(path, parse) if path.exists() else []
        lines = [line for row, line in old if row.key not in newest]
        lines += [
            json.dumps(values(row), ensure_ascii=False, allow_nan=False).encode()
            for row in newest.values()
        ]
        write_atomically(path, b"".join(line + b"\n" for line in lines))


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file so that at any moment it holds the old or the new content, whole.

    Raises OSError where that cannot be done; then the old content stands.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def make(cls: type[Any], values: Mapping[str, Any]) -> Any:
    """The dataclass `cls` of an object read from JSON; lists become tuples.

    Raises ValueError for unknown keys, with the nearest, and for missing ones without a default.
    """
    fields = {field.name: field for field in dataclasses.fields(cls)}
    missing = [name for name in fields if name not in values]
    unknown = [
        repr(name) + _hint(name, missing or list(fields)) for name in values if name not in fields
    ]
    faults = [f"unknown key {name}" for name in unknown]
    faults += [
        f"missing key {name!r}"
        for name in missing
        if fields[name].default is dataclasses.MISSING
        and fields[name].default_factory is dataclasses.MISSING
    ]
    if faults:
        raise ValueError("; ".join(faults))
    return cls(**{name: _loaded(value, fields[name].type) for name, value in values.items()})


def check_types(instance: Any) -> None:
    """ValueError for a field that does not hold what its annotation says. A bool is no number."""
    for field in dataclasses.fields(instance):
        name, value = field.name, getattr(instance, field.name)
        if not _is(value, field.type):
            raise ValueError(f"{name} is {_short(value)}; expected {_said(field.type)}")


def check_lines(instance: Any, *, except_for: Sequence[str] = ()) -> None:
    """ValueError for a field of text with a line break or another control character in it."""
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        if isinstance(value, str) and field.name not in except_for and not one_line(value):
            raise ValueError(f"{field.name} is {_short(value)}; expected text on one line")


def check_range(name: str, value: Any, low: float, high: float = math.inf) -> None:
    """ValueError for a number that is not `low` to `high` or not finite, alone, or in value."""
    numbers = value.values() if isinstance(value, Mapping) else value
    for number in (value,) if isinstance(value, int | float | None) else numbers:
        if number is not None and not low <= number <= min(high + 1e-6, HUGE):
            bounded = high < math.inf or number > HUGE
            allowed = f"{low} to {min(high, HUGE)}" if bounded else f"{low} or more"
            raise ValueError(f"{name} is {number}; allowed: {allowed}")


def check_code(name: str, code: str) -> None:
    """ValueError unless `code` is a language's FLORES code."""
    if languages.find(code).code != code:
        raise ValueError(f"{name} is {code!r}; expected {languages.find(code).code!r}")


def check_one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    """ValueError, with the nearest, for a value that is not `allowed`."""
    if value not in allowed:
        raise ValueError(
            f"{name} is {value!r}; allowed: {', '.join(allowed)}{_hint(value, allowed)}"
        )


def _object(line: str) -> dict[str, Any]:
    values = json.loads(line, object_pairs_hook=_once)
    if "\\u" in line:  # the only way for half a character to get through UTF-8
        try:
            json.dumps(values, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start])[1:-1]
            raise ValueError(f"no text: {half}, half of a character") from error
    if not isinstance(values, dict):
        raise ValueError(f"expected an object of keys and values, found {line[:40]!r}")
    return values


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {max(names, key=names.count)!r} is given twice")
    return values


def _loaded(value: Any, kind: Any) -> Any:
    """JSON's lists and objects as the tuples and dataclasses that `kind` speaks of."""
    if isinstance(value, list) and typing.get_origin(kind) is tuple:
        return tuple(_loaded(one, typing.get_args(kind)[0]) for one in value)
    if isinstance(value, dict) and dataclasses.is_dataclass(kind):
        return make(typing.cast(type[Any], kind), value)
    return value


def _is(value: Any, kind: Any) -> bool:
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        return any(_is(value, one) for one in of)
    if origin is tuple:
        return isinstance(value, tuple) and all(_is(one, of[0]) for one in value)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(
            _is(key, of[0]) and _is(one, of[1]) for key, one in value.items()
        )
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _said(kind: Any) -> str:
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        return " or ".join(_said(one) for one in of)
    if origin is tuple:
        return f"a list (in Python a tuple), each of it {_said(of[0])}"
    if origin is not None:
        return f"an object, each value {_said(of[1])}"
    return "null" if kind is types.NoneType else _KINDS.get(kind, f"a {kind.__name__}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"no JSON: {error.msg} at column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return f"no UTF-8: byte {error.start + 1} is 0x{error.object[error.start]:02x}"
    return str(error)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds a lock on the folder itself, so that no lock file is left behind."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
