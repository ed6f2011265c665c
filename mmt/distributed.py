"""Runs of several processes: how they find each other and exchange values.

A process learns its index from gin, the environment or its launcher. Without these it runs alone,
and the functions here have no effect. Sharding of arrays and rows is in `mmt.sharding`.
"""

import atexit
import contextlib
import io
import itertools
import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from mmt.system import lock, termination

SLURM = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID")
_JAX_EXTRA_SECONDS = 60  # after our timeout, until JAX itself aborts the process
_CALLS = itertools.count()  # calls of `preempted`
_finished = False

T = TypeVar("T")


class ProcessLost(ValueError):
    """Another process of the run has ended. status: the exit status of a command."""

    status = termination.RETRY


class Launch(NamedTuple):
    """The place of a process in the run; JAX asks the launcher for fields that are None."""

    coordinator: str | None = None  # host:port
    processes: int | None = None
    process: int | None = None


def start(
    coordinator: str = "",
    process_count: int | None = None,
    process_index: int | None = None,
    timeout: int = 300,
    heartbeat: int = 60,
) -> None:
    """Joins the other processes of the run, if this one was launched as one of several.

    Call it before any device is used. A Slurm step of several tasks and a TPU pod slice need no
    arguments. `launched` lists the environment variables for the first three arguments.

    Args:
      coordinator: host:port on which process 0 listens.
      process_count, process_index: the number of processes, and the index of this one.
      timeout: seconds in which all processes must connect. Otherwise one line names the missing
        ones, and the exit status is 1.
      heartbeat: seconds after which a process that does not answer counts as dead; then all others
        exit.

    Raises:
      ValueError: arguments contradict each other.
    """
    for name, value in (("timeout", timeout), ("heartbeat", heartbeat)):
        if value < 1:
            raise ValueError(f"distributed.start: {name} is {value}; allowed: 1 or more seconds")
    launch = launched(
        os.environ, coordinator=coordinator, count=process_count, index=process_index
    ) or (Launch() if _on_tpu_pod(os.environ) else None)
    if launch is None:
        return
    timer = threading.Timer(timeout, _end_unconnected, (launch, timeout))
    timer.daemon = True
    timer.start()
    try:
        jax.distributed.initialize(
            launch.coordinator, launch.processes, launch.process,
            local_device_ids=_devices_of_node(os.environ),
            cluster_detection_method=None if None in launch or _in_slurm(os.environ)
            else "deactivate",  # in Kubernetes it would ask the API server
            initialization_timeout=timeout + _JAX_EXTRA_SECONDS,
            heartbeat_timeout_seconds=heartbeat,
        )  # fmt: skip
    except RuntimeError as error:
        raise ValueError(f"the processes did not connect: {str(error).splitlines()[0]}") from error
    finally:
        timer.cancel()
    atexit.register(_exit_without_waiting)  # runs before JAX's, which waits for the others


def launched(
    environment: Mapping[str, str], *, coordinator: str, count: int | None, index: int | None
) -> Launch | None:
    """Returns the place of this process by arguments and environment; None if it runs alone.

    JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID replace missing arguments; so does
    JOB_COMPLETION_INDEX in an indexed Job of Kubernetes. Slurm and Open MPI supply number and
    index. Raises ValueError if a value is missing or out of range.
    """
    given = _with_environment(Launch(coordinator, count, index), environment)
    if not given.coordinator:
        return _without_coordinator(given, environment)
    _check(given, is_complete=not _in_slurm(environment))
    return None if given.processes == 1 else given


def _with_environment(given: Launch, environment: Mapping[str, str]) -> Launch:
    """Returns the arguments, with the environment's values in place of the missing ones."""
    coordinator, count, index = given
    coordinator = coordinator or environment.get("JAX_COORDINATOR_ADDRESS", "")
    if count is None:
        count = _integer(environment, "JAX_NUM_PROCESSES")
    if index is None:
        index = _integer(environment, "JAX_PROCESS_ID")
    if index is None and coordinator:
        index = _integer(environment, "JOB_COMPLETION_INDEX")
    if not _in_slurm(environment) and count is None and index is None:
        count = _integer(environment, "OMPI_COMM_WORLD_SIZE")
        index = _integer(environment, "OMPI_COMM_WORLD_RANK")
    return Launch(coordinator, count, index)


