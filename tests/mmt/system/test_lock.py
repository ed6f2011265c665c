"""A directory has one run: the error names the holder, and a killed run does not block."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap

import pytest

from mmt.system import lock

HOLD = """
    import sys, time
    from mmt.system import lock
    with lock.held(sys.argv[1]):
        print("held", flush=True)
        time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has the directory."""
    command = [sys.executable, "-c", textwrap.dedent(HOLD), tmp_path / "run"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_the_second_is_refused_until_the_first_is_killed(tmp_path, holder):
    where = rf"run is in use by process {holder.pid} on host {socket.gethostname()}"
    with pytest.raises(ValueError, match=where), lock.held(tmp_path / "run"):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with lock.held(tmp_path / "run"):
        assert json.loads((tmp_path / "run/run.lock").read_text())["pid"] == os.getpid()


def test_a_nested_lock_does_nothing_and_no_file_remains(tmp_path):
    with lock.held(tmp_path / "run"), lock.held(tmp_path / "." / "run"):
        assert (tmp_path / "run/run.lock").is_file()
    assert list(tmp_path.iterdir()) == []
    with lock.held(tmp_path / "run"):
        (tmp_path / "run/kept").write_text("")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["kept"]


def test_a_lock_of_another_host_holds_while_its_counter_advances(tmp_path, monkeypatch, capsys):
    """The lock file of a host whose `flock` is not visible here, of a killed run and of a running
    one.
    """
    monkeypatch.setattr(lock, "BEAT", 0.02)
    path = tmp_path / lock.FILE
    path.write_text(json.dumps({"host": "node7", "pid": 12, "count": 3}))
    with lock.held(tmp_path):
        assert json.loads(path.read_text())["host"] == socket.gethostname()
    error = capsys.readouterr().err
    assert "process 12 on host node7" in error and "taking over" in error
    path.write_text(json.dumps({"host": "node7", "pid": 12, "count": 3}))
    seen, read = iter(range(4, 1000)), lock._read
    monkeypatch.setattr(lock, "_read", lambda path: {**read(path), "count": next(seen)})
    with pytest.raises(ValueError, match="in use by process 12 on host node7"):
        with lock.held(tmp_path):
            pass
    assert path.is_file()


def test_the_holder_advances_its_counter(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.01)
    counts = set()
    with lock.held(tmp_path):
        while len(counts) < 3:
            counts.add(json.loads((tmp_path / lock.FILE).read_text())["count"])
    assert max(counts) >= 2


def test_a_folder_that_cannot_be_locked_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cannot lock .*file/run.lock"):
        with lock.held(tmp_path / "file"):
            pass
