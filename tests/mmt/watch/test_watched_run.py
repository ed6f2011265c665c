"""A run's directory as the page sees it: while it is written, over, damaged, old, or no run."""

import dataclasses
import json
import os
import re
import shutil
import time

import numpy as np
import pytest

from mmt.health import Health, Heartbeat
from mmt.watch import open_runs
from mmt.watch.not_logged import HOW, LABELS
from mmt.watch.series import METRICS
from tests.mmt.watch.conftest import SIZE


@pytest.fixture
def run(made_up):
    (opened,) = open_runs([made_up])
    opened.read_all()
    return opened


def test_overview_of_a_finished_run(run):
    overview = json.loads(json.dumps(run.overview(), allow_nan=False))
    assert (overview["step"], overview["steps"], overview["progress"]) == (4000, 4000, 1.0)
    assert overview["faults"] == [] and overview["age"] >= 0
    assert overview["metrics"] == [name for name in METRICS if name != "source_use"]
    assert overview["missing"] == [f"Use of the source: {HOW['source_use']}"]
    assert {row["code"] for row in overview["languages"] if "onset" in row} == {
        SIZE.codes[3], SIZE.codes[10],
    }  # fmt: skip
    (decision,) = overview["decisions"]
    assert decision["step"] == 2000 and decision["languages"] == [SIZE.codes[3]]
    shares = [(row["planned"], row["consumed"]) for row in overview["languages"]]
    assert sum(planned for planned, _ in shares) == pytest.approx(1)
    assert all(0.9 < planned / consumed < 1.1 for planned, consumed in shares)
    assert overview["latest"]["tokens_per_second"] > 0 and overview["expert_load"]["step"] == 4000


def test_series_of_some_languages_between_steps(run):
    whole = run.series("loss", columns=50)
    assert whole["languages"] == SIZE.codes and len(whole["edges"]) == 51
    codes = [SIZE.codes[5], SIZE.codes[0]]
    part = run.series("loss", columns=500, first=1000, last=2000, codes=codes, bands=True)
    assert part["languages"] == codes and {"mean", "low", "high"} < set(part)
    assert part["edges"][0] >= 960 and part["edges"][-1] == 2000
    assert set(run.totals(columns=10)) >= {"loss", "bleu", "tokens_per_second"}
    assert len(run.samples()) == 20


@pytest.mark.parametrize(
    ("name", "codes", "message"),
    [
        ("los", None, "no metric 'los'; nearest: loss; allowed: loss, "),
        ("source_use", None, "Use of the source is not logged: add @hooks.SourceUse()"),
        ("loss", ["deu_Latin"], "made_up has no language 'deu_Latin'"),
    ],
)
def test_what_there_is_not(name, codes, message, run):
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
        run.series(name, columns=10, codes=codes)