def _without_coordinator(given: Launch, environment: Mapping[str, str]) -> Launch | None:
    """Returns an empty Launch if JAX can ask the launcher; None for a process that runs alone."""
    if (given.processes or 1) > 1 or given.process:
        if "OMPI_MCA_orte_hnp_uri" in environment:
            return Launch()  # JAX finds the coordinator of Open MPI 4
        raise ValueError(
            f"process {given.process} of {given.processes} has no coordinator: set "
            "distributed.start.coordinator or JAX_COORDINATOR_ADDRESS to host:port of process 0"
        )
    is_multi_task = _in_slurm(environment) and (_integer(environment, "SLURM_NTASKS") or 1) > 1
    return Launch() if is_multi_task and given.processes is None else None


def _check(given: Launch, *, is_complete: bool) -> None:
    """Raises ValueError for a value out of range, and if `is_complete` for a missing one."""
    host, _, port = (given.coordinator or "").rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"coordinator {given.coordinator!r}; allowed: host:port, as in node0:1234")
    missing = [
        f"{name} (or {variable})"
        for name, variable, value in (
            ("process_count", "JAX_NUM_PROCESSES", given.processes),
            ("process_index", "JAX_PROCESS_ID", given.process),
        )
        if value is None and is_complete
    ]
    if missing:
        raise ValueError(
            f"the coordinator is {given.coordinator}, but no {' and no '.join(missing)}"
        )
    if given.processes is None:
        return
    if given.processes < 1:
        raise ValueError(f"process_count is {given.processes}; allowed: 1 or more")
    if given.process is not None and not 0 <= given.process < given.processes:
        raise ValueError(f"process_index is {given.process}; allowed: 0 ... {given.processes - 1}")


def finish() -> None:
    """Marks the regular end of this process.

    Without it, the process exits without waiting for the others, which then detect the loss and
    exit too.
    """
    global _finished
    _finished = True


