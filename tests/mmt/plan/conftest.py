"""A compiled step of GShard 600B for 2,048 v3 cores, as benchmarks/forecast keeps it."""

import json
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).resolve().parents[3] / "benchmarks/forecast/programs"


@pytest.fixture(scope="session")
def gshard() -> dict:
    """The answer of `mmt.plan.compile`; not to be changed."""
    return json.loads((PROGRAMS / "gshard_600b.json").read_text("utf-8"))
