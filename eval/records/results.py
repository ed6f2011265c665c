"""results.jsonl: one row per (system, test set, source, target, checkpoint, decode).

How the file is read and written is in rows.py; what a row's scores mean is for metrics.py and
report.py.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eval.records import rows as files
from eval.records.rows import write_atomically as write_atomically
from mmt.checked import HUGE, within

_SCORE, _AMOUNT = within(0, 100, slack=1e-6), within(0, HUGE)
KINDS = ("multilingual", "bilingual")
LONGEST = 200  # bytes of a name that a figure's file may have
KEY = ("system", "testset", "source", "target", "checkpoint", "decode")


@dataclasses.dataclass(frozen=True)
class Row(files.Checked):
    """The scores of one system on one language of one test set, and the recipe behind them.

    source, target: FLORES codes. bleu, chrf: 0 to 100, by sacreBLEU with the signatures beside
    them; spbleu (0 to 100) and ter (0 or more) likewise, None where they were not asked for.
    sentences: how many were scored. train_pairs: how many pairs of this language the system was
    trained on, 0 for none. checkpoint: `<run>/<step>`. decode: `beam:4|alpha:0.8`. seconds: time
    spent translating. config: hash of the run's config.gin. testset_version: of the sentences, as
    `testsets.TestSet.version` has it, None in rows of before there was one. Anything else is a
    ValueError.
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

    def _check(self) -> None:
        files.check_one_of("kind", self.kind, KINDS)
        for name in ("system", "testset"):
            check_name(getattr(self, name), name)
        for name in ("spbleu", "ter"):
            if (getattr(self, name) is None) != (getattr(self, f"{name}_signature") is None):
                raise ValueError(f"{name} and {name}_signature: give both or none")

    @property
    def key(self) -> tuple[str, ...]:
        """A row with an equal key replaces this one."""
        return tuple(getattr(self, name) for name in KEY)


def check_name(name: str, what: str) -> None:
    """Raises ValueError unless `name` can name a folder below `hypotheses/`."""
    if len(name.encode()) > LONGEST:
        raise ValueError(f"{what} is {name[:20]!r}…; allowed: names of up to {LONGEST} bytes")
    if not name or name.startswith(".") or not name.isprintable() or set(name) & set("/\\"):
        raise ValueError(
            f"{what} is {name!r}; expected a name without slashes that does not start with a dot"
        )


def check_system(name: str) -> None:
    """Raises ValueError unless `name` can be that of a multilingual system."""
    check_name(name, "system")
    if name == "baseline":
        raise ValueError(
            "a multilingual system is called 'baseline', as bilingual ones are in a report; it is "
            "named by its folder: give that another name"
        )


def read_rows(path: Path) -> list[Row]:
    """The rows of a results file, in its order.

    Raises ValueError `file:line: what is wrong` for a line that is not a whole row, and OSError
    where the file cannot be read. Blank lines are no rows.
    """
    return [row for row, _ in files.read(path, _row)]


def add_rows(path: Path, rows: Sequence[Row]) -> None:
    """Adds `rows` at the end of the file; each takes the place of an older one with its key.

    All other lines stay as they are, byte for byte. Writers wait for each other. Raises ValueError
    where the file holds a broken row, OSError where the disk is full or read-only; in both cases
    the file is as it was.
    """
    files.add(path, rows, _row)


def _row(values: dict[str, Any]) -> Row:
    return files.make(Row, values)
