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
from mmt.checkpoint import digests, published
from mmt.checkpoint.streaming import path_name
from mmt.run import Run
from mmt.system import json_objects

ARRAYS = ("params", "optimizer", "progress")
JSON = ("data", "measured")
_METER = "meters/language_loss"


class Damaged(ValueError):
    """A checkpoint whose files have changed; the message names it and describes the damage."""


def restore_latest(
    managers: Mapping[Path, ocp.CheckpointManager], shapes: Mapping[str, Any]
) -> tuple[Path, dict[str, Any]] | None:
    """Returns directory and items of the latest good checkpoint, or None if there is none.

    A damaged checkpoint is reported on stderr, and the one before it is tried. If that one is good,
    the damaged one is renamed, so that its step can be written again.

    Args:
      managers: a manager for each directory of checkpoints. Of equal steps, the first directory's
        is taken.
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
        differences: list[str] = []
        restored: Any = None
        try:
            with _damage_checked(directory, all_processes=True):
                differences = _differences(directory, shapes)
                if not differences:
                    args = ocp.args.Composite(**items)
                    restored = managers[parent].restore(step, args=args)
        except Damaged as error:
            message = str(error)
        message = next(filter(None, distributed.gather(message)), "")
        if message:  # from any process: all of them skip the checkpoint
            print(message, file=sys.stderr)
            damaged.append(directory)
            continue
        _raise_differences(directory, differences)
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
            print(f"{directory.name} is now {new}; inspect or remove it", file=sys.stderr)
    if damaged:
        distributed.gather(None)


@contextlib.contextmanager
def _damage_checked(
    directory: Path, pattern: str = "*", *, all_processes: bool = False
) -> Iterator[None]:
    """Checks files of a checkpoint before the body of the `with` statement reads them.

    Without digests, every error in the body counts as damage, since damaged bytes cause errors of
    any type, even a bare Exception. With digests, errors in the body are raised unchanged.

    Args:
      directory: the checkpoint.
      pattern: of the names of the files.
      all_processes: whether all processes call it, and share the work.

    Raises:
      Damaged: files differ from their digests, or cannot be read and have no digests.
    """
    part = (jax.process_index(), jax.process_count()) if all_processes else (0, 1)
    damage = digests.verify(directory, pattern, part=part)
    damage = next(filter(None, distributed.gather(damage)), "") if all_processes else damage
    if damage:
        raise Damaged(f"checkpoint {directory} is damaged: {damage}")
    try:
        yield
    except Exception as error:
        if digests.has_digests(directory):
            raise
        raise Damaged(f"checkpoint {directory} is damaged: {_first_line(error)}") from error


def check_model(model_dir: str | Path, shapes: Mapping[str, Any]) -> None:
    """Raises ValueError if the latest readable checkpoint has other shapes, those of `restore`.

    Call it before anything in the run directory is overwritten.
    """
    for step in Run(model_dir).checkpoint_steps()[-1:]:
        if Run(model_dir).weights(step).is_file():
            raise ValueError(
                f"MODEL_DIR {model_dir} holds a published model, which has no training state to "
                "resume: set a new MODEL_DIR"
            )
        paths = Run(model_dir).checkpoint(step).iterdir()
        if [path.name for path in paths if path.is_dir()] == ["params"]:
            raise ValueError(
                f"MODEL_DIR {model_dir} holds an imported model, which has no training state to "
                "resume: set a new MODEL_DIR, and name this one as its initial model "
                f"(gin_configs/runs/finetune.gin with INITIAL_MODEL_DIR = {str(model_dir)!r}, or "
                "train.Trainer.initial_model_dir)"
            )
    for step in reversed(Run(model_dir).checkpoint_steps()):
        directory = Run(model_dir).checkpoint(step)
        with contextlib.suppress(Damaged, OSError):  # `restore` reports it and tries earlier ones
            with _damage_checked(directory, "*/_METADATA"):
                differences = _differences(directory, shapes)
            break
    else:
        return
    _raise_differences(directory, differences)


def meter_size(model_dir: str | Path) -> int | None:
    """Returns the size of `Meters.language_loss` in the latest readable checkpoint of a run.

    Returns None without such a checkpoint.
    """
    for directory in _latest_first(Run(model_dir)):
        with contextlib.suppress(OSError, ValueError):  # damaged: `restore` reports it
            stored = ocp.StandardCheckpointHandler().metadata((directory / "progress").absolute())
            if shape := _by_name(stored.tree).get(_METER):
                return shape[0]
    return None


def data_state(model_dir: str | Path) -> dict[str, Any] | None:
    """Returns the position in the data of a run's latest readable checkpoint; None without one."""
    for directory in _latest_first(Run(model_dir)):
        with contextlib.suppress(OSError, ValueError):  # damaged: `restore` reports it
            return json_objects.parse((directory / "data" / "metadata").read_bytes())
    return None


def _latest_first(run: Run) -> list[Path]:
    """Returns the directories of the recovery states and checkpoints of a run."""
    directories = [run.checkpoint(step) for step in run.checkpoint_steps()]
    if run.recovery.is_dir():
        directories += [path for path in sorted(run.recovery.iterdir()) if path.name.isdigit()]
    return directories[::-1]


