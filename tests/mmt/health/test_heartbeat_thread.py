"""Heartbeats of running processes, and the end of a run that hangs."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from mmt.health import Health, StepProgress, first_heartbeat, heartbeats, read
from mmt.system import termination

ROOT = Path(__file__).resolve().parents[3]

# A process of a run without devices: a file stands for the collective in which all wait.
PROCESS = """
import sys, time
from pathlib import Path
from mmt.health import Health, StepProgress, heartbeats, first_heartbeat
directory, process, start, victim = Path(sys.argv[1]), *map(int, sys.argv[2:5])
settings = Health(period=0.2, warn_minutes=0.01, hang_minutes=0.03)
progress, first = StepProgress(), first_heartbeat(float(start), process, 2, settings)
say = lambda text: print("said:", text, file=sys.stderr)
def stuck_in_reading():
    time.sleep(60)
with heartbeats(progress, first, directory, say=say, disk_directories=(directory,)):
    for step in range(1, 5):
        for activity in ("input", "dispatch", "device", "hooks"):
            progress.enter(activity, step)
            if step == 3 and process == victim and activity == "input":
                stuck_in_reading()
            if step == 3 and activity == "device":
                time.sleep(60)
"""


@pytest.mark.parametrize("victim", [0, 1])
def test_a_run_that_hangs_ends_with_stacks_and_the_name_of_the_host(tmp_path, victim):
    since = time.monotonic()
    arguments = [str(tmp_path / "hosts"), "{}", str(int(time.time())), str(victim)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, *(one.format(process) for one in arguments)],
            stderr=subprocess.PIPE, text=True, cwd=ROOT,
        )
        for process in range(2)
    ]  # fmt: skip
    errors = [process.communicate(timeout=50)[1] for process in processes]
    assert time.monotonic() - since < 40
    assert [process.returncode for process in processes] == [termination.RETRY] * 2, errors
    assert "in stuck_in_reading" in errors[victim]
    assert "in stuck_in_reading" not in errors[1 - victim]
    behind = f"(process {victim}) is at step 3 (input); the others wait at step 3 (device)"
    assert behind in errors[0] and behind not in errors[1]
    assert errors[0].count("said:") == 1 and "said:" not in errors[1]
    logs = sorted((tmp_path / "hosts").glob("*.log"))
    lines = "".join(log.read_text() for log in logs).splitlines()
    lines.sort(key=lambda line: line.split()[0])  # as `sort -s -k1,1` does
    assert "started" in lines[0] and "started" in lines[1]
    assert any("in stuck_in_reading" in line and f"process {victim})" in line for line in lines)


def test_the_end_of_a_process_is_in_its_heartbeat(tmp_path):
    settings = Health(period=30.0, hang_minutes=0.0)
    progress, first = StepProgress(), first_heartbeat(1.0, 0, 1, settings)
    with heartbeats(
        progress, first, tmp_path, say=print, disk_directories=(tmp_path, tmp_path / "none")
    ):
        progress.enter("input", 1)
        assert read(tmp_path)[0].ended == ""
    (beat,) = read(tmp_path)
    assert beat.ended == "all is written" and beat.step == 1
    assert list(beat.free) == [str(tmp_path)] and beat.free[str(tmp_path)] > 0
    with pytest.raises(OSError, match="disk"):
        with heartbeats(progress, first, tmp_path, say=print, disk_directories=()):
            raise OSError("the disk is full\nand more")
    assert read(tmp_path)[0].ended == "the disk is full"


def test_new_problems_are_said_once(tmp_path):
    said = []
    settings = Health(period=0.02, hang_minutes=0.0, free_gib=10.0**9)
    first = first_heartbeat(1.0, 0, 1, settings)
    with heartbeats(StepProgress(), first, tmp_path, say=said.append, disk_directories=(tmp_path,)):
        end = time.monotonic() + 20
        while not said and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.2)
    assert len(said) == 1 and "GiB free" in said[0]


def test_own_time_is_that_of_input_and_dispatch(monkeypatch):
    seconds = iter([0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 127.0, 255.0, 511.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(seconds))
    made = {}
    for count_dispatch in (True, False):
        seconds = iter([0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 127.0, 255.0, 511.0])
        progress = made[count_dispatch] = StepProgress(count_dispatch=count_dispatch)
        for step in (1, 2):
            for activity in ("input", "dispatch", "device", "hooks"):
                progress.enter(activity, step)
        assert progress.steps == 1  # the first one is compiled
        assert progress.longest == 128.0
    assert made[False].host_seconds == 32.0 and made[True].host_seconds == 32.0 + 64.0
