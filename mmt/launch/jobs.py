"""Starts a command in several processes, or the tasks of a cluster's file."""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mmt.launch import jobset, slurm
from mmt.launch.local import Task, free_port, run

_SLURM = "-c 'import sys; from mmt.launch import slurm; sys.exit(slurm.main())'"
_PROGRAMS = {  # found first on the PATH of a script: arguments of Python
    "mmt": "-m mmt.cli", "srun": f"{_SLURM} srun", "scontrol": f"{_SLURM} scontrol",
}  # fmt: skip


def launch(
    command: Sequence[str], *, file: Path | None = None, processes: int | None = None
) -> int:
    """Starts the processes and waits for them; returns the exit status of the first that failed.

    All run on the CPU, unless JAX_PLATFORMS is set.

    Args:
      command: arguments of `mmt`, such as `["train", "--gin_file=..."]`; with `file`, arguments
        that are added to its command.
      file: a batch script of Slurm, a manifest with a JobSet, or another shell script, which every
        process runs.
      processes: their number; by default that of the file.

    Raises:
      ValueError: no command, no number, or a file that a cluster would not start as one run.
    """
    if processes is not None and processes < 1:
        raise ValueError(f"--processes is {processes}; allowed: 1 or more")
    if file is not None and not file.is_file():
        raise ValueError(f"{file}: no such file")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with tempfile.TemporaryDirectory(prefix="mmt-launch-") as folder:
        for name, arguments in _PROGRAMS.items():
            program = Path(folder, name)
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
            program.chmod(0o755)
        path = f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        if file is not None and slurm.is_script(file):
            return slurm.run_script(file, command, processes, Path(folder), path)
        return run(_tasks(command, file, processes, path)).status


def _tasks(
    command: Sequence[str], file: Path | None, processes: int | None, path: str
) -> list[Task]:
    """Returns the tasks of a command, a JobSet or a shell script."""
    environment = {"JAX_COORDINATOR_ADDRESS": f"localhost:{free_port()}", "PATH": path}
    if file is not None and file.suffix in (".yaml", ".yml"):
        return jobset.tasks(file, command, processes, environment)
    if processes is None:
        raise ValueError("--processes is missing: the number of processes to start")
    if file is None and not command:
        raise ValueError("no command; for example: mmt launch --processes 2 train --gin_file=...")
    full_command = ["bash", str(file), *command] if file is not None else [
        sys.executable, "-m", "mmt.cli", *command
    ]  # fmt: skip
    return [
        Task(
            full_command,
            environment | {"JAX_NUM_PROCESSES": str(processes), "JAX_PROCESS_ID": str(number)},
        )
        for number in range(processes)
    ]
