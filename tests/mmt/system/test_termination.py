"""SIGTERM to a process whose main thread does not answer."""

import signal
import subprocess
import sys
import textwrap
import time

import pytest

from mmt.system.termination import STATUS

PROGRAM = """
    import hashlib, sys
    from mmt.system import termination

    with termination.watched() as watched:
        watched.nothing_to_lose = lambda: sys.argv[1] == "safe"
        print("ready", flush=True)
        turns = 10**9 if sys.argv[1] == "safe" else 10**7  # without the lock, as a compilation
        hashlib.pbkdf2_hmac("sha256", b"key", b"salt", turns)
        print("requested", watched.requested.is_set(), flush=True)
"""


@pytest.mark.parametrize("state", ["safe", pytest.param("unsaved", marks=pytest.mark.slow)])
def test_compiled_code_is_ended_where_nothing_is_lost(state):
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        since = time.monotonic()
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        out, error = process.communicate(timeout=60)
    if state == "safe":
        assert process.returncode == STATUS and b"nothing is lost" in error
        assert time.monotonic() - since < 10 and out == b""
    else:
        assert process.returncode == 0 and out == b"requested True\n"
