"""Reads checkpoints: the latest good one to resume from, and parameters alone.

The digests of a checkpoint's files are checked before anything is read.
"""

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from mmt import distributed
from mmt.checkpoint import digests
from mmt.checkpoint.streaming import path_name
from mmt.run import Run

ARRAYS = ("params", "optimizer", "progress")
JSON = ("data", "measured")


class Damaged(ValueError):
    """A checkpoint is not as it was written; the message names it and says what is wrong."""


def restore_latest(
    managers: Mapping[Path, ocp.CheckpointManager], shapes: Mapping[str, Any]
) -> tuple[Path, dict[str, Any]] | None:
    """Returns directory and items of the latest good checkpoint, or None if there is none.

    A damaged checkpoint is named on stderr and the one before it is taken. If that one is good, the
    damaged one is renamed, so that its step can be written again.

    Args:
      managers: of each directory of checkpoints. Of equal steps, that of the first one is taken.
      shapes: for every array item a tree of `jax.ShapeDtypeStruct` with shardings.

    Raises:
      ValueError: no checkpoint is good, or the latest is of another model, optimizer or kind of
        training; the message names the arrays that differ.
    """
    items = {name: ocp.args.StandardRestore(shapes[name]) for name in ARRAYS}
    items |= {name: ocp.args.JsonRestore() for name in JSON}
    damaged: list[Path] = []
    message = ""
    candidates = [
        (step, parent) for parent, manager in managers.items() for step in manager.all_steps()
    ]
    for step, parent in sorted(candidates, key=lambda candidate: candidate[0], reverse=True):
        directory, message = parent / str(step), ""
        wrong: list[str] = []
        restored: Any = None
        try:
            with _damage_named(directory, together=True):
                wrong = _differences(directory, shapes)
                if not wrong:
                    args = ocp.args.Composite(**items)
                    restored = managers[parent].restore(step, args=args)
        except Damaged as error:
            message = str(error)
        message = next(filter(None, distributed.gather(message)), "")
        if message:  # of any process: all skip it
            print(message, file=sys.stderr)
            damaged.append(directory)
            continue
        _refuse(directory, wrong)
        _set_aside(damaged)
        for manager in managers.values() if damaged else ():
            manager.reload()
        return directory, {name: restored[name] for name in (*ARRAYS, *JSON)}
    if damaged:
        raise ValueError(f"no good checkpoint in {next(iter(managers))}: {message}")
    return None


def _set_aside(damaged: Sequence[Path]) -> None:
    if damaged and distributed.is_first():
        for directory in damaged:
            new = digests.set_aside(directory)
            print(f"{directory.name} is now {new}, to be looked at or removed", file=sys.stderr)
    if damaged:
        distributed.gather(None)


@contextlib.contextmanager
def _damage_named(
    directory: Path, pattern: str = "*", *, together: bool = False
) -> Iterator[None]:
    """Looks at the files of a checkpoint, those that match; inside they are read.

    Damaged where they are not as they were written; or, where that was not noted, where reading
    fails: damaged bytes surface as any type there, also a bare Exception. What fails though the
    bytes are right is of another kind and stays as it is. together: all processes call it, and
    share the work.
    """
    part = (jax.process_index(), jax.process_count()) if together else (0, 1)
    damage = digests.damage(directory, pattern, part=part)
    damage = next(filter(None, distributed.gather(damage)), "") if together else damage
    if damage:
        raise Damaged(f"checkpoint {directory} is damaged: {damage}")
    try:
        yield
    except Exception as error:
        if digests.noted(directory):
            raise
        raise Damaged(f"checkpoint {directory} is damaged: {_first_line(error)}") from error


def check_model(model_dir: str | Path, shapes: Mapping[str, Any]) -> None:
    """ValueError where the latest readable checkpoint is not of these shapes, those of `restore`.

    To be asked before anything in the run directory is written over.
    """
    for step in Run(model_dir).checkpoint_steps()[-1:]:
        paths = Run(model_dir).checkpoint(step).iterdir()
        if [path.name for path in paths if path.is_dir()] == ["params"]:
            raise ValueError(
                f"MODEL_DIR {model_dir} holds an imported model, which has no training to go on "
                "with: name a new MODEL_DIR, and this one as the model that it starts from "
                f"(gin_configs/runs/finetune.gin with INITIAL_MODEL_DIR = {str(model_dir)!r}, or "
                "train.Program.initial_model_dir)"
            )
    for step in reversed(Run(model_dir).checkpoint_steps()):
        directory = Run(model_dir).checkpoint(step)
        with contextlib.suppress(Damaged, OSError):  # `restore` tells of it and goes past
            with _damage_named(directory, "*/_METADATA"):
                wrong = _differences(directory, shapes)
            break
    else:
        return
    _refuse(directory, wrong)


