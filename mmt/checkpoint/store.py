"""Saves and restores checkpoints, with `mmt.checkpoint.streaming` the only module with Orbax.

A checkpoint is `checkpoints/<step>/` with the items `params`, `optimizer` and `progress` (arrays),
`data` (the position in every lane of the data) and `measured` (validation scores at that step).
Writing is asynchronous; a directory appears under its final name only when it is whole, with the
digests of its files (`mmt.checkpoint.digests`), which are checked before anything is read of it.
"""

import contextlib
import dataclasses
import functools
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers as policies
from orbax.checkpoint.path import atomicity

from mmt import distributed
from mmt.checkpoint import digests
from mmt.checkpoint.streaming import of_the_system, path_name, write_tree
from mmt.checkpoint.streaming import raised_alone as raised_alone
from mmt.run import Run

ARRAYS = ("params", "optimizer", "progress")
JSON = ("data", "measured")


@dataclasses.dataclass(frozen=True)
class Policy:
    """When checkpoints are written and which are kept.

    period: every so many steps, and always at the end of a run.
    keep: the last so many stay.
    keep_best: and so many of the lowest validation loss, of those where it was measured.
    skips: after so many steps in a row that were skipped, because loss or gradient were not finite,
        training goes back to the last checkpoint, and on with the data that come next.
    returns: it goes back so often without a new checkpoint, and then gives up.
    """

    period: int = 1000
    keep: int = 2
    keep_best: int = 1
    skips: int = 10
    returns: int = 3

    def __post_init__(self) -> None:
        if min(self.period, self.keep, self.skips) < 1 or self.returns < 0:
            raise ValueError(
                f"checkpoint.Policy: {self}; period, keep and skips must be 1 or more, returns 0"
            )


