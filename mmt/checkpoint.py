"""Checkpoints: save, restore, the latest good one. The only `import orbax`.

A checkpoint is `checkpoints/<step>/` with the items `params`, `optimizer` and `progress` (arrays),
`data` (the position in every lane of the data) and `measured` (validation scores at that step).
Writing is asynchronous; a directory appears under its final name only when it is whole.
"""

import contextlib
import dataclasses
import functools
import itertools
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import tensorstore
from orbax.checkpoint import checkpoint_managers as policies
from orbax.checkpoint import type_handlers

from mmt import distributed

logging.getLogger("absl").setLevel(logging.ERROR)  # Orbax tells of every file it writes

ARRAYS = ("params", "optimizer", "progress")
JSON = ("data", "measured")
_PIECE_BYTES = 1 << 24  # of an array that is written by `write_params`


@dataclasses.dataclass(frozen=True)
class Policy:
    """When checkpoints are written and which are kept.

    period: every so many steps, and always at the end of a run.
    keep: the last so many stay.
    keep_best: and so many of the lowest validation loss, of those where it was measured.
    """

    period: int = 1000
    keep: int = 2
    keep_best: int = 1

    def __post_init__(self) -> None:
        if self.period < 1 or self.keep < 1:
            raise ValueError(f"checkpoint.Policy: {self}; period and keep must be 1 or more")


class Checkpoints:
    """The checkpoints of one run directory. Use as a context manager: leaving waits for writes."""

    def __init__(self, model_dir: str | Path, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.directory = Path(model_dir).absolute() / "checkpoints"
        keep = [
            policies.LatestN(n=self.policy.keep),
            policies.BestN(
                n=self.policy.keep_best,
                get_metric_fn=lambda measured: -measured["validation_loss"],
                keep_checkpoints_without_metrics=False,
            ),
        ]
        self._manager = ocp.CheckpointManager(
            self.directory,
            item_handlers={name: ocp.StandardCheckpointHandler() for name in ARRAYS}
            | {name: ocp.JsonCheckpointHandler() for name in JSON},
            options=ocp.CheckpointManagerOptions(
                preservation_policy=policies.AnyPreservationPolicy(keep)
            ),
        )

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *exception: object) -> None:
        self._manager.close()

    def save(
        self, step: int, arrays: Mapping[str, Any], *, data: Any, measured: Mapping[str, float]
    ) -> None:
        """Writes a checkpoint in the background; one that is there already is left as it is."""
        if step in self._manager.all_steps():
            return
        items = {name: ocp.args.StandardSave(arrays[name]) for name in ARRAYS}
        items["data"] = ocp.args.JsonSave(data)
        items["measured"] = ocp.args.JsonSave(dict(measured))
        metrics = dict(measured) if "validation_loss" in measured else None
        self._manager.save(step, args=ocp.args.Composite(**items), metrics=metrics, force=True)

    def restore(self, shapes: Mapping[str, Any]) -> tuple[int, dict[str, Any]] | None:
        """The latest good checkpoint as (step, items), or None where there is none.

        shapes: for every array item a tree of `jax.ShapeDtypeStruct` with shardings. A damaged
        checkpoint is named on stderr and the one before it is taken; a checkpoint of another
        model, optimizer or kind of training is a ValueError that names the arrays which differ.
        """
        damage, said = None, ""
        for step in sorted(self._manager.all_steps(), reverse=True):
            directory = self.directory / str(step)
            items = {name: ocp.args.StandardRestore(shapes[name]) for name in ARRAYS}
            items |= {name: ocp.args.JsonRestore() for name in JSON}
            said = ""
            try:
                wrong = _differences(directory, shapes)
                if not wrong:
                    restored = self._manager.restore(step, args=ocp.args.Composite(**items))
            except Exception as error:  # damaged bytes surface as any type, also a bare Exception
                damage, said = error, _first_line(error)
            said = next(filter(None, distributed.gather(said)), "")
            if said:  # by any process: all go past it
                print(f"checkpoint {directory} is damaged: {said}", file=sys.stderr)
                continue
            _refuse(directory, wrong)
            return step, {name: restored[name] for name in (*ARRAYS, *JSON)}
        if said:
            raise ValueError(f"no good checkpoint in {self.directory}") from damage
        return None


