"""Writes checkpoints.

A checkpoint is `checkpoints/<step>/` with the items `params`, `optimizer` and `progress` (arrays),
`data` (the position in the data) and `measured` (validation scores at that step). Writing is
asynchronous; a directory appears under its final name only when it is complete, with the digests of
its files (`mmt.checkpoint.digests`).
"""

import contextlib
import math
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
from mmt.checkpoint.streaming import as_os_error, write_tree
from mmt.run import Run


class Write(NamedTuple):
    """A finished write of a checkpoint.

    Attributes:
        step: the step.
        blocked: seconds that `Checkpoints.save` took.
        seconds: from the start of `save` until the write was found complete.
        cpu_seconds: CPU time of the whole process in `seconds`, training included.
        size: bytes of the files.
    """

    step: int
    blocked: float
    seconds: float
    cpu_seconds: float
    size: int


class Checkpoints:
    """The checkpoints of one run directory. Use as a context manager: leaving waits for writes.

    Inside `without_duplicate_logs`, a failed write is reported once.
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
            get_metric_fn=_goodness,
            keep_checkpoints_without_metrics=False,
        )
        last = policies.LatestN(n=1 if recovery else self.policy.keep)
        keep = [last] if recovery else [last, best]
        distributed.first_then_others(self._remove_incomplete)
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
        self._failed: OSError | None = None  # the error of a write that is not reported yet
        self._started = self._blocked = self._cpu_started = 0.0  # its times
        self._written: list[Write] = []

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        write_error = self._finish()
        self._manager.close()
        if distributed.is_first():
            self._remove_incomplete()
            with contextlib.suppress(OSError):  # not empty, or never created
                self.directory.rmdir()
        if write_error and kind is None:
            raise write_error

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
        self._report(self._finish())
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
            with as_os_error():
                self._manager.save(step, args=args, metrics=metrics, force=True)
            self._blocked = time.perf_counter() - self._started
        except OSError as error:
            self._failed = self._discard_failed_write(error)
            if jax.process_count() > 1:
                raise self._failed from error

    def _finish(self) -> OSError | None:
        """Waits for a pending write; returns the error of a failed one, or None."""
        if self._failed:
            error, self._failed = self._failed, None
            return error
        try:
            with as_os_error():
                self._manager.wait_until_finished()
        except OSError as error:
            return self._discard_failed_write(error)
        self._record_write()
        return None

    def _record_write(self) -> None:
        """Records the duration and size of a write that is now complete."""
        if self._writing is not None:
            seconds = time.perf_counter() - self._started
            cpu_seconds = time.process_time() - self._cpu_started
            size = digests.size(self.directory / str(self._writing))
            self._written.append(Write(self._writing, self._blocked, seconds, cpu_seconds, size))
            self._writing = None

    def _discard_failed_write(self, error: OSError) -> OSError:
        """Removes the files of a failed write; returns an error that names the checkpoint."""
        step, self._writing = self._writing, None
        self._remove_incomplete()
        self._manager.reload()
        last = max(self._manager.all_steps(), default="none")
        return OSError(
            f"checkpoint {self.directory / str(step)} could not be written: "
            f"{error.strerror or error}; the last complete one: {last}"
        )

    def _remove_incomplete(self) -> None:
        """Removes incomplete checkpoints of killed runs and full disks.

        A pending write may add another one later.
        """
        for incomplete in self.directory.glob("*.orbax-checkpoint-tmp*"):
            shutil.rmtree(incomplete, ignore_errors=True)

    def _report(self, write_error: OSError | None) -> None:
        if write_error and jax.process_count() > 1:
            raise write_error
        if write_error:
            with contextlib.suppress(OSError):  # stderr may lie on the same disk
                print(f"{write_error}; training continues", file=sys.stderr)

    @property
    def writing(self) -> bool:
        """Whether a checkpoint is being written."""
        step = self._writing
        return step is not None and not (self.directory / str(step)).is_dir()

    def written(self) -> list[Write]:
        """Returns the writes that were completed since the last call."""
        if self._writing is not None and not self.writing:
            self._record_write()
        written, self._written = self._written, []
        return written

    def wait(self) -> None:
        """Waits until everything is written; a failed write is an error of `save` or on leaving."""
        self._failed = self._finish()

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
        managers = {checkpoints.directory: checkpoints._manager for checkpoints in (self, recovery)}
        restored = restore_latest(managers, shapes)
        return restored and (restored[0].parent == recovery.directory, restored[1])

    def clear(self) -> None:
        """Removes all checkpoints after pending writes have ended."""
        self._report(self._finish())
        for step in self._manager.all_steps():
            self._manager.delete(step)
        self._manager.wait_until_finished()


def _goodness(measured: Mapping[str, float]) -> float:
    """Returns the negative validation loss; the least for NaN, which would leave the order open."""
    loss = measured["validation_loss"]
    return -math.inf if math.isnan(loss) else -loss


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
