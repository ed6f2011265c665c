"""Writes files whose lines take long to produce. A killed run resumes after its last complete line.

`mmt.distill` and `mmt.translate.back_translation` write translations with it.
"""

import contextlib
import dataclasses
import functools
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from mmt.checkpoint import digests
from mmt.data.cache.manifest import Manifest
from mmt.run import Run
from mmt.system import lock, text_lines
from mmt.system.progress import SENTENCES, progress_bar


@dataclasses.dataclass(frozen=True)
class OutputFile:
    """A file of `total` lines. It is renamed to `path` when all lines are written."""

    path: Path
    total: int

    @property
    def partial(self) -> Path:
        """Returns the path of the incomplete file."""
        return self.path.with_name(self.path.name + ".part")

    @functools.cached_property
    def done(self) -> int:
        """Returns the number of complete lines; truncates an incomplete last line."""
        if self.path.exists():
            return text_lines.count(self.path)
        if not self.partial.exists():
            return 0
        written = self.partial.read_bytes()
        complete = written[: written.rfind(b"\n") + 1]
        if complete != written:
            os.truncate(self.partial, len(complete))
        return complete.count(b"\n")


def write(files: Sequence[OutputFile], rows: Iterable[str]) -> None:
    """Writes the missing lines of each file, one file after the other.

    `rows` yields the lines that follow the `done` lines of each file. Each line is flushed before
    the next one is requested.

    >>> files = [OutputFile(Path("a.tsv"), 2), OutputFile(Path("b.tsv"), 1)]
    >>> write(files, ["1\\n", "2\\n", "3\\n"])  # doctest: +SKIP
    """
    remaining = iter(rows)
    with progress_bar(*SENTENCES) as bar:
        total = sum(file.total for file in files)
        task = bar.add_task("", total=total, completed=sum(file.done for file in files))
        for file in files:
            if file.path.exists():
                continue
            bar.update(task, description=f"translating {file.path.stem}")
            with file.partial.open("a", encoding="utf-8", newline="\n", buffering=1) as stream:
                for _ in range(file.total - file.done):
                    stream.write(next(remaining))
                    bar.advance(task)
            os.replace(file.partial, file.path)


def begin(file: Path, recipe: Mapping[str, Any], *, added: Collection[str] = ()) -> None:
    """Creates the folder of `file` and writes the recipe of its content to `file`.

    A folder that was begun with the same recipe is left unchanged.

    added: keys that recipes of earlier versions lack; they are not compared with such a recipe.

    Raises:
        ValueError: the folder holds something else, or content of another recipe.
    """
    folder = file.parent
    if not file.exists():
        if any(path.name != lock.FILE for path in folder.glob("*")):
            raise ValueError(f"{folder} holds something else; translations go to a new directory")
        folder.mkdir(parents=True, exist_ok=True)
        with new_file(file) as new:
            json.dump(recipe, new, indent=1)
        return
    existing = json.loads(file.read_text(encoding="utf-8"))
    known = {key: recipe[key] for key in recipe if key in existing or key not in added}
    check_recipe(str(folder), existing, known)


def check_recipe(folder: str, existing: Mapping[str, Any], recipe: Mapping[str, Any]) -> None:
    """Raises ValueError with the differences if the existing content has another recipe."""
    differences = [
        f"{key}: {existing.get(key)!r} there, {value!r} requested"
        for key, value in recipe.items()
        if existing.get(key) != value
    ]
    if differences:
        raise ValueError(
            f"{folder} holds translations of another recipe ({'; '.join(differences)}): "
            "remove it, or name another directory"
        )


def model_recipe(model_dir: str, steps: Sequence[int], manifest: Manifest) -> dict[str, Any]:
    """Returns what identifies the model of a recipe: directory, steps, digests.

    steps: of the checkpoint, or of the averaged checkpoints.
    """
    return {
        "model": str(Path(model_dir).absolute()),
        "steps": list(steps),
        "model_digest": digests.of_steps(Run(model_dir), steps),
        "vocabulary": dict(manifest.vocabulary_hash),
    }


def row(*texts: str) -> str:
    """Returns a line of TSV; tabs within a text become spaces."""
    return "\t".join(text.replace("\t", " ").strip() for text in texts) + "\n"


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[TextIO]:
    """Opens a temporary file, which is renamed to `path` when the `with` statement ends."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w", encoding="utf-8", newline="\n") as file:
        yield file
    os.replace(temporary, path)
