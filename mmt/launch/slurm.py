"""Runs a batch script of Slurm on this machine, unchanged; `srun` starts CPU processes.

The script and each of its tasks see the variables that Slurm sets. `srun` and `scontrol requeue`
are programs of this package (`step`, `requeue`), found first on the PATH.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mmt import suggest
from mmt.launch import with_parent
from mmt.launch.local import SIGNALS, Task, free_port, run

FOLDER = "MMT_LAUNCH_FOLDER"  # environment variable: files that the programs leave
_STEP = "step-"  # begins the name of a file in that folder; the step's process id follows
_NO_SIGNAL = 0  # of kill(2): whether a process exists
_LONG_NAMES = {"N": "nodes", "n": "ntasks"}
_SIZE_OPTIONS = ("nodes", "ntasks", "ntasks-per-node")
# JAX takes the first port plus the job's id modulo 4096.
_PORT_RANGE = (65535 - 2**12 + 1, 65535)
_WITHOUT_VALUE = ("-l", "-u", "-K", "-v", "-q", "-s", "-E")  # short options of srun
_WITH_VALUE = ("-n", "-N", "-c", "-G", "-p", "-t", "-w", "-J", "-A")


def is_script(file: Path) -> bool:
    """Returns whether a file is a batch script of Slurm."""
    return any(line.startswith("#SBATCH") for line in _lines(file))


def sizes(file: Path) -> tuple[int, int]:
    """Returns (nodes, tasks of each node) of a batch script.

    Raises ValueError, with the line, for a number that Slurm would reject, and for a script without
    a number of tasks.
    """
    requested: dict[str, int] = {}
    for place, words in _directives(file):
        while words:
            name, value = _split(words.pop(0))
            if not value and words and not words[0].startswith("-"):
                value = words.pop(0)
            if name in _SIZE_OPTIONS:
                requested[name] = _positive(f"{place}: {name}", value)
    if "nodes" not in requested and "ntasks" not in requested:
        raise ValueError(
            f"{file}: the number of tasks is missing: no #SBATCH --nodes and no --ntasks"
        )
    nodes = requested.get("nodes", 1)
    tasks_per_node = requested.get("ntasks-per-node") or -(-requested.get("ntasks", nodes) // nodes)
    if "ntasks" in requested and nodes * tasks_per_node != requested["ntasks"]:
        raise ValueError(
            f"{file}: {requested['ntasks']} tasks on {nodes} nodes of {tasks_per_node} tasks each"
        )
    return nodes, tasks_per_node


def run_script(
    file: Path, arguments: Sequence[str], processes: int | None, folder: Path, path: str
) -> int:
    """Runs the script, again after each `scontrol requeue`; returns its exit status.

    Args:
      file: the script.
      arguments: its arguments, "$@".
      processes: the number of tasks, one per node; by default that of the script.
      folder: for files that the programs share.
      path: the PATH, which begins with the folder of the programs.

    Raises:
      ValueError: as `sizes`.
    """
    nodes, tasks_per_node = sizes(file) if processes is None else (processes, 1)
    restarts = 0
    while True:
        job = free_port(*_PORT_RANGE) - _PORT_RANGE[0]
        environment = os.environ | {
            "PATH": path, FOLDER: str(folder), "SLURM_JOB_ID": str(job), "SLURM_JOBID": str(job),
            "SLURM_JOB_NODELIST": "localhost", "SLURM_NNODES": str(nodes),
            "SLURM_JOB_NUM_NODES": str(nodes), "SLURM_NTASKS": str(nodes * tasks_per_node),
            "SLURM_NTASKS_PER_NODE": str(tasks_per_node), "SLURM_RESTART_COUNT": str(restarts),
        }  # fmt: skip
        script = subprocess.Popen(
            with_parent.wrapped(["bash", str(file), *arguments]), env=environment,
            start_new_session=True,
        )  # fmt: skip
        signalled = _wait(script, folder)
        status = script.returncode if script.returncode >= 0 else 128 - script.returncode
        requeued = folder / "requeue"
        if not requeued.exists():
            return status
        requeued.unlink()
        if signalled:
            print(f"mmt launch: Slurm would start {file} again", file=sys.stderr)
            return status
        restarts += 1
        print(f"mmt launch: {file} is requeued, restart {restarts}", file=sys.stderr, flush=True)


def _wait(script: "subprocess.Popen[bytes]", folder: Path) -> bool:
    """Waits for the script; returns whether a signal was received.

    Signals are forwarded to its steps, as with --signal=TERM@…, and to the script itself where no
    step runs. After a second SIGINT, which ends the steps, the script is killed.
    """
    received: list[int] = []
    old_handlers = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in SIGNALS
    }
    forwarded = 0
    try:
        while script.poll() is None:
            for number in received[forwarded:]:
                if not _signal_steps(folder, number):
                    os.killpg(script.pid, number)
                forwarded += 1
            if received.count(signal.SIGINT) > 1 and not _signal_steps(folder, _NO_SIGNAL):
                os.killpg(script.pid, signal.SIGKILL)
            time.sleep(0.05)
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(script.pid, signal.SIGKILL)
    return bool(received)


def _signal_steps(folder: Path, number: int) -> bool:
    """Sends a signal to all steps that run; returns whether there is one."""
    is_running = False
    for file in folder.glob(f"{_STEP}*"):
        with contextlib.suppress(ProcessLookupError):  # it was killed
            os.kill(int(file.name.removeprefix(_STEP)), number)
            is_running = True
    return is_running


def step(arguments: Sequence[str]) -> int:
    """`srun OPTION ... COMMAND`: starts the tasks of a step; returns the exit status.

    Without options for sizes, the step has all tasks of the job.
    """
    command, requested = _parsed(arguments)
    nodes, tasks = _step_sizes(requested)
    with_parent.end_with(os.getppid())  # the script
    file = Path(os.environ[FOLDER], f"{_STEP}{os.getpid()}")  # other steps may run
    node_of_task = [number * nodes // tasks for number in range(tasks)]
    file.touch()
    try:
        return run([
            Task(command, {
                "SLURM_PROCID": str(number), "SLURM_NTASKS": str(tasks),
                "SLURM_LOCALID": str(number - node_of_task.index(node)),
                "SLURM_NODEID": str(node), "SLURMD_NODENAME": f"node{node}",
                "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_NUM_NODES": str(nodes),
                "SLURM_STEP_NUM_TASKS": str(tasks), "SLURM_STEP_ID": "0",
            })
            for number, node in enumerate(node_of_task)
        ]).status  # fmt: skip
    finally:
        file.unlink(missing_ok=True)


def _parsed(arguments: Sequence[str]) -> tuple[list[str], dict[str, int]]:
    """Returns the command of srun without its options, and the sizes among these."""
    remaining, requested = list(arguments), dict[str, int]()
    while remaining and remaining[0].startswith("-"):
        option = remaining.pop(0)
        name, value = _split(option)
        if not value and remaining and (option in _WITH_VALUE or name in _SIZE_OPTIONS):
            value = remaining.pop(0)
        elif not option.startswith("--") and option[:2] not in (*_WITHOUT_VALUE, *_WITH_VALUE):
            hint = suggest.hint(option, (*_WITHOUT_VALUE, *_WITH_VALUE))
            raise ValueError(f"srun {option}: unknown here{hint}; write --option=value")
        if name in _SIZE_OPTIONS:
            requested[name] = _positive(f"srun: {name}", value)
    if not remaining:
        raise ValueError(f"srun {' '.join(arguments)}: no command")
    return remaining, requested


def _step_sizes(requested: Mapping[str, int]) -> tuple[int, int]:
    """Returns (nodes, tasks) of a step. Raises ValueError for more than the job has."""
    job_nodes = int(os.environ["SLURM_NNODES"])
    per_node = int(os.environ["SLURM_NTASKS_PER_NODE"])
    job = {"nodes": job_nodes, "ntasks": job_nodes * per_node, "ntasks-per-node": per_node}
    for name, number in requested.items():
        if number > job[name]:
            raise ValueError(f"srun: {name} is {number}; the job has {job[name]}")
    nodes = requested.get("nodes", job_nodes)
    tasks = requested.get("ntasks", nodes * requested.get("ntasks-per-node", per_node))
    if tasks > nodes * per_node:
        raise ValueError(f"srun: {tasks} tasks on {nodes} nodes; the job has {per_node} on each")
    return min(nodes, tasks), tasks


def requeue(arguments: Sequence[str]) -> int:
    """`scontrol requeue JOB`: the script is started again when it has ended."""
    if list(arguments[:1]) != ["requeue"]:
        raise ValueError(f"scontrol {' '.join(arguments)}: only requeue can be tried here")
    Path(os.environ[FOLDER], "requeue").touch()
    return 0


def _directives(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Yields (place, words) of each #SBATCH line before the first command, as Slurm reads them."""
    for number, line in enumerate(_lines(file), start=1):
        if line.strip() and not line.startswith("#"):
            return
        if line.startswith("#SBATCH"):
            place = f"{file}:{number}"
            try:
                yield place, shlex.split(line.removeprefix("#SBATCH"), comments=True)
            except ValueError as error:  # a quotation without an end
                raise ValueError(f"{place}: {error}") from None


def _split(option: str) -> tuple[str, str]:
    """Returns the long name and the value of an option such as `--nodes=2` or `-N2`."""
    if option.startswith("--"):
        name, _, value = option[2:].partition("=")
    else:
        name, value = option[1:2], option[2:]
    return _LONG_NAMES.get(name, name), value


def _positive(name: str, value: str) -> int:
    if not value.isdecimal() or not int(value):
        raise ValueError(f"{name} is {value!r}; allowed: 1 or more")
    return int(value)


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8", errors="replace").splitlines()  # any, as for bash


def main() -> int:
    """Runs `srun` or `scontrol`, whichever is the first argument."""
    program, *arguments = sys.argv[1:]
    try:
        return {"srun": step, "scontrol": requeue}[program](arguments)
    except ValueError as error:
        print(f"mmt launch: {error}", file=sys.stderr)
        return 2
