"""Commands as typed: flags that do not belong together, and what a run gets after training."""

import io
import json
import shutil
import sys
import types
from pathlib import Path

import pytest

from mmt.cli.main import main
from mmt.run import Run

OLD = Path(__file__).resolve().parents[2] / "data/old_run"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("report", "expected RESULTS.jsonl … or --train FILE"),
        ("report --train study.gin --out x", "the study names all files"),
        ("data prepare", "expected CORPUS and --out DIR, or --gin_file FILE"),
        ("data prepare cldr", "expected --out DIR, or --explain"),
        ("import hf folder --out x --vocabulary v.model", "contains its vocabulary"),
    ],
)
def test_flags_that_do_not_belong_together_are_refused(line, message, capsys):
    assert main(line.split()) == 1
    assert message in capsys.readouterr().err


def typed(line, stdin, monkeypatch, capsys):
    """The status, stdout and stderr of a command."""
    stream = types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(stdin.encode())))
    monkeypatch.setattr(sys, "stdin", stream)
    status = main(line.split())
    return status, *capsys.readouterr()


def test_a_run_gets_an_identifier_and_a_calibration(tmp_path, monkeypatch, capsys):
    run = shutil.copytree(OLD / "toy", tmp_path / "toy")
    auto = f"translate --model {run} --from auto --risk --retry --beam 1"
    status, _, err = typed(f"translate --model {run} --from auto", "eins", monkeypatch, capsys)
    assert status == 1 and "no language identifier" in err
    small = "--gin.IdentifierConfig.buckets=4096 --gin.IdentifierConfig.epochs=8"
    identify = f"data identify --model {run} --corpus {OLD / 'numbers'} {small}"
    status, out, _ = typed(identify, "", monkeypatch, capsys)
    assert status == 0 and out.strip() == str(Run(run).identifier)
    status, _, err = typed(auto, "eins", monkeypatch, capsys)
    assert status == 1 and "mmt calibrate" in err
    calibrate = f"calibrate --model {run} --corpus {OLD / 'numbers'} --beam 1"
    status, out, _ = typed(calibrate, "", monkeypatch, capsys)
    assert status == 0 and out.startswith("confidence\tchrF\tlines\n")
    text = "drei zwei eins vier\n\nmoja mbili tatu nne\n"
    status, out, _ = typed(f"{auto} --format jsonl", text, monkeypatch, capsys)
    rows = list(map(json.loads, out.splitlines()))
    assert status == 0 and [row["source"] for row in rows] == text.split("\n")[:3]
    detected = [row["detected"]["language"] for row in rows]
    assert detected == ["deu_Latn", "und", "swh_Latn"]
    assert all(0 <= row["risk"]["confidence"] <= 1 for row in rows)
    status, out, _ = typed(auto, text, monkeypatch, capsys)
    assert [line.count("\t") for line in out.splitlines()] == [2, 2, 2]
    status, out, _ = typed(auto.replace("--risk", ""), text, monkeypatch, capsys)
    assert len(out.splitlines()) == 3 and "\t" not in out
    status, _, err = typed(f"{auto} --nbest 1 --beam 4", text, monkeypatch, capsys)
    assert status == 0
    status, _, err = typed(f"{auto} --nbest 2 --beam 4", text, monkeypatch, capsys)
    assert status == 1 and "omit --nbest" in err