def available_steps(model_dir: str | Path) -> list[int]:
    """The steps of the whole checkpoints of a run directory, in order."""
    directory = Path(model_dir) / "checkpoints"
    return sorted(
        int(path.name)
        for path in (directory.iterdir() if directory.is_dir() else ())
        if path.name.isdigit() and path.is_dir()
    )


def check_model(model_dir: str | Path, shapes: Mapping[str, Any]) -> None:
    """ValueError where the latest readable checkpoint is not of these shapes, those of `restore`.

    To be asked before anything in the run directory is written over.
    """
    for step in available_steps(model_dir)[-1:]:
        items = [path.name for path in (Path(model_dir) / "checkpoints" / str(step)).iterdir()]
        if items == ["params"]:
            raise ValueError(
                f"MODEL_DIR {model_dir} holds an imported model, which has no training to go on "
                "with: name a new MODEL_DIR, and this one as the model that it starts from "
                f"(gin_configs/runs/finetune.gin with INITIAL_MODEL_DIR = {str(model_dir)!r}, or "
                "train.Program.initial_model_dir)"
            )
    for step in reversed(available_steps(model_dir)):
        directory = Path(model_dir).absolute() / "checkpoints" / str(step)
        with contextlib.suppress(Exception):  # damage is told of by `restore`, which goes past it
            wrong = _differences(directory, shapes)
            break
    else:
        return
    _refuse(directory, wrong)


