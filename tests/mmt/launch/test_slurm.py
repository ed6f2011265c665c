"""Batch scripts of Slurm: the one in docs/ is run as it is, with a stand-in for `mmt`."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mmt.launch import local, slurm

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "docs/launch/slurm.sbatch"

# The script starts this in place of `mmt`. It prints its process, and fails on request.
MMT = """#!/bin/sh
echo "$SLURM_PROCID of $SLURM_NTASKS on $SLURMD_NODENAME: $*"
if test "$SLURM_PROCID" = 1; then exit "$(head -n 1 "$STATUSES")"; fi
"""


def test_the_script_of_the_documents_is_read():
    assert slurm.is_script(FILE)
    assert slurm.sizes(FILE) == (4, 1)
    assert not slurm.is_script(ROOT / "docs/launch/tpu_pod.sh")


@pytest.mark.parametrize(
    ("lines", "sizes"),
    [
        ("--nodes=2\n#SBATCH --ntasks-per-node=8", (2, 8)),
        ("-N 3", (3, 1)), ("-n 5", (1, 5)), ("--nodes 2\n#SBATCH --ntasks 8", (2, 4)),
        ("--nodes=2 --ntasks-per-node=2", (2, 2)), ("-N2", (2, 1)), ("-N2 -n4", (2, 2)),
        ("--gres=gpu:8 -N 2", (2, 1)), ("--exclusive -N 2 # two nodes", (2, 1)),
        ("--comment='a -N 5' --nodes=2", (2, 1)), ("-Q -N2", (2, 1)),
        ("--nodes=1\n\n# text\n#SBATCH -n 2\necho\n#SBATCH --nodes=3", (1, 2)),
    ],
)  # fmt: skip
def test_sizes_are_those_of_slurm(tmp_path, lines, sizes):
    file = tmp_path / "x.sbatch"
    file.write_text(f"#!/bin/bash\n#SBATCH {lines}\n")
    assert slurm.sizes(file) == sizes


def test_a_script_may_have_any_encoding(tmp_path):
    file = tmp_path / "x.sbatch"
    file.write_bytes(b"#!/bin/bash\n# Gr\xf6\xdfe\n#SBATCH --nodes=2\n")
    assert slurm.is_script(file)
    assert slurm.sizes(file) == (2, 1)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("--time=1", "no #SBATCH --nodes and no --ntasks"),
        ("--nodes=0", "x.sbatch:2: nodes is '0'; allowed: 1 or more"),
        ("--nodes=1-4", "x.sbatch:2: nodes is '1-4'"),
        ("--time=1 --nodes", "x.sbatch:2: nodes is ''"),
        ("--comment='a", "x.sbatch:2: No closing quotation"),
        ("--nodes=2\n#SBATCH --ntasks=5", "5 tasks on 2 nodes of 3 tasks"),
    ],
)
def test_sizes_that_cannot_be_are_errors(tmp_path, lines, message):
    file = tmp_path / "x.sbatch"
    file.write_text(f"#!/bin/bash\n#SBATCH {lines}\n")
    with pytest.raises(ValueError, match=message):
        slurm.sizes(file)


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A job of 3 nodes with 2 tasks each; returns what a step starts in it."""
    started = []
    monkeypatch.setenv(slurm.FOLDER, str(tmp_path))
    for name, value in (("NNODES", 3), ("NTASKS", 6), ("NTASKS_PER_NODE", 2)):
        monkeypatch.setenv(f"SLURM_{name}", str(value))

    def run(tasks):
        started.extend(tasks)
        return local.Ended(0, False)

    def start(arguments: str) -> list[local.Task]:
        slurm.step(arguments.split())
        return started

    monkeypatch.setattr(slurm, "run", run)
    monkeypatch.setattr(slurm.with_parent, "end_with", lambda parent: None)
    return start


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ("--label -K --nodes=2 -n 4 mmt train -x", ["mmt", "train", "-x"]),
        ("mmt", ["mmt"]), ("-n4 mmt", ["mmt"]), ("--ntasks 4 mmt -n 5", ["mmt", "-n", "5"]),
    ],
)  # fmt: skip
def test_options_of_srun_are_not_part_of_the_command(job, arguments, command):
    assert job(arguments)[0].command == command


