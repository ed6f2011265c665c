"""benchmarks/faults.py with few kills: no work is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_faulty_run_equals_an_undisturbed_one():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.faults", "--kills", "4", "--seed", "1"], cwd=ROOT,
        capture_output=True, text=True, check=False, env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("lost: 0")
