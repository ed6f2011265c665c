"""The program that starts a task: the same process, another program; errors as in a shell."""

import os
import subprocess
import sys

import pytest

from mmt.launch import with_parent

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is of Linux")


def test_the_command_replaces_the_program_in_the_same_process():
    """It has the environment and arguments of the command, also those that Python would read."""
    code = "import os, sys; print(os.getpid(), os.environ['PYTHONNOUSERSITE'], sys.argv[1:])"
    started = subprocess.Popen(
        with_parent.wrapped([sys.executable, "-S", "-c", code, "-x", "a b"]),
        env=os.environ | {"PYTHONNOUSERSITE": "y"}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert started.communicate()[0].strip() == f"{started.pid} y ['-x', 'a b']"


def test_a_task_whose_parent_has_died_already_ends():
    command = with_parent.wrapped(["sleep", "60"])
    command[command.index(str(os.getpid()))] = "1"  # not our child's parent
    assert subprocess.run(command, check=False).returncode == -15


def test_what_cannot_be_executed_has_the_status_of_a_shell(tmp_path):
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF?")
    program.chmod(0o755)
    done = subprocess.run(
        with_parent.wrapped([str(program)]), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        127, f"mmt launch: cannot start {program}: Exec format error\n",
    )  # fmt: skip
