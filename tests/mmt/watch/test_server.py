"""The command: it serves on this machine's address only, and ends at a signal."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from mmt.cli.main import main

pytest.importorskip("uvicorn", reason="extra [serve]")


def test_mmt_watch_serves_until_a_signal(made_up):
    command = [sys.executable, "-m", "mmt.cli", "watch", str(made_up), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        line = process.stderr.readline()
        address, name = re.fullmatch(
            r"mmt watch: (http://127\.0\.0\.1:\d+) shows (\w+); Ctrl-C ends it\n", line
        ).groups()
        assert name == "made_up"
        with urllib.request.urlopen(address, timeout=20) as response:
            assert b"<title>mmt watch</title>" in response.read()
        events = urllib.request.urlopen(f"{address}/api/events", timeout=20)
        assert events.readline().startswith(b"data: ")
        process.send_signal(signal.SIGTERM)  # although a page is open
        assert process.wait(20) == 0 and process.stderr.read() == ""
        events.close()


def test_a_signal_right_after_the_address(made_up):
    command = [sys.executable, "-m", "mmt.cli", "watch", str(made_up), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0 and process.stderr.read() == ""


def test_a_port_in_use(made_up, capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["watch", str(made_up), "--port", str(port)]) == 1
    assert f"mmt watch: cannot listen on 127.0.0.1:{port}: Address" in capsys.readouterr().err
    assert main(["watch", str(made_up), "--port", "70000"]) == 1


def test_no_run(tmp_path, capsys):
    assert main(["watch", str(tmp_path / "none")]) == 1
    assert "none: no such directory" in capsys.readouterr().err
