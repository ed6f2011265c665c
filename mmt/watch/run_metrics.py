"""Reads a run's metrics while they are written: only what is new, by its place in the file."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

PREFIX = "language_"  # of the fields that hold a number per language
SAMPLES = 50
_CHUNK = 1 << 22  # bytes that are read at once
_TAIL = 256  # bytes before the place that tell whether the file is still the same
_MOST = 1 << 62  # above any step or whole number of a row


class Track:
    """Numbers by step that grow at the end: `steps` [n], `values` [n, width]."""

    def __init__(self, width: int = 1) -> None:
        self._steps = np.zeros(64, np.int64)
        self._values = np.full((64, width), np.nan, np.float32)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def steps(self) -> Int[np.ndarray, " n"]:
        return self._steps[: self._count]

    @property
    def values(self) -> Float[np.ndarray, "n width"]:
        """The values; NaN where a row has none."""
        return self._values[: self._count]

    def add(self, step: int, columns: Any, values: Any) -> None:
        """Appends a row with `values` in `columns`."""
        if self._count == len(self._steps):
            more = np.full_like(self._values, np.nan)
            self._steps = np.concatenate([self._steps, np.zeros_like(self._steps)])
            self._values = np.concatenate([self._values, more])
        self._steps[self._count] = step
        with np.errstate(over="ignore"):
            self._values[self._count, columns] = values
        self._count += 1

    def widen(self, width: int) -> None:
        """Adds columns without values."""
        missing = width - self._values.shape[1]
        if not missing:
            return
        empty = np.full((len(self._values), missing), np.nan, np.float32)
        self._values = np.concatenate([self._values, empty], axis=1)


class RunMetrics:
    """The rows of a metrics file, as columns. `read` continues where it stopped before.

    A last line without its line feed is still being written, and is left for the next call. A
    restart or rollback of the run replaces the file; then it is read from the start.

    Attributes:
      languages: the codes, in the order of the columns; new ones are added at the end.
      totals: the numbers of the whole run by field, such as `loss`; each a Track of width 1.
      by_language: the fields that hold a number per language, such as `language_loss`.
      samples: the last `SAMPLES` rows with `samples`, oldest first.
      decisions: what changed the order of the data, such as a language's rate, oldest first:
        `step`, `rule`, `name`, `text`, and for rates `languages`, `before` and `after`.
      events: rows with a text, and rollbacks: (step, field, value).
      step: the latest step.
      place, size: bytes that have been read, and bytes of the file when it was last read.
      fault: why a line of the file was refused, with file and line; '' if none was. Nothing after
        this line is read. The next call tries it again: another machine's file system may show
        a line before its content.
    """

    def __init__(self, file: Path, languages: tuple[str, ...] = ()) -> None:
        self.file, self._first_languages = file, languages
        self._restart()

    def _restart(self) -> None:
        self.languages = list(self._first_languages)
        self._column = {code: number for number, code in enumerate(self.languages)}
        self.totals: dict[str, Track] = {}
        self.by_language: dict[str, Track] = {}
        self.samples: list[dict[str, Any]] = []
        self.decisions: list[dict[str, Any]] = []
        self.events: list[tuple[int, str, Any]] = []
        self.step, self.fault = 0, ""
        self.place = self.size = self._line = 0
        self._before = b""  # the last bytes before the place
        self._columns: dict[tuple[str, ...], np.ndarray] = {}

    def read(self) -> bool:
        """Reads some MiB of new lines. Returns whether anything changed.

        Call it again until it returns False. A file that does not exist yet has no rows.

        Raises:
          OSError: the file cannot be read.
        """
        try:
            with self.file.open("rb") as opened:
                return self._read(opened)
        except FileNotFoundError:
            changed = bool(self.place)
            if changed:
                self._restart()
            return changed

    def _read(self, opened: Any) -> bool:
        size = os.fstat(opened.fileno()).st_size
        opened.seek(self.place - len(self._before))
        replaced = opened.read(len(self._before)) != self._before
        if replaced:  # the file of a restarted run
            self._restart()
            opened.seek(0)
        self.size = size
        chunk = opened.read(_CHUNK)
        while b"\n" not in chunk and (more := opened.read(_CHUNK)):
            chunk += more
        begun, fault = self.place, ""
        for line in chunk.split(b"\n")[:-1]:
            try:
                self._add(_row(line))
            except ValueError as error:
                fault = f"{self.file}:{self._line + 1}: {error}"
                break
            self._line += 1
            self.place += len(line) + 1
        self._before = (self._before + chunk[: self.place - begun])[-_TAIL:]
        changed = replaced or self.place > begun or fault != self.fault
        self.fault = fault
        return changed

    def _add(self, row: dict[str, Any]) -> None:
        """Adds a row, or nothing of it if one of its values is wrong."""
        step = row.pop("step")
        by_language = {
            field: _numbers(field, value)
            for field, value in row.items()
            if isinstance(value, dict) and field.startswith(PREFIX)
        }
        for field, value in row.items():
            self._check_order(field, step)
            if not _CHECKS.get(field, _is_storable)(value):
                raise ValueError(f"{field} is {json.dumps(value)[:60]}, an invalid value")
        for field, numbers in by_language.items():
            columns = self._columns_of(tuple(row.pop(field)))
            if field not in self.by_language:
                self.by_language[field] = Track(len(self.languages))
            self.by_language[field].add(step, columns, numbers)
        for field, value in row.items():
            if isinstance(value, str) or field == "returned_from":
                self.events.append((step, field, value))
            elif field == "samples":
                self.samples = [*self.samples[1 - SAMPLES :], {"step": step, "samples": value}]
            elif field == "decisions":
                self.decisions += value
            elif isinstance(value, int | float) and not isinstance(value, bool):
                self.totals.setdefault(field, Track()).add(step, 0, value)
        self.step = max(self.step, step)

    def _columns_of(self, codes: tuple[str, ...]) -> np.ndarray:
        known = self._columns.get(codes)
        if known is not None:
            return known
        for code in codes:
            if code not in self._column:
                self._column[code] = len(self.languages)
                self.languages.append(code)
        for track in self.by_language.values():
            track.widen(len(self.languages))
        if len(self._columns) > 1000:  # every row has other languages
            self._columns.clear()
        columns = self._columns[codes] = np.array([self._column[code] for code in codes], np.int64)
        return columns

    def _check_order(self, field: str, step: int) -> None:
        track = self.by_language.get(field) or self.totals.get(field)
        if track and step < track.steps[-1]:
            raise ValueError(f"{field} of step {step:,} is after that of step {track.steps[-1]:,}")


def _are_samples(value: Any) -> bool:
    """Whether these are a source, a translation and a reference, or more of them, by language."""
    return isinstance(value, dict) and all(
        isinstance(lines, list)
        and all(
            isinstance(line, list) and len(line) == 3 and all(isinstance(x, str) for x in line)
            for line in lines
        )
        for lines in value.values()
    )


def _are_decisions(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict)
        and type(each.get("step")) is int
        and all(isinstance(each.get(key), str) for key in ("rule", "name", "text"))
        and isinstance(each.get("languages", []), list)
        and all(isinstance(code, str) for code in each.get("languages", ()))
        for each in value
    )


def _is_step(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _is_storable(value: Any) -> bool:
    """Whether this is no whole number, or one that fits a float."""
    return not isinstance(value, int) or abs(value) < _MOST


_CHECKS = {"samples": _are_samples, "decisions": _are_decisions, "returned_from": _is_step}


def _numbers(field: str, by_language: Mapping[str, Any]) -> np.ndarray:
    for code, number in by_language.items():
        if not isinstance(number, int | float) or not _is_storable(number):
            raise ValueError(f"{field} of {code} is {json.dumps(number)[:60]}; allowed: a number")
    with np.errstate(over="ignore"):
        return np.fromiter(by_language.values(), np.float32, len(by_language))


def _row(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} at column {error.colno}") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from error
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, found {line[:40].decode(errors='replace')!r}")
    step = row.get("step")
    if not _is_step(step):
        raise ValueError(f"step is {json.dumps(step)[:60]}; allowed: an integer from 0")
    return row