def best_step(model_dir: str | Path) -> int:
    """The step of the lowest validation loss where one was measured, else the latest.

    Raises ValueError where the directory holds no checkpoint.
    """
    steps = available_steps(model_dir)
    if not steps:
        raise ValueError(f"no checkpoint in {Path(model_dir) / 'checkpoints'}: is it trained yet?")
    handler = ocp.Checkpointer(ocp.JsonCheckpointHandler())
    losses = {}
    for step in steps:
        directory = Path(model_dir).absolute() / "checkpoints" / str(step) / "measured"
        try:
            measured = handler.restore(directory) if directory.is_dir() else {}
        except (ValueError, OSError) as error:
            print(f"{directory} is damaged: {_first_line(error)}", file=sys.stderr)
            continue
        if isinstance(measured, dict) and "validation_loss" in measured:
            losses[step] = measured["validation_loss"]
    return min(losses, key=losses.__getitem__) if losses else steps[-1]


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

    shapes: a tree of `jax.ShapeDtypeStruct`. Each array is asked for by `load(path, shape)`, with a
    path like 'encoder/norm/scale', when it is written, one after another, and not kept. OSError
    where it cannot be written.
    """
    write_tree(Path(model_dir) / "checkpoints" / "0" / "params", shapes, load)


def write_tree(
    directory: Path, shapes: Any, load: Callable[[str, jax.ShapeDtypeStruct], np.ndarray]
) -> None:
    """As `write_params`, but any tree, and into `directory` itself."""
    tree = jax.tree_util.tree_map_with_path(
        lambda path, shape: _Lazy(shape, functools.partial(load, _path(path), shape)), shapes
    )
    registry = type_handlers.create_type_handler_registry((_Lazy, _LazyHandler()))
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(type_handler_registry=registry)) as writer:
        with _of_the_system():
            writer.save(directory.absolute(), args=ocp.args.PyTreeSave(tree))


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
            yield _path(path), restored.pop(i)


@contextlib.contextmanager
def _of_the_system() -> Iterator[None]:
    """A full disk and the like, which TensorStore tells in words, as OSError; Orbax logs nothing.
    """
    told = logging.getLogger("absl")
    before = told.level
    told.setLevel(logging.CRITICAL)
    try:
        yield
    except Exception as error:
        found = re.search(r"os_error_code='(\d+)'", str(error))
        if found:
            raise OSError(int(found[1]), os.strerror(int(found[1]))) from error
        raise
    finally:
        told.setLevel(before)


class _Lazy:
    """An array that is made when it is written."""

    def __init__(self, shape: jax.ShapeDtypeStruct, load: Callable[[], np.ndarray]) -> None:
        self.shape, self.dtype, self.size = shape.shape, shape.dtype, shape.size
        self.nbytes = shape.size * shape.dtype.itemsize
        self.load = load


class _LazyHandler(type_handlers.NumpyHandler):
    """Writes `_Lazy` arrays as NumPy's are written, but one at a time and in pieces, each on disk
    before the next: whatever is on its way there is held in memory once more, and compressed.
    """

    async def serialize(
        self, values: Sequence[Any], infos: Sequence[Any], args: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        pieces = ocp.SaveArgs(chunk_byte_size=_PIECE_BYTES)
        for lazy, info in zip(values, infos, strict=True):
            await self._background_serialize([lazy.load()], [info], [pieces])
        return []

    async def _open_and_write(self, value: Any, tspec: Any, ts_context: Any) -> None:
        spec = tensorstore.Spec(tspec)
        store = tensorstore.open(spec, create=True, open=True, context=ts_context).result()
        steps: Any = store.chunk_layout.write_chunk.shape or ()  # of a scalar, None
        cuts = [
            [slice(start, min(start + step, size)) for start in range(0, size, step)]
            for size, step in zip(value.shape, steps, strict=True)
        ]
        for piece in itertools.product(*cuts):
            store[piece].write(value[piece]).result()


def last_steps(model_dir: str | Path, last: int, *, step: int | None = None) -> list[int]:
    """The steps of the `last` checkpoints, in order; those up to `step` if it is given.

    Raises ValueError where there are fewer.
    """
    if last < 1:
        raise ValueError(f"the last {last} checkpoints; allowed: 1 or more")
    steps = [one for one in available_steps(model_dir) if step is None or one <= step]
    if len(steps) < last or (step is not None and steps[-1] != step):
        there = ", ".join(map(str, available_steps(model_dir))) or "none"
        raise ValueError(
            f"the last {last} checkpoints{'' if step is None else f' up to {step}'}: {model_dir} "
            f"has {there} (a run keeps as many as checkpoint.Policy.keep says)"
        )
    return steps[-last:]


def average(model_dir: str | Path, shapes: Any, *, last: int, step: int | None = None) -> Any:
    """The mean of the parameters of a run over the `last_steps`.

    It is a running one: beside it there is one checkpoint in memory at a time. shapes, and what is
    raised: as of `restore_params` and `last_steps`.
    """
    first, *others = last_steps(model_dir, last, step=step)
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
    step = best_step(model_dir) if step is None else step
    directory = Path(model_dir).absolute() / "checkpoints" / str(step)
    if not directory.is_dir():
        steps = ", ".join(map(str, available_steps(model_dir)))
        raise ValueError(f"no checkpoint {directory}; there are: {steps or 'none'}")
    wrong: list[str] = []
    try:
        wrong = _differences(directory, {"params": shapes})
        if not wrong:
            yield directory
    except Exception as error:  # damaged bytes surface as any type, also a bare Exception
        others = ", ".join(str(one) for one in available_steps(model_dir) if one != step)
        raise ValueError(
            f"checkpoint {directory} is damaged: {_first_line(error)}; others: {others or 'none'}"
        ) from error
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
        stored = ocp.Checkpointer(ocp.StandardCheckpointHandler()).metadata(directory / item)
        if stored.item_metadata is None:
            raise OSError(f"its list of {item} cannot be read")
        found, wanted = _by_name(stored.item_metadata.tree), _by_name(shapes)
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
    return {_path(path): tuple(leaf.shape) for path, leaf in leaves}


def _path(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
