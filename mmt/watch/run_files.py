"""Files of a run directory, checked before the page shows them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmt import config
from mmt.checked import HUGE
from mmt.data import ledger
from mmt.run import Run
from mmt.system import json_objects

_OF_LEDGER = ("pairs", "examples", "target_tokens", "share", "epochs", "foreseen")


def named(directories: Sequence[str | Path]) -> list[tuple[Path, str]]:
    """Returns the directories, each with a name that no other one has.

    Raises ValueError if a directory is given twice, or is no run directory.
    """
    paths = [Path(directory) for directory in directories]
    for number, path in enumerate(paths):
        _check_is_run(path)
        if path.resolve() in (other.resolve() for other in paths[:number]):
            raise ValueError(f"{path} is given twice")
    names = [path.resolve().name for path in paths]
    return [
        (path, name if names.count(name) == 1 else str(path))
        for path, name in zip(paths, names, strict=True)
    ]


def read_ledger(run: Run) -> dict[str, Any]:
    """Returns the ledger. Raises ValueError if a number that the page shows is missing."""
    content = ledger.load(run.directory)
    _check_ledger(run.ledger, content)
    return content


def read_expert_load(run: Run) -> dict[str, Any]:
    """Returns the step and the choices of each expert by layer and language.

    Raises ValueError with the file if it has none.
    """
    file = run.expert_load
    try:
        content = json_objects.parse(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    if type(content.get("step")) is not int or not _are_loads(content.get("layers")):
        raise ValueError(f"{file}: expected step, and layers of counts by language")
    return content


def read_config(run: Run) -> tuple[str, int | None]:
    """Returns the text of the configuration, and its number of training steps if it has one."""
    try:
        text = run.config.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{run.config}: {error}") from error
    match = re.search(r"^TRAIN_STEPS = (\d{1,18})$", text, re.M)
    return config.with_present_names(text), int(match[1]) if match else None


def _check_is_run(path: Path) -> None:
    run = Run(path)
    if any(file.is_file() for file in (run.metrics, run.config, run.manifest)):
        return
    if not path.is_dir():
        raise ValueError(f"{path}: no such directory{run.nearest()}")
    inside = [
        str(file.parent)
        for depth in ("*", "*/*")
        for file in sorted(path.glob(f"{depth}/{run.metrics.name}"))
    ]
    rest = f" and {len(inside) - 5} more" if inside[5:] else ""
    hint = f"; runs in it: {', '.join(inside[:5])}{rest}" if inside else ""
    raise ValueError(f"{path} is no run directory: it has no {run.metrics.name}{hint}")


def _are_loads(layers: Any) -> bool:
    """Whether these are the choices of each expert by layer and language."""
    if not isinstance(layers, dict) or not all(isinstance(by, dict) for by in layers.values()):
        return False
    for by_language in layers.values():
        loads = list(by_language.values())
        if not all(isinstance(load, list) and load for load in loads):
            return False
        counts = [count for load in loads for count in load]
        if len({len(load) for load in loads}) != 1 or not all(
            type(count) is int and 0 <= count <= HUGE for count in counts
        ):
            return False
    return True


def _check_ledger(file: Path, content: dict[str, Any]) -> None:
    """Raises ValueError if a number that the page shows is missing, or is none."""
    numbers = [("the whole", "step", content["step"])]
    for row in content["rows"]:
        numbers += [(row["language"], field, row.get(field)) for field in _OF_LEDGER]
        numbers += [
            (f"{row['language']}, {corpus}", "examples", counts.get("examples"))
            for corpus, counts in row["corpora"].items()
        ]
    for row_name, field, number in numbers:
        if type(number) not in (int, float) or not 0 <= number <= HUGE:
            raise ValueError(
                f"{file}: {field} of {row_name} is {number!r}; allowed: a number from 0. A run of "
                "an older version gets it at its next checkpoint"
            )