@pytest.mark.parametrize(
    ("options", "nodes"),  # of each task
    [
        ("", "001122"), ("--nodes=1 --ntasks=1", "0"), ("-n1", "0"), ("-N 2", "0011"),
        ("--ntasks 4", "0012"), ("-N2 -n3", "001"), ("--ntasks-per-node=1", "012"),
    ],
)  # fmt: skip
def test_a_step_has_the_size_that_srun_gives_it(job, options, nodes):
    tasks = [task.environment for task in job(f"{options} mmt")]
    assert "".join(task["SLURM_NODEID"] for task in tasks) == nodes
    assert [task["SLURM_PROCID"] for task in tasks] == [str(n) for n in range(len(nodes))]
    for task in tasks:
        assert task["SLURM_NTASKS"] == task["SLURM_STEP_NUM_TASKS"] == str(len(nodes))
        assert task["SLURM_STEP_NUM_NODES"] == str(len(set(nodes)))
    places = {(task["SLURM_NODEID"], task["SLURM_LOCALID"]) for task in tasks}
    assert len(places) == len(tasks) and all(int(local_id) < 2 for _, local_id in places)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-y mmt", "srun -y"), ("-K", "no command"), ("-n x mmt", "ntasks is 'x'; allowed: 1"),
        ("-N4 mmt", "srun: nodes is 4; the job has 3"),
        ("-n 8 mmt", "srun: ntasks is 8; the job has 6"),
        ("-N1 -n4 mmt", "srun: 4 tasks on 1 nodes; the job has 2 on each"),
    ],
)  # fmt: skip
def test_what_srun_would_not_take_is_an_error(job, arguments, message):
    with pytest.raises(ValueError, match=message):
        job(arguments)


@pytest.fixture
def command(tmp_path):
    """Starts the script of the documents with a stand-in for `mmt`, which ends with `statuses`."""
    stand_in = tmp_path / "stand_in"
    stand_in.write_text(MMT)
    stand_in.chmod(0o755)
    script = tmp_path / "run.sbatch"
    text = FILE.read_text()
    assert " mmt train " in text
    script.write_text(text.replace(" mmt train ", f" {stand_in} train ", 1))
    statuses = tmp_path / "statuses"
    environment = os.environ | {"STATUSES": str(statuses), "CONFIG": "my.gin", "RUN": "runs/x"}

    def start(status, **variables):
        statuses.write_text(f"{status}\n")
        return subprocess.Popen(
            [sys.executable, "-m", "mmt.cli", "launch", "--file", script, "--processes", "2",
             "--", "--gin.A=1"],
            env=environment | variables, cwd=ROOT, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip

    return start


def test_the_script_starts_its_tasks_and_ends_as_they_do(command):
    for status in (0, 1):
        process = command(status)
        out, err = process.communicate(timeout=60)
        assert process.returncode == status, err
        tail = "train --gin_file=my.gin --gin.MODEL_DIR=runs/x --gin.A=1"
        assert sorted(out.splitlines()) == [
            f"0: 0 of 2 on node0: {tail}", f"1: 1 of 2 on node1: {tail}",
        ]  # fmt: skip
        assert "requeued" not in err


def test_a_run_that_hung_is_requeued_a_few_times(command):
    process = command(75, MOST_RESTARTS="2")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 75
    assert len(out.splitlines()) == 6 and err.count("is requeued, restart") == 2, err


@pytest.fixture
def launched(tmp_path):
    """Starts a script of two nodes with these lines; kills it after the test."""
    processes = []

    def start(*lines):
        script = tmp_path / "run.sbatch"
        script.write_text("\n".join(["#!/bin/bash", "#SBATCH --nodes=2", *lines]) + "\n")
        processes.append(subprocess.Popen(
            [sys.executable, "-m", "mmt.cli", "launch", "--file", script],
            cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            # A shell's background job ignores Ctrl-C, and so would its children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ))  # fmt: skip
        return processes[-1]

    yield start
    for process in processes:
        process.kill()


def line_of(process):
    """Returns the next line that a script prints."""
    return process.stdout.readline().strip()


def ends_within(process, seconds):
    """Waits for the end of a process; two equal signals that arrive at once would be one."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=seconds)


@pytest.mark.parametrize(
    ("trap", "signals"),
    [("", [signal.SIGINT]), ("", [signal.SIGTERM]), ("trap '' INT", [signal.SIGINT] * 2)],
)
def test_a_signal_ends_a_script_that_runs_no_step(launched, trap, signals):
    """One that ignores the first Ctrl-C is killed by the second."""
    process = launched(trap, "bash -c 'echo begins; exec sleep 300'", "srun echo task")
    assert line_of(process) == "begins"
    for number in signals:
        process.send_signal(number)
        ends_within(process, 2)
    out, err = process.communicate(timeout=20)
    assert process.returncode > 128 and "task" not in out, err


def test_two_signals_end_a_step_and_what_follows_it(launched):
    process = launched("srun bash -c 'trap \"\" TERM; echo begins; sleep 300'", "sleep 300")
    assert {line_of(process), line_of(process)} == {"0: begins", "1: begins"}
    process.send_signal(signal.SIGINT)
    ends_within(process, 2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode > 128, err


def test_steps_may_run_at_once_and_each_gets_the_signals(launched):
    wait = "wait %1; first=$?; wait %2; echo $first $?"
    process = launched("srun true &", "srun sleep 1 &", wait)
    out, err = process.communicate(timeout=60)
    assert out.strip() == "0 0", err
    trapped = "bash -c 'trap \"exit 7\" TERM; echo begins; while :; do sleep 0.1; done'"
    process = launched(f"srun -n1 {trapped} &", f"srun -n1 {trapped} &", wait)
    assert line_of(process) == line_of(process) == "0: begins"
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert out.strip() == "7 7", err