def test_a_run_that_is_written(made_up, tmp_path):
    """Every call sees what was added; the ledger and the manifest may come later."""
    directory = tmp_path / "growing"
    directory.mkdir()
    shutil.copy(made_up / "config.gin", directory)
    (run,) = open_runs([directory])
    run.read_all()
    empty = run.overview()
    assert (empty["step"], empty["age"], empty["languages"]) == (0, None, [])
    assert len(empty["missing"]) == len(METRICS) + len(LABELS) and run.version == 0
    lines = (made_up / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    for without_row in (b"", lines[0][:50]):
        (directory / "metrics.jsonl").write_bytes(without_row)
        run.read_all()
        assert run.overview()["age"] is None
    (directory / "metrics.jsonl").write_bytes(b"".join(lines[:30]) + lines[30][:50])
    run.read_all()
    assert run.version > 0 and 0 < run.overview()["step"] < 4000
    shutil.copy(made_up / "manifest.json", directory)
    for name in ("ledger.json", "expert_load.json"):
        shutil.copy(made_up / name, directory)
    with (directory / "metrics.jsonl").open("ab") as file:
        file.write(lines[30][50:] + b"".join(lines[31:]))
    run.read_all()
    (whole,) = open_runs([made_up])
    whole.read_all()
    leave = ("directory", "version", "name", "age")
    now, then = run.overview(), whole.overview()
    assert {k: v for k, v in now.items() if k not in leave} == {
        k: v for k, v in then.items() if k not in leave
    }
    assert not run.read()


def test_damage_is_named_and_the_rest_is_shown(made_up, tmp_path):
    directory = shutil.copytree(made_up, tmp_path / "run")
    for name in ("manifest.json", "ledger.json", "expert_load.json"):
        (directory / name).write_text("{")
    with (directory / "metrics.jsonl").open("a") as file:
        file.write("{broken\n")
    (run,) = open_runs([directory])
    run.read_all()
    faults = "\n".join(run.overview()["faults"])
    assert f"{directory / 'manifest.json'}:1: broken JSON" in faults
    assert "no readable ledger.json" in faults and "metrics.jsonl:142: no JSON" in faults
    assert run.overview()["step"] == 4000 and "epochs" not in run.overview()["metrics"]
    with pytest.raises(ValueError, match="manifest.json:1"):
        run.check()
    assert "expert_load.json: no JSON" in faults and run.overview()["expert_load"] is None
    for name in ("manifest.json", "ledger.json", "expert_load.json", "metrics.jsonl"):
        shutil.copy(made_up / name, directory)
    run.read_all()
    run.check()
    assert run.overview()["faults"] == []


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_file_that_must_not_be_read(made_up, tmp_path):
    directory = shutil.copytree(made_up, tmp_path / "run")
    (directory / "metrics.jsonl").chmod(0)
    (run,) = open_runs([directory])
    run.read_all()
    assert "Permission denied" in run.overview()["faults"][0]


def test_hosts_at_fault_are_warnings(made_up, tmp_path):
    shutil.copytree(made_up, tmp_path / "run")
    (tmp_path / "run/hosts").mkdir()
    beats = [
        Heartbeat(start=1.0, process=process, processes=2, host=f"node{process}", pid=7, step=100,
                  time=time.time() - (400, 1)[process], activity="device", compiled=True,
                  health=Health())
        for process in range(2)
    ]  # fmt: skip
    for beat in beats:
        content = json.dumps(dataclasses.asdict(beat))
        (tmp_path / f"run/hosts/{beat.process:05}.json").write_text(content)
    (run,) = open_runs([tmp_path / "run"])
    run.read_all()
    first = run.overview()["warnings"][0]
    assert first["kind"] == "host" and "node0" in first["text"] and "node1" not in first["text"]
    assert not run.read()  # the heartbeats are not read at every call


def test_what_a_real_run_logs(toy_run):
    """Trained by `mmt train`: every number that the page can show without experts."""
    (run,) = open_runs([toy_run])
    run.read_all()
    run.check()
    overview = run.overview()
    assert set(overview["metrics"]) == set(METRICS) - {"source_use"}
    assert overview["steps"] == overview["step"] == overview["ledger_step"] == 40
    codes = {row["code"] for row in overview["languages"]}
    assert codes == {"deu_Latn", "fra_Latn", "swh_Latn"}
    assert all(row["epochs"] > 0 and row["pairs"] for row in overview["languages"])
    samples = run.samples()[-1]
    assert samples["step"] == 40 and set(samples["samples"]) == codes
    assert all(len(line) == 3 and line[0] for (line,) in samples["samples"].values())


def test_no_damage_stops_the_page(made_up, tmp_path):
    """Random bytes and values in random places: what is shown is JSON, and faults name a file."""
    names = ("metrics.jsonl", "ledger.json", "manifest.json", "expert_load.json", "config.gin")
    values = (b"null", b"-1", b"1e999", b"NaN", b'"x"', b"[]", b"{}", b"true", b"9" * 30)
    random, shown = np.random.default_rng(0), 0
    for number in range(40):
        directory = shutil.copytree(made_up, tmp_path / str(number))
        file = directory / names[number % len(names)]
        text = file.read_bytes()
        places = [match.span() for match in re.finditer(rb"(?<=: )[^,{}\[\]]+", text)]
        start, end = places[random.integers(len(places))] if places else (0, 1)
        if number % 3 == 0:
            start, end = start + 1, start + 1 + int(random.integers(30))
        text = text[:start] + values[random.integers(len(values))] + text[end:]
        file.write_bytes(text)
        (run,) = open_runs([directory])
        run.read_all()
        overview = run.overview()
        parts = [run.series(name, columns=9, bands=True) for name in overview["metrics"]]
        json.dumps([overview, parts, run.totals(columns=9), run.samples()], allow_nan=False)
        assert all(str(directory) in fault for fault in overview["faults"])
        shown += len(overview["faults"])
        shutil.rmtree(directory)
    assert shown > 10


def test_a_run_of_an_older_version(tmp_path):
    """Rows without a number per language: the whole run is shown, the rest is not guessed."""
    rows = [{"step": step, "loss": 9 - step / 100, "lr": 0.1} for step in range(0, 500, 100)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run,) = open_runs([tmp_path])
    run.read_all()
    overview = run.overview()
    assert overview["metrics"] == [] and overview["languages"] == [] and overview["steps"] is None
    assert "Training loss: rows of training have no language_loss" in overview["missing"]
    assert set(run.totals(columns=10)) == {"loss", "lr"}


def test_a_published_model_has_no_history(made_up, tmp_path):
    published = shutil.copytree(made_up, tmp_path / "model")
    (published / "SHA256SUMS").write_text("")
    open_runs([published])  # it may be in a run directory
    (published / "metrics.jsonl").unlink()
    with pytest.raises(ValueError, match=r"model is a published model: it has no metrics.jsonl, "):
        open_runs([published])