def restore_params(model_dir: str | Path, shapes: Any, *, step: int | None = None) -> Any:
    """Returns the parameters of a run, at `best_step` unless `step` is given.

    shapes: a tree of `jax.ShapeDtypeStruct`, with shardings unless all go to the first device.

    Raises ValueError if the checkpoint is missing or of another model.
    """
    if weights := _published(model_dir, shapes, step):
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf: jax.device_put(
                weights[path_name(path)].astype(leaf.dtype), leaf.sharding or jax.devices()[0]
            ),
            shapes,
        )
    with _open_checkpoint(model_dir, shapes, step) as directory:
        checkpointer = ocp.Checkpointer(ocp.StandardCheckpointHandler())
        return checkpointer.restore(directory / "params", args=ocp.args.StandardRestore(shapes))


def read_params(
    model_dir: str | Path, shapes: Any, *, step: int | None = None
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields (path, array) of the parameters of a run; each array is read when it is requested.

    `shapes`, `step` and errors are those of `restore_params`.
    """
    leaves = jax.tree_util.tree_leaves_with_path(shapes)
    if weights := _published(model_dir, shapes, step):
        for path, shape in leaves:
            yield path_name(path), weights.pop(path_name(path)).astype(shape.dtype)
        return
    structure: Any = jax.tree.structure(shapes)
    with (
        _open_checkpoint(model_dir, shapes, step) as directory,
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


def _published(model_dir: str | Path, shapes: Any, step: int | None) -> dict[str, np.ndarray]:
    """Returns the published weights of a model, by path; {} if its checkpoint has none.

    Raises ValueError if they are of another model, changed, or without their card.
    """
    run = Run(model_dir)
    step = run.best_step() if step is None else step
    if not run.weights(step).is_file():
        return {}
    weights = published.read_weights(run.directory, step)
    in_file = {name: array.shape for name, array in weights.items()}
    differences = []
    in_model = _by_name(shapes)
    for name in in_file.keys() | in_model.keys():
        stored, expected = in_file.get(name), in_model.get(name)
        if stored != expected:
            differences.append(f"{name}: {stored} in the file, {expected} in the model")
    _raise_differences(run.weights(step), differences)
    return weights


@contextlib.contextmanager
def _open_checkpoint(model_dir: str | Path, shapes: Any, step: int | None) -> Iterator[Path]:
    """Yields the directory of a checkpoint whose parameters have these shapes.

    Raises ValueError, with the other steps, if it is missing, damaged or of another model; damage
    may be found in the body of the `with` statement.
    """
    step = Run(model_dir).best_step() if step is None else step
    directory = Run(model_dir).checkpoint(step)
    if not directory.is_dir():
        steps = ", ".join(map(str, Run(model_dir).checkpoint_steps()))
        raise ValueError(f"no checkpoint {directory}; there are: {steps or 'none'}")
    differences: list[str] = []
    try:
        with _damage_checked(directory, "params/*"):
            differences = _differences(directory, {"params": shapes})
            if not differences:
                yield directory
    except Damaged as error:
        other_steps = [
            other_step for other_step in Run(model_dir).checkpoint_steps() if other_step != step
        ]
        steps = ", ".join(map(str, other_steps))
        raise ValueError(f"{error}; others: {steps or 'none'}") from error
    _raise_differences(directory, differences)


def _raise_differences(directory: Path, differences: list[str]) -> None:
    """Raises ValueError with the names of arrays that differ from the model, if there are any."""
    if differences:
        rest_note = f" and {len(differences) - 8} more" if len(differences) > 8 else ""
        kind = "training" if all(line.startswith(ARRAYS[1:]) for line in differences) else "model"
        raise ValueError(
            f"checkpoint {directory} is of another {kind}: "
            f"{'; '.join(sorted(differences)[:8])}{rest_note}"
        )


def _differences(directory: Path, items: Mapping[str, Any]) -> list[str]:
    """Returns the arrays that are missing, unused or of another shape.

    Names of all but parameters begin with the name of their item. Raises OSError if the metadata
    are unreadable.
    """
    differences = []
    for item, shapes in items.items():
        try:
            stored = ocp.StandardCheckpointHandler().metadata(directory / item)
        except (OSError, ValueError) as error:  # TensorStore's errors for damaged metadata
            raise OSError(f"its list of {item} cannot be read") from error
        in_file, in_model = _by_name(stored.tree), _by_name(shapes)
        prefix = "" if item == "params" else f"{item}/"
        differences += [f"{prefix}{name}: missing" for name in in_model.keys() - in_file.keys()]
        differences += [
            f"{prefix}{name}: not in the model" for name in in_file.keys() - in_model.keys()
        ]
        differences += [
            f"{prefix}{name}: {in_file[name]} in the checkpoint, {in_model[name]} in the model"
            for name in in_model.keys() & in_file.keys()
            if in_model[name] != in_file[name]
        ]
    return differences


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _by_name(tree: Any) -> dict[str, tuple[int, ...]]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {path_name(path): tuple(leaf.shape) for path, leaf in leaves}
