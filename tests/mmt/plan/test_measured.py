"""Constants of saving and restarting from the rows of a run."""

import json
from pathlib import Path

import pytest

from mmt.plan import measured


def start(step: int, seconds: float, reading: float, size: int, processes: int = 1) -> dict:
    parts = {"loading libraries": 3.0, "reading the checkpoint": reading, "compiling": 1.0}
    return {"start": step, "seconds": seconds, "cpu_seconds": 1.0, "parts": parts,
            "first_step": 0.1, "read_bytes": size, "processes": processes}  # fmt: skip


def save(step: int, blocked: float, seconds: float, size: int) -> dict:
    return {"save": step, "blocked": blocked, "seconds": seconds, "bytes": size}


def write(directory: Path, rows: list[dict]) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "timings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return directory


def test_rates_are_medians_of_a_host(tmp_path):
    """Two hosts write 8 GB together; the first start reads nothing and counts for no restart."""
    new = start(0, 100.0, 0.0, 0, 2)
    del new["parts"]["reading the checkpoint"]
    size = 8 * 10**9
    saves = ((10, 4.0), (20, 2.0), (30, 90.0))
    rows = [new, *(save(step, 0.5, seconds, size) for step, seconds in saves)]
    rows += [start(10, 12.0, 2.0, size, 2), start(20, 34.0, 4.0, size, 2)]
    known = measured.read(write(tmp_path / "run", rows))
    assert (known.bytes, known.storage_rate, known.blocked_rate) == (4e9, 1e9, 8e9)
    assert known.restart_seconds == 20.0 and known.parts["reading the checkpoint"] == 3.0
    assert known.restore_rate == pytest.approx((4e9 / 2 + 4e9 / 4) / 2)
    assert known.note(4e10) == f"saving and restarting as measured in {tmp_path / 'run'}"
    assert "4,000.0 MB per host, this one 50,000.0" in known.note(5e10)


def test_rates_are_of_the_hosts_that_measured_them(tmp_path):
    """One host saves 8 GB at 0.8 GB/s; resumed by eight hosts, the run has not saved again."""
    size = 8 * 10**9
    rows = [start(0, 30.0, 0.0, 0), save(10, 1.0, 10.0, size), save(20, 1.0, 10.0, size)]
    rows += [start(20, 30.0, 10.0, size), start(20, 30.0, 10.0, size, 8)]
    known = measured.read(write(tmp_path / "run", rows))
    assert (known.bytes, known.storage_rate, known.blocked_rate) == (8e9, 8e8, 8e9)
    assert known.restore_rate == pytest.approx((8e8 + 1e8) / 2)
    known = measured.read(write(tmp_path / "run", [*rows, *[save(30, 1.0, 2.0, size)] * 3]))
    assert (known.bytes, known.storage_rate) == (1e9, 5e8)


@pytest.mark.parametrize(
    ("rows", "message"),
    [([], "no save"), ([start(3, 9.0, 1.0, 5)], "no save"),
     ([save(3, 0.1, 0.2, 5)], "no restart: stop it once, and run it again")],
)  # fmt: skip
def test_a_run_without_measurements_is_an_error(rows, message, tmp_path):
    with pytest.raises(ValueError, match=f"timings.jsonl has {message}"):
        measured.read(write(tmp_path / "run", rows))


def test_a_missing_run_is_an_error_with_the_nearest_name(tmp_path):
    write(tmp_path / "demo", [])
    with pytest.raises(ValueError, match="demos: no such directory.*demo"):
        measured.read(tmp_path / "demos")
