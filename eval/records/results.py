"""results.jsonl: one row per (system, test set, source, target, checkpoint, decode).

rows.py reads and writes the file; metrics.py computes the scores.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from eval.records import rows as files
from eval.records.rows import write_atomically as write_atomically
from mmt.checked import HUGE, within

_SCORE, _AMOUNT = within(0, 100, slack=1e-6), within(0, HUGE)
KINDS = ("multilingual", "bilingual")
LONGEST = 200  # bytes: names become parts of file names
KEY = ("system", "testset", "source", "target", "checkpoint", "decode")
_ORIGINS = {
    "checkpoint": "checkpoint", "decode": "decoding", "config": "config",
    "weights": "hash of weights",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Row(files.Checked):
    """The scores of one system on one language of one test set, and their origin.

    Attributes:
        system: name of the system.
        kind: one of KINDS.
        testset: name of the test set.
        source, target: FLORES codes.
        bleu, chrf, spbleu: 0 to 100; spbleu is None if not computed.
        ter: 0 or more; None if not computed.
        bleu_signature, chrf_signature, spbleu_signature, ter_signature: sacreBLEU's signatures.
        sentences: number of scored sentences.
        train_pairs: training pairs of the system in this language.
        checkpoint: `<run>/<step>`.
        decode: options of the search, such as `beam:4|alpha:0.8`.
        seconds: translation time.
        config: hash of the run's config.gin.
        testset_version: see `testsets.TestSet.version`; None in rows of earlier versions.
        weights: hash of the parameters; None in rows of earlier versions.

    Raises:
        ValueError: a value is not allowed.
    """

    system: str
    kind: str
    testset: str
    source: str
    target: str
    bleu: float = dataclasses.field(metadata=_SCORE)
    bleu_signature: str
    chrf: float = dataclasses.field(metadata=_SCORE)
    chrf_signature: str
    sentences: int = dataclasses.field(metadata=within(1, HUGE))
    train_pairs: int = dataclasses.field(metadata=_AMOUNT)
    checkpoint: str
    decode: str
    seconds: float = dataclasses.field(metadata=_AMOUNT)
    config: str
    spbleu: float | None = dataclasses.field(default=None, metadata=_SCORE)
    spbleu_signature: str | None = None
    ter: float | None = dataclasses.field(default=None, metadata=_AMOUNT)
    ter_signature: str | None = None
    testset_version: str | None = None
    weights: str | None = None

    def _check(self) -> None:
        files.check_one_of("kind", self.kind, KINDS)
        for name in ("system", "testset"):
            check_name(getattr(self, name), name)
        for name in ("spbleu", "ter"):
            if (getattr(self, name) is None) != (getattr(self, f"{name}_signature") is None):
                raise ValueError(f"{name} and {name}_signature: give both or none")

    @property
    def key(self) -> tuple[str, ...]:
        """Returns the key of the row; a later row with an equal key replaces it."""
        return tuple(getattr(self, name) for name in KEY)


def several_origins(rows: Iterable[Row]) -> list[str]:
    """Returns `checkpoint: mine/1 (5), mine/2 (1)` for each origin of which rows have several.

    In parentheses is the number of rows. Unknown weights are ignored.
    """
    of_all, several = list(rows), []
    for field, name in _ORIGINS.items():
        values = [value for row in of_all if (value := getattr(row, field)) is not None]
        counts = [f"{value} ({count})" for value, count in Counter(values).items()]
        if len(counts) > 1:
            several.append(f"{name}: {', '.join(counts)}")
    return several


def check_name(name: str, field: str) -> None:
    """Raises ValueError unless `name` can name a folder below `hypotheses/`."""
    if len(name.encode()) > LONGEST:
        raise ValueError(f"{field} is {name[:20]!r}…; allowed: names of up to {LONGEST} bytes")
    if not name or name.startswith(".") or not name.isprintable() or set(name) & set("/\\"):
        raise ValueError(
            f"{field} is {name!r}; expected a name without slashes that does not start with a dot"
        )


def check_system(name: str) -> None:
    """Raises ValueError unless `name` is a valid name of a multilingual system."""
    check_name(name, "system")
    if name == "baseline":
        raise ValueError(
            "a multilingual system is called 'baseline', a name that the report reserves for "
            "bilingual ones; systems are named by their folder: rename the folder"
        )


def read_rows(path: Path) -> list[Row]:
    """Returns the rows of a results file in file order. Blank lines are skipped.

    Raises ValueError `file:line: reason` for a line that is not a complete row, and OSError if the
    file cannot be read.
    """
    return [row for row, _ in files.read(path, _row)]


def add_rows(path: Path, rows: Sequence[Row]) -> None:
    """Appends `rows` to the file; each replaces an older row with the same key.

    All other lines stay identical, byte for byte. Concurrent writers wait for each other. Raises
    ValueError if the file has a broken row, and OSError if the disk is full or read-only. In both
    cases the file is unchanged.
    """
    files.add(path, rows, _row)


def _row(values: dict[str, Any]) -> Row:
    return files.make(Row, values)