def restore_params(model_dir: str | Path, shapes: Any, *, step: int | None = None) -> Any:
    """The parameters of a run, of `best_step` unless `step` says another.

    shapes: a tree of `jax.ShapeDtypeStruct`, with shardings where they should lie anywhere but on
    the first device. Raises ValueError where there is no such checkpoint or it is another model's.
    """
    with _reading(model_dir, shapes, step) as directory:
        checkpointer = ocp.Checkpointer(ocp.StandardCheckpointHandler())
        return checkpointer.restore(directory / "params", args=ocp.args.StandardRestore(shapes))


def read_params(
    model_dir: str | Path, shapes: Any, *, step: int | None = None
) -> Iterator[tuple[str, np.ndarray]]:
    """(path, array) of the parameters of a run, one after another, each read when its turn comes.

    shapes, step, and what is raised: as of `restore_params`.
    """
    leaves = jax.tree_util.tree_leaves_with_path(shapes)
    structure: Any = jax.tree.structure(shapes)
    with (
        _reading(model_dir, shapes, step) as directory,
        ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader,
    ):
        for i, (path, shape) in enumerate(leaves):
            item = [ocp.PLACEHOLDER] * len(leaves)
            item[i] = shape
            args = ocp.args.PyTreeRestore(
                structure.unflatten(item),
                restore_args=structure.unflatten([ocp.RestoreArgs(np.ndarray)] * len(leaves)),
            )
            restored = structure.flatten_up_to(reader.restore(directory / "params", args=args))
            yield path_name(path), restored.pop(i)


@contextlib.contextmanager
def _reading(model_dir: str | Path, shapes: Any, step: int | None) -> Iterator[Path]:
    """The directory of a checkpoint that has parameters of these shapes; whatever fails in reading
    them is a ValueError that names it.
    """
    step = Run(model_dir).best_step() if step is None else step
    directory = Run(model_dir).checkpoint(step)
    if not directory.is_dir():
        steps = ", ".join(map(str, Run(model_dir).checkpoint_steps()))
        raise ValueError(f"no checkpoint {directory}; there are: {steps or 'none'}")
    wrong: list[str] = []
    try:
        with _damage_named(directory, "params/*"):
            wrong = _differences(directory, {"params": shapes})
            if not wrong:
                yield directory
    except Damaged as error:
        others = [other for other in Run(model_dir).checkpoint_steps() if other != step]
        steps = ", ".join(map(str, others))
        raise ValueError(f"{error}; others: {steps or 'none'}") from error
    _refuse(directory, wrong)


def _refuse(directory: Path, wrong: list[str]) -> None:
    """ValueError that names the arrays which are of another model, if there are any."""
    if wrong:
        more = f" and {len(wrong) - 8} more" if len(wrong) > 8 else ""
        other = "training" if all(line.startswith(ARRAYS[1:]) for line in wrong) else "model"
        raise ValueError(
            f"checkpoint {directory} is of another {other}: {'; '.join(sorted(wrong)[:8])}{more}"
        )


def _differences(directory: Path, items: Mapping[str, Any]) -> list[str]:
    """Each array which is missing, unused or of another shape; all but parameters with the name of
    their item before theirs. OSError where unreadable.
    """
    wrong = []
    for item, shapes in items.items():
        try:
            stored = ocp.StandardCheckpointHandler().metadata(directory / item)
        except (OSError, ValueError) as error:  # as damaged metadata is told by TensorStore
            raise OSError(f"its list of {item} cannot be read") from error
        in_file, in_model = _by_name(stored.tree), _by_name(shapes)
        at = "" if item == "params" else f"{item}/"
        wrong += [f"{at}{name}: missing" for name in in_model.keys() - in_file.keys()]
        wrong += [f"{at}{name}: not in the model" for name in in_file.keys() - in_model.keys()]
        wrong += [
            f"{at}{name}: {in_file[name]} in the checkpoint, {in_model[name]} in the model"
            for name in in_model.keys() & in_file.keys()
            if in_model[name] != in_file[name]
        ]
    return wrong


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _by_name(tree: Any) -> dict[str, tuple[int, ...]]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {path_name(path): tuple(leaf.shape) for path, leaf in leaves}
