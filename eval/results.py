"""results.jsonl: one row per (system, test set, source, target, checkpoint, decode).

Rows are read strictly (a broken one names its file and line) and written so that neither a kill, a
full disk nor a second writer loses one. What a row's scores mean is for metrics.py and report.py.
"""

import contextlib
import dataclasses
import difflib
import fcntl
import json
import math
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mmt import languages

KINDS = ("multilingual", "bilingual")
_KEY = ("system", "testset", "source", "target", "checkpoint", "decode")


@dataclasses.dataclass(frozen=True)
class Row:
    """The scores of one system on one language of one test set, and the recipe behind them.

    source, target: FLORES codes. bleu, chrf: 0 to 100, by sacreBLEU with the signatures beside
    them. sentences: how many were scored. train_pairs: how many pairs of this language the system
    was trained on, 0 for none. checkpoint: `<run>/<step>`. decode: `beam:4|alpha:0.8`. seconds:
    time spent translating. config: hash of the run's config.gin. Anything else is a ValueError.
    """

    system: str
    kind: str
    testset: str
    source: str
    target: str
    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    sentences: int
    train_pairs: int
    checkpoint: str
    decode: str
    seconds: float
    config: str

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_type(field.name, getattr(self, field.name), field.type)
        if self.kind not in KINDS:
            raise ValueError(
                f"kind is {self.kind!r}; allowed: {', '.join(KINDS)}{_nearest(self.kind, KINDS)}"
            )
        for name in ("system", "testset"):
            check_name(getattr(self, name), name)
        for name in ("source", "target"):
            code = getattr(self, name)
            if languages.find(code).code != code:
                raise ValueError(f"{name} is {code!r}; expected {languages.find(code).code!r}")
        for name, low, high in (
            ("bleu", 0, 100),
            ("chrf", 0, 100),
            ("sentences", 1, math.inf),
            ("train_pairs", 0, math.inf),
            ("seconds", 0, math.inf),
        ):
            value = getattr(self, name)
            if not low <= value <= high + 1e-6 or math.isinf(value):
                allowed = f"{low} to {high}" if high < math.inf else f"{low} or more"
                raise ValueError(f"{name} is {value}; allowed: {allowed}")

    @property
    def key(self) -> tuple[str, ...]:
        """A row with an equal key replaces this one."""
        return tuple(getattr(self, name) for name in _KEY)


def check_name(name: str, what: str) -> None:
    """Raises ValueError unless `name` can name a folder below `hypotheses/`."""
    if not name or name.startswith(".") or not name.isprintable() or set(name) & set("/\\"):
        raise ValueError(
            f"{what} is {name!r}; expected a name without slashes that does not start with a dot"
        )


def read_rows(path: Path) -> list[Row]:
    """The rows of a results file, in its order.

    Raises ValueError `file:line: what is wrong` for a line that is not a whole row, and OSError
    where the file cannot be read. Blank lines are no rows.
    """
    return [row for row, _ in _read(path)]


def add_rows(path: Path, rows: Sequence[Row]) -> None:
    """Adds `rows` at the end of the file; each takes the place of an older one with its key.

    All other lines stay as they are, byte for byte. Writers wait for each other. Raises ValueError
    where the file holds a broken row, OSError where the disk is full or read-only; in both cases
    the file is as it was.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path.parent):
        keys = {row.key for row in rows}
        old = _read(path) if path.exists() else []
        lines = [line for row, line in old if row.key not in keys]
        newest = {row.key: row for row in rows}
        lines += [
            json.dumps(dataclasses.asdict(row), ensure_ascii=False).encode()
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
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _read(path: Path) -> list[tuple[Row, bytes]]:
    rows = []
    for number, raw in enumerate(path.read_bytes().split(b"\n"), start=1):
        if raw.strip():
            try:
                rows.append((_row(raw.decode()), raw))
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {_reason(error)}") from error
    return rows


def _row(line: str) -> Row:
    values = json.loads(line)
    if not isinstance(values, dict):
        raise ValueError(f"expected an object of keys and values, found {line[:40]!r}")
    names = [field.name for field in dataclasses.fields(Row)]
    missing = [name for name in names if name not in values]
    unknown = [
        repr(name) + _nearest(name, missing or names) for name in values if name not in names
    ]
    faults = [f"unknown key {name}" for name in unknown]
    faults += [f"missing key {name!r}" for name in missing]
    if faults:
        raise ValueError("; ".join(faults))
    return Row(**values)


def _check_type(name: str, value: Any, wanted: Any) -> None:
    accepted = (int, float) if wanted is float else (wanted,)
    if not isinstance(value, accepted) or isinstance(value, bool):
        kind = {str: "text", int: "a whole number", float: "a number"}[wanted]
        raise ValueError(f"{name} is {value!r}; expected {kind}")


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"no JSON: {error.msg} at column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return f"no UTF-8: byte {error.start + 1} is 0x{error.object[error.start]:02x}"
    return str(error)


def _nearest(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"; nearest: {close[0]!r}" if close else ""


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds a lock on the folder itself, so that no lock file is left behind."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