def is_first() -> bool:
    """Returns whether this is the first process, the only one that writes shared files."""
    return jax.process_index() == 0


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drops screen output inside unless this is the first process.

    Output of C++ libraries to stdout, such as Gloo's, goes to stderr.
    """
    if jax.process_count() == 1:
        yield
        return
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.nullcontext() if is_first() else contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


@contextlib.contextmanager
def losses_named() -> Iterator[None]:
    """Turns errors caused by the loss of another process into ProcessLost.

    Errors of a disk get the name of the host.
    """
    try:
        yield
    except Exception as error:
        if jax.process_count() == 1:
            raise
        if isinstance(error, OSError):
            raise OSError(f"{_process_name()}: {error}") from error
        loss_message = re.search(r"(Gloo|NCCL)\b[^\n]*|coordination service[^\n]*", str(error))
        if not loss_message:
            raise
        raise ProcessLost(
            f"{_process_name()} lost another one, whose own message says why; start the run again "
            f"to resume from its last checkpoint ({loss_message[0]})"
        ) from error


def first_then_others(work: Callable[[], T]) -> T:
    """Calls `work()` in the first process and then in the others.

    The others find the files of the first on a shared disk, and otherwise create them again.
    """
    if is_first():
        result = work()
        gather(None)
        return result
    gather(None)
    return work()


def from_first(value: Callable[[], Any]) -> Any:
    """Returns `value()` of the first process in all of them; it must be JSON-serialisable."""
    return gather(value() if is_first() else None)[0]


def gather(value: Any) -> list[Any]:
    """Returns the values of all processes in order; they must be JSON-serialisable."""
    if jax.process_count() == 1:
        return [value]
    encoded = np.frombuffer(json.dumps(value).encode(), np.uint8)
    sizes = np.asarray(multihost_utils.process_allgather(np.int32(len(encoded)))).ravel()
    # A power of two, for few distinct shapes: each is compiled.
    padded_size = 1 << max(10, int(sizes.max() - 1).bit_length())
    padded = np.zeros(padded_size, np.uint8)
    padded[: len(encoded)] = encoded
    gathered = np.asarray(multihost_utils.process_allgather(padded)).reshape(
        len(sizes), padded_size
    )
    return [
        json.loads(bytes(row[:size])) for row, size in zip(gathered, sizes.tolist(), strict=True)
    ]


def merged(values: list[Any], where: str = "state") -> Any:
    """Merges dictionaries at every depth; any other values have to be equal.

    Raises ValueError that names the difference.
    """
    first = values[0]
    if not all(isinstance(value, dict) for value in values):
        different = next((value for value in values if value != first), first)
        if different != first:
            raise ValueError(f"the processes differ in their {where}: {first!r}, {different!r}")
        return first
    keys = dict.fromkeys(key for value in values for key in value)
    return {
        key: merged([value[key] for value in values if key in value], f"{where}/{key}")
        for key in keys
    }


def to_first_device(tree: Any) -> Any:
    """Returns distributed arrays complete on one device of the first process; None in the others.

    All processes must call it. Every host, and the first device, need memory for all arrays.
    """
    if jax.process_count() == 1:
        return tree

    def leaf(array: Any) -> Any:
        complete = multihost_utils.process_allgather(array, tiled=True)
        return jax.device_put(complete, jax.local_devices()[0]) if is_first() else None

    return jax.tree.map(leaf, tree)


def held(directory: str | Path) -> contextlib.AbstractContextManager[None]:
    """Locks a run directory for all processes of the run, as `mmt.system.lock.held` does."""
    return lock.held(directory, first=is_first(), agree=lambda refused: gather(refused)[0])


def preempted() -> bool:
    """Whether a SIGTERM has come to any process. All processes get the same answer.

    Each of several processes has to call it the same number of times: JAX catches their SIGTERM,
    and they agree on the number of the call.
    """
    return bool(multihost_utils.reached_preemption_sync_point(next(_CALLS)))


def _on_tpu_pod(environment: Mapping[str, str]) -> bool:
    """Returns whether this is a host of a TPU slice, of several hosts if that can be known."""
    from jax._src import cloud_tpu_init  # libtpu and a chip; there is no public function

    platforms = environment.get("JAX_PLATFORMS", "") or "tpu"
    if "tpu" not in platforms.split(",") or not cloud_tpu_init.running_in_cloud_tpu_vm:
        return False
    names = ("TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES")
    hosts = next((environment[name] for name in names if name in environment), None)
    if hosts is not None:
        return "," in hosts or (_integer(environment, "MEGASCALE_NUM_SLICES") or 1) > 1
    return "TPU_SKIP_MDS_QUERY" not in environment  # else see the VM's metadata


def _process_name() -> str:
    """Returns index and host of this process."""
    place = f"process {jax.process_index()} of {jax.process_count()}"
    return f"{place} on host {socket.gethostname()}"


def _in_slurm(environment: Mapping[str, str]) -> bool:
    return all(name in environment for name in SLURM)


def _devices_of_node(environment: Mapping[str, str]) -> list[int] | None:
    """Returns all GPUs of the node where Slurm has one task per node; JAX would use one of them."""
    tasks = _integer(environment, "SLURM_NTASKS")
    nodes = _integer(environment, "SLURM_STEP_NUM_NODES")
    gpus = _integer(environment, "SLURM_GPUS_ON_NODE")
    one_task_per_node = (
        _in_slurm(environment) and tasks == nodes and "JAX_LOCAL_DEVICE_IDS" not in environment
    )
    return list(range(gpus)) if one_task_per_node and gpus else None


def _integer(environment: Mapping[str, str], name: str) -> int | None:
    value = environment.get(name, "")
    if not re.fullmatch(r"\d*", value):
        raise ValueError(f"{name} is {value!r}; allowed: an integer of 0 or more")
    return int(value) if value else None


def _end_unconnected(launch: Launch, seconds: int) -> NoReturn:
    """Ends the process with a message, from a thread, since the main thread waits in C++."""
    address = launch.coordinator or "the coordinator that the launcher names"
    count = launch.processes or "that the launcher started"
    message = f"not all of the processes, {count}, reached {address}"
    if launch.process and launch.coordinator:
        host, _, port = launch.coordinator.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
        except OSError as error:
            message = (
                f"the coordinator {address} cannot be reached ({error}): does process 0 run there?"
            )
    sys.stdout.flush()
    os.write(2, f"mmt: {message} within {seconds} seconds (distributed.start.timeout)\n".encode())
    os._exit(1)


def _exit_without_waiting() -> None:
    if not _finished:
        sys.stdout.flush()
        sys.stderr.flush()
        if is_first():
            time.sleep(3)  # its exit aborts others, which may agree
        os._exit(1)
