"""Heartbeats as files: what is written is read, but not of earlier starts."""

import dataclasses
import json
import os

import pytest

from mmt import train
from mmt.health import Health, Heartbeat, heartbeat, read
from mmt.run import Run


def write(directory, **fields):
    directory.mkdir(parents=True, exist_ok=True)
    usual = {"start": 5.0, "process": 0, "processes": 2, "host": "n", "pid": 1, "time": 9.0}
    one = Heartbeat(**usual | fields)
    handle = os.open(heartbeat.path_of(directory, one.process), os.O_RDWR | os.O_CREAT)
    heartbeat.write(handle, one)
    os.close(handle)
    return one


def test_what_is_written_is_read(tmp_path):
    settings = Health(period=3.0, free_gib=7.0)
    first = write(tmp_path, step=12, free={"/tmp": 5}, health=settings)
    second = write(tmp_path, process=1, activity="validating loss", ended="hung")
    assert read(tmp_path) == [first, second]
    shorter = write(tmp_path, process=1)
    assert read(tmp_path) == [first, shorter]  # nothing of the longer one is left


def test_heartbeats_of_an_earlier_start_are_left_out(tmp_path):
    write(tmp_path, process=7, processes=8, start=1.0)
    assert [one.process for one in read(tmp_path)] == [7]
    write(tmp_path, process=0, start=2.0)
    assert [one.process for one in read(tmp_path)] == [0]


def test_a_damaged_file_counts_as_missing(tmp_path):
    one = write(tmp_path)
    heartbeat.path_of(tmp_path, 1).write_text('{"start": 5.0, "proc')
    heartbeat.path_of(tmp_path, 2).write_text("[1]")
    heartbeat.path_of(tmp_path, 3).write_text("{}")
    for number, wrong in enumerate([{"time": "now"}, {"free": []}, {"step": 1.5}], start=4):
        damaged = dataclasses.asdict(one) | {"process": number} | wrong
        heartbeat.path_of(tmp_path, number).write_text(json.dumps(damaged))
    heartbeat.path_of(tmp_path, 7).write_text(9999 * "[")
    (tmp_path / "notes.json").write_text("{}")
    assert read(tmp_path) == [one]
    assert read(tmp_path / "none") == []


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Health)])
def test_settings_are_checked(name):
    with pytest.raises(ValueError, match=f"{name}.*-1"):
        Health(**{name: -1.0})


def test_a_process_alone_has_no_heartbeats_of_an_earlier_start(tmp_path, toy_program, toy_batches):
    hosts = Run(tmp_path).hosts
    for process in (0, 1):
        write(hosts, process=process)
    (hosts / "00001.log").write_text("started\n")
    train.train(toy_program(), toy_batches(), model_dir=str(tmp_path), steps=1)
    assert read(hosts) == [] and [file.name for file in hosts.iterdir()] == ["00001.log"]
