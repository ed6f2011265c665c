"""Processes of one run on this machine: their lines, their end, their exit status."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mmt.launch import local
from mmt.launch.local import Task, run


def python(code, **environment):
    return Task([sys.executable, "-S", "-c", code], environment)


def test_every_line_has_the_number_of_its_task(capfd):
    code = "import os, sys; print('out', os.environ['N']); print('a\\nb', file=sys.stderr)"
    assert run([python(code, N="x"), python(code, N="y")]) == (0, False)
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == ["0: out x", "1: out y"]
    assert sorted(err.splitlines()) == ["0: a", "0: b", "1: a", "1: b"]


@pytest.mark.parametrize(
    ("code", "status"), [("raise SystemExit(75)", 75), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_the_first_failure_ends_all_and_gives_the_status(code, status, monkeypatch, capfd):
    monkeypatch.setattr(local, "_GRACE_SECONDS", 0.2)
    since = time.monotonic()
    assert run([python("import time; time.sleep(60)"), python(code)]) == (status, False)
    assert time.monotonic() - since < 30
    assert f"task 1 ended with status {status}" in capfd.readouterr().err


def test_others_may_end_by_themselves_after_a_failure(tmp_path):
    waits = f"import time; time.sleep(0.5); open({str(tmp_path / 'x')!r}, 'w')"
    assert run([python("raise SystemExit(3)"), python(waits)]) == (3, False)
    assert (tmp_path / "x").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_passed_on_as_sigterm_and_all_may_finish(number, capfd):
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.3), print('saved'), sys.exit(143)))"
        "\nprint('ready', flush=True)\nwhile True: time.sleep(0.05)"
    )
    threading.Timer(1.5, os.kill, (os.getpid(), number)).start()
    before = signal.getsignal(number)
    assert run([python(code), python(code)]) == (143, True)
    assert signal.getsignal(number) is before
    assert sorted(capfd.readouterr().out.splitlines())[1::2] == ["0: saved", "1: saved"]


def test_a_second_ctrl_c_kills_tasks_that_do_not_end(capfd):
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    for seconds in (1.0, 1.2):
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
    assert run([python(code), python(code)]) == (130, True)
    assert "a second Ctrl-C" in capfd.readouterr().err


def test_no_child_survives(tmp_path):
    """A script's own child is ended with it."""
    code = (
        "import subprocess, sys; child = subprocess.Popen(['sleep', '60']); "
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))"
    )
    run([python(code)])
    state = Path("/proc", (tmp_path / "child").read_text(), "stat")
    end = time.monotonic() + 20
    while state.exists() and state.read_text().split()[2] != "Z" and time.monotonic() < end:
        time.sleep(0.01)
    assert not state.exists() or state.read_text().split()[2] == "Z"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is of Linux")
def test_a_killed_launcher_ends_its_tasks_in_order(tmp_path):
    """Nothing can answer a SIGKILL; the tasks get SIGTERM and may save."""
    task = (
        "import os, signal, sys, time\n"
        f"said = lambda text: open({str(tmp_path / 'said')!r}, 'a').write(text)\n"
        "signal.signal(signal.SIGTERM, lambda *_: (said('saved'), sys.exit(143)))\n"
        "said('ready ')\nwhile True: time.sleep(0.02)"
    )
    code = (
        "import sys; from mmt.launch.local import Task, run; "
        f"run([Task([sys.executable, '-S', '-c', {task!r}], {{}})])"
    )
    launcher = subprocess.Popen([sys.executable, "-c", code])
    said, end = tmp_path / "said", time.monotonic() + 60

    def wait_for(text):
        while not (said.exists() and said.read_text() == text):
            assert time.monotonic() < end
            time.sleep(0.02)

    wait_for("ready ")
    launcher.kill()
    launcher.wait()
    wait_for("ready saved")


def test_jobs_that_start_together_get_different_ports():
    """Process 0 listens later, so a port that is free is not yet a port of one's own."""
    assert len({local.free_port(61_440, 65_535) for _ in range(8)}) > 1


def test_a_missing_command_is_an_error():
    with pytest.raises(ValueError, match="cannot start nowhere/mmt: No such file"):
        run([Task(["nowhere/mmt"], {})])
