"""Writes checkpoints.

A checkpoint is `checkpoints/<step>/` with the items `params`, `optimizer` and `progress` (arrays),
`data` (the position in the data) and `measured` (validation scores at that step). Writing is
asynchronous; a directory appears under its final name only when it is complete, with the digests of
its files (`mmt.checkpoint.digests`).
"""

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers as policies
from orbax.checkpoint.path import atomicity

from mmt import distributed
from mmt.checkpoint import digests
from mmt.checkpoint.policy import Policy
from mmt.checkpoint.restore import ARRAYS, JSON, restore_latest
from mmt.checkpoint.streaming import of_the_system, write_tree
from mmt.run import Run


class Write(NamedTuple):
    """A finished write of a checkpoint.

    blocked: seconds during which `Checkpoints.save` kept the caller. seconds: until the write was
    found complete, from the same moment. cpu_seconds: of the whole process in this time, training
    included. size: bytes of the files.
    """

    step: int
    blocked: float
    seconds: float
    cpu_seconds: float
    size: int


class Checkpoints:
    """The checkpoints of one run directory. Use as a context manager: leaving waits for writes.

    Inside `raised_alone`, a failed write is reported once.
    """

    def __init__(
        self, model_dir: str | Path, policy: Policy | None = None, *, recovery: bool = False
    ) -> None:
        """recovery: whether the directory is `Run.recovery`, for the state between two checkpoints.
        """
        self.policy = policy or Policy()
        run = Run(model_dir)
        self.directory = (run.recovery if recovery else run.checkpoints).absolute()
        best = policies.BestN(
            n=self.policy.keep_best,
            get_metric_fn=lambda measured: -measured["validation_loss"],
            keep_checkpoints_without_metrics=False,
        )
        last = policies.LatestN(n=1 if recovery else self.policy.keep)
        keep = [last] if recovery else [last, best]
        distributed.first_then_others(self._sweep)
        self._manager = ocp.CheckpointManager(
            self.directory,
            item_handlers={name: ocp.StandardCheckpointHandler() for name in ARRAYS}
            | {name: ocp.JsonCheckpointHandler() for name in JSON},
            options=ocp.CheckpointManagerOptions(
                preservation_policy=policies.AnyPreservationPolicy(keep),
                temporary_path_class=_Digested,
                # Orbax uses the wall clock, which may be changed. One process waits for no other.
                async_options=ocp.options.AsyncOptions(
                    timeout_secs=1200 if jax.process_count() > 1 else 10**9
                ),
            ),
        )
        self._writing: int | None = None  # the step that is being written
        self._started = self._blocked = self._cpu_started = 0.0  # its times
        self._written: list[Write] = []

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        refused = self._finish()
        self._manager.close()
        if distributed.is_first():
            self._sweep()
            with contextlib.suppress(OSError):  # not empty, or never created
                self.directory.rmdir()
        if refused and kind is None:
            raise refused

    def save(
        self, step: int, arrays: Mapping[str, Any], *, data: Any, measured: Mapping[str, float]
    ) -> None:
        """Writes a checkpoint in the background; an existing checkpoint is left as it is.

        A failed write is logged to stderr at the next `save`; older checkpoints stay and training
        can continue.

        Raises:
          OSError: the last write failed (on leaving), or a write of several processes, which would
            wait for each other.
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
        self._started, self._cpu_started = time.perf_counter(), time.process_time()
        try:
            with of_the_system():
                self._manager.save(step, args=args, metrics=metrics, force=True)
            self._blocked = time.perf_counter() - self._started
        except OSError as error:
            self._tell(self._refused(error))

    def _finish(self) -> OSError | None:
        """Waits for the step that is being written; returns the error of a failed write, or None.
        """
        try:
            with of_the_system():
                self._manager.wait_until_finished()
        except OSError as error:
            return self._refused(error)
        self._note_written()
        return None

    def _note_written(self) -> None:
        """Notes how long the write took that is complete now, if there was one."""
        if self._writing is not None:
            seconds = time.perf_counter() - self._started
            cpu_seconds = time.process_time() - self._cpu_started
            size = digests.size(self.directory / str(self._writing))
            self._written.append(Write(self._writing, self._blocked, seconds, cpu_seconds, size))
            self._writing = None

    def _refused(self, error: OSError) -> OSError:
        """Removes the remains of the step that could not be written."""
        step, self._writing = self._writing, None
        self._sweep()
        self._manager.reload()
        last = max(self._manager.all_steps(), default="none")
        return OSError(
            f"checkpoint {self.directory / str(step)} could not be written: "
            f"{error.strerror or error}; the last complete one: {last}"
        )

    def _sweep(self) -> None:
        """Removes incomplete checkpoints of killed runs and full disks; a pending write may still
        add one.
        """
        for half in self.directory.glob("*.orbax-checkpoint-tmp*"):
            shutil.rmtree(half, ignore_errors=True)

    def _tell(self, refused: OSError | None) -> None:
        if refused and jax.process_count() > 1:
            raise refused
        if refused:
            with contextlib.suppress(OSError):  # stderr may lie on the same disk
                print(f"{refused}; training continues", file=sys.stderr)

    @property
    def writing(self) -> bool:
        """Whether a checkpoint is being written."""
        step = self._writing
        return step is not None and not (self.directory / str(step)).is_dir()

    def written(self) -> list[Write]:
        """Returns the writes that were completed since the last call.

        Their end is noticed here or at the next `save` or `wait`.
        """
        if self._writing is not None and not self.writing:
            self._note_written()
        written, self._written = self._written, []
        return written

    def wait(self) -> None:
        """Waits until everything is written; a failed write is reported on stderr."""
        self._tell(self._finish())

    def last_step(self) -> int:
        """Returns the step of the latest checkpoint; -1 if there is none."""
        return max(self._manager.all_steps(), default=-1)

    def restore(self, shapes: Mapping[str, Any]) -> tuple[int, dict[str, Any]] | None:
        """Returns (step, items) of the latest good checkpoint, see `restore_latest`."""
        self._finish()
        restored = restore_latest({self.directory: self._manager}, shapes)
        return restored and (int(restored[0].name), restored[1])

    def restore_later(
        self, recovery: "Checkpoints", shapes: Mapping[str, Any]
    ) -> tuple[bool, dict[str, Any]] | None:
        """Returns the items of the latest good checkpoint, here or in `recovery`.

        The first value is whether the checkpoint is in `recovery`.
        """
        managers = {each.directory: each._manager for each in (self, recovery)}
        restored = restore_latest(managers, shapes)
        return restored and (restored[0].parent == recovery.directory, restored[1])

    def clear(self) -> None:
        """Removes all checkpoints after pending writes have ended."""
        self.wait()
        for step in self._manager.all_steps():
            self._manager.delete(step)
        self._manager.wait_until_finished()


class _Digested(atomicity.AtomicRenameTemporaryPath):
    """A checkpoint that gets its final name after the digests of its files are written."""

    async def finalize(self) -> None:
        if self.get_final().name.isdigit():  # a checkpoint, not one of its items
            digests.write(Path(self.get()))
        await super().finalize()


def write_params(
    model_dir: str | Path, shapes: Any, load: Callable[[str, jax.ShapeDtypeStruct], np.ndarray]
) -> None:
    """Writes parameters alone, as the checkpoint of step 0 of a run directory.

    `shapes`, `load` and errors are those of `write_tree`.
    """
    directory = Run(model_dir).checkpoint(0)
    write_tree(directory / "params", shapes, load)
    digests.write(directory)
