"""Rows of starts and saves in `timings.jsonl`."""

import io
import itertools
import json

import pytest
from rich.console import Console

from mmt import timings
from mmt.run import Run
from mmt.system import status


@pytest.fixture
def as_a_command(monkeypatch):
    """Returns a context manager in which a training is the first one of a command."""

    def shown():
        monkeypatch.setattr(timings, "_command_starts", itertools.count())
        return status.shown("loading libraries", Console(file=io.StringIO()))

    return shown


def test_starts_and_saves_stay_when_a_run_is_resumed(
    toy_program, toy_trained, as_a_command, tmp_path
):
    run = Run(tmp_path)
    with as_a_command():
        toy_trained(toy_program(), tmp_path, steps=2)
    start, save = timings.read(run)
    assert start["start"] == 0 and start["read_bytes"] == 0 and start["processes"] == 1
    assert start["seconds"] == pytest.approx(sum(start["parts"].values()), abs=0.02)
    assert start["parts"]["compiling"] > 0 and start["parts"]["loading libraries"] >= 0
    assert start["first_step"] < start["seconds"] and start["cpu_seconds"] > 0
    files = [path for path in run.checkpoint(2).glob("*/**/*") if path.is_file()]
    assert save["save"] == 2 and save["bytes"] == sum(path.stat().st_size for path in files)
    assert 0 < save["blocked"] <= save["seconds"]
    # Not a command: it may have done other work before, so its start is not noted.
    toy_trained(toy_program(), tmp_path, steps=3)
    run.timings.write_text(run.timings.read_text() + '{"save": 9')  # killed while it wrote
    with as_a_command():
        toy_trained(toy_program(), tmp_path, steps=5)
    rows = timings.read(run)
    assert rows[:2] == [start, save]
    assert [next(iter(row.items())) for row in rows[2:]] == [("save", 3), ("start", 3), ("save", 5)]
    assert rows[3]["read_bytes"] == rows[2]["bytes"]
    assert rows[3]["parts"]["reading the checkpoint"] > 0


def test_a_disk_that_is_full_is_told_and_the_next_row_is_whole(tmp_path):
    said = []
    log = type("Log", (), {"say": said.append})
    made = timings.Timings(tmp_path / "run", (), 0)
    made._write([{"save": 1}], log)  # the directory is missing
    assert said == [f"{tmp_path}/run/timings.jsonl: No such file or directory; training goes on"]
    (tmp_path / "run").mkdir()
    made._write([{"save": 2}], log)
    assert [json.loads(line) for line in (tmp_path / "run/timings.jsonl").open() if line.strip()] \
        == timings.read(Run(tmp_path / "run")) == [{"save": 2}]  # fmt: skip
