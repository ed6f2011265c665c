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

    patience = {"patience": 0.0} if sys.argv[1] == "at once" else {}
    with termination.watched(**patience) as watched:
        watched.nothing_to_lose = lambda: sys.argv[1] != "unsaved"
        print("ready", flush=True)
        turns = 10**7 if sys.argv[1] == "unsaved" else 10**9  # without the lock, as a compilation
        hashlib.pbkdf2_hmac("sha256", b"key", b"salt", turns)
        print("requested", watched.requested.is_set(), flush=True)
"""


@pytest.mark.parametrize(
    "state", ["safe", "at once", pytest.param("unsaved", marks=pytest.mark.slow)]
)
def test_compiled_code_is_ended_if_nothing_is_lost(state):
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        since = time.monotonic()
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        out, error = process.communicate(timeout=60)
    if state == "unsaved":
        assert process.returncode == 0 and out == b"requested True\n"
    else:
        assert process.returncode == STATUS and b"nothing is lost" in error
        assert time.monotonic() - since < (10 if state == "safe" else 3) and out == b""
