"""Lines that take long to make, in files: what is killed goes on after its last whole line.

What the lines are is their maker's business: `distill` and `back_translation` write translations.
"""

import contextlib
import dataclasses
import functools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from mmt.system import lock, text_lines
from mmt.system.progress import SENTENCES, progress_bar


@dataclasses.dataclass(frozen=True)
class Part:
    """A file of `total` lines, which has its name when all of them are written."""

    path: Path
    total: int

    @property
    def begun(self) -> Path:
        """Where its lines are until then."""
        return self.path.with_name(self.path.name + ".part")

    @functools.cached_property
    def done(self) -> int:
        """The whole lines that were there; what a kill left of another line is cut off."""
        if self.path.exists():
            return text_lines.count(self.path)
        if not self.begun.exists():
            return 0
        written = self.begun.read_bytes()
        kept = written[: written.rfind(b"\n") + 1]
        if kept != written:
            os.truncate(self.begun, len(kept))
        return kept.count(b"\n")


def write(parts: Sequence[Part], rows: Iterable[str]) -> None:
    """Writes what the parts lack, one after the other, of `rows`: the lines that come after the
    `done` ones of each. Each row is with the operating system before the next is asked for.

    >>> write([Part(Path("a.tsv"), 2), Part(Path("b.tsv"), 1)], ["1\\n", "2\\n", "3\\n"])
    ... # doctest: +SKIP
    """
    coming = iter(rows)
    with progress_bar(*SENTENCES) as bar:
        done, total = sum(part.done for part in parts), sum(part.total for part in parts)
        task = bar.add_task("", total=total, completed=done)
        for part in parts:
            if part.path.exists():
                continue
            bar.update(task, description=f"translating {part.path.stem}")
            with part.begun.open("a", encoding="utf-8", newline="\n", buffering=1) as file:
                for _ in range(part.total - part.done):
                    file.write(next(coming))
                    bar.advance(task)
            os.replace(part.begun, part.path)


def begin(file: Path, recipe: Mapping[str, Any]) -> None:
    """Makes the folder of `file`, which says by what recipe it is written, or finds it begun by the
    same one. ValueError where it is another's.
    """
    folder = file.parent
    if not file.exists():
        if any(path.name != lock.FILE for path in folder.glob("*")):
            raise ValueError(f"{folder} holds something else; translations go to a new directory")
        folder.mkdir(parents=True, exist_ok=True)
        with whole(file) as new:
            json.dump(recipe, new, indent=1)
        return
    found = json.loads(file.read_text(encoding="utf-8"))
    wrong = [
        f"{key}: {found.get(key)!r} there, {value!r} wanted"
        for key, value in recipe.items()
        if found.get(key) != value
    ]
    if wrong:
        raise ValueError(
            f"{folder} holds translations of another recipe ({'; '.join(wrong)}): "
            "remove it, or name another directory"
        )


def row(*texts: str) -> str:
    """A line of TSV: what would end a column is a space."""
    return "\t".join(text.replace("\t", " ").strip() for text in texts) + "\n"


@contextlib.contextmanager
def whole(path: Path) -> Iterator[TextIO]:
    """A file that gets its name when all of it is written."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w", encoding="utf-8", newline="\n") as file:
        yield file
    os.replace(temporary, path)
