"""Files of rows, one JSON object per line: strict reading and atomic writing.

This module handles files, locks, JSON and the types of fields. results.py and analysis.py define
the rows and their keys.
"""

import contextlib
import dataclasses
import fcntl
import functools
import json
import os
import shutil
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from mmt import checked, languages, suggest
from mmt.checked import HUGE, within
from mmt.system import json_objects
from mmt.system.text_lines import one_line

_hint = functools.partial(suggest.hint, cutoff=0.5, show=repr)
# Metadata of fields of numbers.
SHARE = within(0.0, 1.0, slack=1e-6)
SCORE = within(0.0, 100.0, slack=1e-6)
DIFFERENCE = within(-100.0, 100.0, slack=1e-6)  # between scores
AMOUNT = within(0.0, HUGE)
POSITIVE = within(1.0, HUGE)
_PARAGRAPHS = ("text",)  # fields that may have several lines
_MAX_PARSED = 4  # number of files


class Keyed(Protocol):
    """A row; a later row with an equal key replaces it."""

    @property
    def key(self) -> tuple[str, ...]:
        """Returns the values that identify the row."""


R = TypeVar("R", bound=Keyed)
Parse = Callable[[dict[str, Any]], R]
# The rows by line of the files that were read last. A study's file has 40,000 rows, and an
# evaluation adds to it after each language: parsing them again would take longer than translating.
_parsed: dict[tuple[Path, Parse[Any]], dict[bytes, Any]] = {}


def read(path: Path, parse: Parse[R]) -> list[tuple[R, bytes]]:
    """Returns the rows of a file, each with its line, in file order. Blank lines are skipped.

    parse: a function from a JSON object to a row, which depends on nothing else. A line that was in
    the file at the last reading is not parsed again. Raises ValueError `file:line: reason` for a
    line that is no JSON object or that `parse` rejects, and OSError if the file cannot be read.
    """
    rows = []
    about = path.resolve(), parse
    known = _parsed.get(about, {})
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        hint = _hint(path.name, [file.name for file in path.parent.glob("*.jsonl")])
        raise FileNotFoundError(error.errno, f"{error.strerror}{hint}", str(path)) from error
    for number, raw in enumerate(content.split(b"\n"), start=1):
        if raw.strip():
            try:
                row = known[raw] if raw in known else parse(json_objects.parse(raw))
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from error
            rows.append((row, raw))
    _parsed.pop(about, None)
    _parsed[about] = {raw: row for row, raw in rows}
    while len(_parsed) > _MAX_PARSED:
        del _parsed[next(iter(_parsed))]
    return rows


def add(
    path: Path,
    rows: Sequence[R],
    parse: Parse[R],
    *,
    values: Callable[[Any], Mapping[str, Any]] = dataclasses.asdict,
    outdated: Callable[[R], bool] = lambda row: False,
) -> None:
    """Appends `rows` to the file; each replaces an older row with the same key.

    values: a function from a row to the object to write. outdated: whether an older row is removed.
    All other lines stay identical, byte for byte. Concurrent writers wait for each other. Raises
    ValueError if the file has a broken row, and OSError if the disk is full or read-only. In both
    cases the file is unchanged.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path.parent):
        newest = {row.key: row for row in rows}
        old = read(path, parse) if path.exists() else []
        lines = [line for row, line in old if row.key not in newest and not outdated(row)]
        lines += [
            json.dumps(values(row), ensure_ascii=False, allow_nan=False).encode()
            for row in newest.values()
        ]
        write_atomically(path, b"".join(line + b"\n" for line in lines))


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file atomically: at any moment it has either the old or the new content.

    Raises OSError on failure; the old content then remains.
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
    """Returns an instance of the dataclass `cls` from a JSON object; lists become tuples.

    Raises ValueError for unknown keys, with the nearest name, and for missing keys without a
    default.
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


class Checked:
    """Base class of rows: fields are checked against their annotations, ranges and names."""

    def __post_init__(self) -> None:
        checked.check(self, max_int=None, words=checked.JSON)
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            name, value = field.name, getattr(self, field.name)
            if isinstance(value, str) and name not in _PARAGRAPHS and not one_line(value):
                raise ValueError(f"{name} is {checked.short(value)}; expected text on one line")
            if name in ("source", "target") and value != field.default:
                _check_code(name, value)
        self._check()

    def _check(self) -> None:
        """Raises ValueError for faults that involve several fields."""


class AnalysisRow(Checked):
    """Base class of the rows of analysis.jsonl. about: the fields of the key."""

    kind: ClassVar[str]
    about: ClassVar[tuple[str, ...]]

    @property
    def key(self) -> tuple[str, ...]:
        """Returns the key of the row; a later row with an equal key replaces it."""
        return (self.kind, *(getattr(self, name) for name in self.about))


def check_one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    """Raises ValueError, with the nearest name, for a value that is not in `allowed`."""
    if value not in allowed:
        raise ValueError(
            f"{name} is {value!r}; allowed: {', '.join(allowed)}{_hint(value, allowed)}"
        )


def _check_code(name: str, code: str) -> None:
    """Raises ValueError unless `code` is a language's FLORES code."""
    if languages.find(code).code != code:
        raise ValueError(f"{name} is {code!r}; expected {languages.find(code).code!r}")


def _loaded(value: Any, kind: Any) -> Any:
    """Returns JSON lists and objects as the tuples and dataclasses that `kind` names."""
    if isinstance(value, list) and typing.get_origin(kind) is tuple:
        return tuple(_loaded(item, typing.get_args(kind)[0]) for item in value)
    if isinstance(value, dict) and dataclasses.is_dataclass(kind):
        return make(typing.cast(type[Any], kind), value)
    return value


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds a lock on the folder itself, so no lock file remains."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