class Checkpoints:
    """The checkpoints of one run directory. Use as a context manager: leaving waits for writes.
    Inside `raised_alone`, what fails is told once.
    """

    def __init__(self, model_dir: str | Path, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.directory = Run(model_dir).checkpoints.absolute()
        keep = [
            policies.LatestN(n=self.policy.keep),
            policies.BestN(
                n=self.policy.keep_best,
                get_metric_fn=lambda measured: -measured["validation_loss"],
                keep_checkpoints_without_metrics=False,
            ),
        ]
        distributed.first_then_others(self._sweep)
        self._manager = ocp.CheckpointManager(
            self.directory,
            item_handlers={name: ocp.StandardCheckpointHandler() for name in ARRAYS}
            | {name: ocp.JsonCheckpointHandler() for name in JSON},
            options=ocp.CheckpointManagerOptions(
                preservation_policy=policies.AnyPreservationPolicy(keep),
                temporary_path_class=_Digested,
                # Orbax measures by the wall clock, which may be set: of one process nobody waits.
                async_options=ocp.options.AsyncOptions(
                    timeout_secs=1200 if jax.process_count() > 1 else 10**9
                ),
            ),
        )
        self._writing: int | None = None  # the step that is on its way to the disk

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        refused = self._finish()
        self._manager.close()
        if distributed.is_first():
            self._sweep()
        if refused and kind is None:
            raise refused

    def save(
        self, step: int, arrays: Mapping[str, Any], *, data: Any, measured: Mapping[str, float]
    ) -> None:
        """Writes a checkpoint in the background; one that is there already is left as it is.

        A disk that does not take it is told on stderr, at the next `save`, and what is older stays:
        training can go on. It is an OSError for the last one, on leaving, and for several
        processes, who would wait for each other.
        """
        self._tell(self._finish())
        if step in self._manager.all_steps():
            return
        items = {name: ocp.args.StandardSave(arrays[name]) for name in ARRAYS}
        items["data"] = ocp.args.JsonSave(data)
        items["measured"] = ocp.args.JsonSave(dict(measured))
        args = ocp.args.Composite(**items)
        metrics = dict(measured) if "validation_loss" in measured else None
        self._writing = step
        try:
            with of_the_system():
                self._manager.save(step, args=args, metrics=metrics, force=True)
        except OSError as error:
            self._tell(self._refused(error))

    def _finish(self) -> OSError | None:
        """Waits for the step that is on its way; why the disk did not take it, or None."""
        try:
            with of_the_system():
                self._manager.wait_until_finished()
        except OSError as error:
            return self._refused(error)
        self._writing = None
        return None

    def _refused(self, error: OSError) -> OSError:
        """Clears what is there of the step that could not be written."""
        step, self._writing = self._writing, None
        self._sweep()
        self._manager.reload()
        last = max(self._manager.all_steps(), default="none")
        return OSError(
            f"checkpoint {self.directory / str(step)} could not be written: "
            f"{error.strerror or error}; the last whole one: {last}"
        )

    def _sweep(self) -> None:
        """Removes what kills and full disks left; what was on its way may still come after it."""
        for half in self.directory.glob("*.orbax-checkpoint-tmp*"):
            shutil.rmtree(half, ignore_errors=True)

    def _tell(self, refused: OSError | None) -> None:
        if refused and jax.process_count() > 1:
            raise refused
        if refused:
            with contextlib.suppress(OSError):  # stderr may lie on the same disk
                print(f"{refused}; the run goes on to the next", file=sys.stderr)

    def restore(self, shapes: Mapping[str, Any]) -> tuple[int, dict[str, Any]] | None:
        """The latest good checkpoint as (step, items), or None where there is none.

        shapes: for every array item a tree of `jax.ShapeDtypeStruct` with shardings. A damaged
        checkpoint is named on stderr, the one before it is taken, and where that one is good, the
        damaged is renamed: its step will be written again. A checkpoint of another model, optimizer
        or kind of training is a ValueError that names the arrays which differ.
        """
        items = {name: ocp.args.StandardRestore(shapes[name]) for name in ARRAYS}
        items |= {name: ocp.args.JsonRestore() for name in JSON}
        damaged: list[Path] = []
        self._finish()
        for step in sorted(self._manager.all_steps(), reverse=True):
            directory, said = self.directory / str(step), ""
            wrong: list[str] = []
            restored: Any = None
            try:
                with _damage_named(directory, together=True):
                    wrong = _differences(directory, shapes)
                    if not wrong:
                        restored = self._manager.restore(step, args=ocp.args.Composite(**items))
            except Damaged as error:
                said = str(error)
            said = next(filter(None, distributed.gather(said)), "")
            if said:  # by any process: all go past it
                print(said, file=sys.stderr)
                damaged.append(directory)
                continue
            _refuse(directory, wrong)
            self._set_aside(damaged)
            return step, {name: restored[name] for name in (*ARRAYS, *JSON)}
        if damaged:
            raise ValueError(f"no good checkpoint in {self.directory}: {said}")
        return None

    def _set_aside(self, damaged: Sequence[Path]) -> None:
        if not damaged:
            return
        if distributed.is_first():
            for directory in damaged:
                new = digests.set_aside(directory)
                print(f"{directory.name} is now {new}, to be looked at or removed", file=sys.stderr)
        distributed.gather(None)
        self._manager.reload()


class Damaged(ValueError):
    """A checkpoint is not as it was written; the message names it and says what is wrong."""


class _Digested(atomicity.AtomicRenameTemporaryPath):
    """A checkpoint on its way, which is given its name after the digests of its files."""

    async def finalize(self) -> None:
        if self.get_final().name.isdigit():  # not one of its items
            digests.write(Path(self.get()))
        await super().finalize()


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
    said = digests.damage(directory, pattern, part=part)
    said = next(filter(None, distributed.gather(said)), "") if together else said
    if said:
        raise Damaged(f"checkpoint {directory} is damaged: {said}")
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
        there = Run(model_dir).checkpoint(step).iterdir()
        if [path.name for path in there if path.is_dir()] == ["params"]:
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


def write_params(
    model_dir: str | Path, shapes: Any, load: Callable[[str, jax.ShapeDtypeStruct], np.ndarray]
) -> None:
    """Writes parameters alone, as the checkpoint of step 0 of a run directory.

    The rest as of `write_tree`.
    """
    directory = Run(model_dir).checkpoint(0)
    write_tree(directory / "params", shapes, load)
    digests.write(directory)


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


def average(model_dir: str | Path, shapes: Any, *, last: int, step: int | None = None) -> Any:
    """The mean of the parameters of a run over the `last_steps`.

    It is a running one: beside it there is one checkpoint in memory at a time. shapes, and what is
    raised: as of `restore_params` and `last_steps`.
    """
    first, *others = Run(model_dir).last_steps(last, step=step)
    mean = restore_params(model_dir, shapes, step=first)
    for count, other in enumerate(others, 2):
        mean = _nearer(mean, restore_params(model_dir, shapes, step=other), 1 / count)
    return mean


@functools.partial(jax.jit, donate_argnums=0)
def _nearer(mean: Any, other: Any, share: Any) -> Any:
    return jax.tree.map(lambda m, o: m + (o - m) * share, mean, other)


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
        others = ", ".join(str(one) for one in Run(model_dir).checkpoint_steps() if one != step)
        raise ValueError(f"{error}; others: {others or 'none'}") from error
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
        found, wanted = _by_name(stored.tree), _by_name(shapes)
        at = "" if item == "params" else f"{item}/"
        wrong += [f"{at}{name}: missing" for name in wanted.keys() - found.keys()]
        wrong += [f"{at}{name}: not in the model" for name in found.keys() - wanted.keys()]
        wrong += [
            f"{at}{name}: {found[name]} in the checkpoint, {wanted[name]} in the model"
            for name in wanted.keys() & found.keys()
            if wanted[name] != found[name]
        ]
    return wrong


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _by_name(tree: Any) -> dict[str, tuple[int, ...]]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {path_name(path): tuple(leaf.shape) for path, leaf in leaves}
