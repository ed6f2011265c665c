"""A study's runs and evaluations in their order, from where they stand; the report at the end.

The commands themselves are tested where they are; here what would run is noted, not run.
"""

import os
import signal
import sys
import threading
import time

import pytest

from eval import study
from eval.results import Row, add_rows

RUNS = ("train a.gin", "baselines b.gin", "distill c.gin")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three gin files, in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, run in (("a", "moe"), ("b", "baselines"), ("c", "student")):
        text = f"MODEL_DIR = 'runs/{run}'\nTRAIN_STEPS = 50\nBASELINE_LANGUAGES = ['de', 'fr']\n"
        (tmp_path / f"{name}.gin").write_text(text)
    return tmp_path


@pytest.fixture
def commands(monkeypatch, folder):
    """What was run; each evaluation adds a row."""
    ran = []

    def mmt(*arguments):
        ran.append(" ".join(arguments))
        if arguments[0] == "evaluate":
            system = arguments[2].removeprefix("runs/")
            row = Row(
                system=system, kind="multilingual", testset=arguments[4], source="deu_Latn",
                target="eng_Latn", bleu=30.0, bleu_signature="b", chrf=50.0, chrf_signature="c",
                sentences=200, train_pairs=9, checkpoint=f"{system}/50", decode="d", seconds=1.0,
                config="0",
            )  # fmt: skip
            add_rows(folder / arguments[6], [row])

    monkeypatch.setattr(study, "mmt", mmt)
    return ran


def make(**changes):
    settings = {"runs": RUNS, "testsets": ("one", "two"), "results": "r.jsonl", "out": "report"}
    return study.Study(**settings | changes)


def test_a_run_that_is_none_is_named(folder):
    for run in ("", "train 'a.gin"):
        with pytest.raises(ValueError, match=f"Study.runs: {run!r}"):
            make(runs=[run])
    (folder / "d.gin").write_text("TRAIN_STEPS = 50\n")
    with pytest.raises(ValueError, match="neither it nor d.gin gives MODEL_DIR"):
        make(runs=["train d.gin"]).finish()


def test_every_run_is_trained_and_judged_in_its_order_and_then_reported(commands, folder, capsys):
    runs = [RUNS[0], RUNS[1] + " MODEL_DIR=runs/two", RUNS[2]]
    files = make(runs=runs, bindings=["TRAIN_STEPS=50"]).finish()
    judged = "--testset {} --out r.jsonl"
    assert commands == [
        "train --gin_file=a.gin --gin.TRAIN_STEPS=50",
        "evaluate --model runs/moe " + judged.format("one"),
        "evaluate --model runs/moe " + judged.format("two"),
        "baselines --gin_file=b.gin --gin.TRAIN_STEPS=50 --gin.MODEL_DIR=runs/two",
        "distill --gin_file=c.gin --gin.TRAIN_STEPS=50",
        "evaluate --model runs/student " + judged.format("one"),
        "evaluate --model runs/student " + judged.format("two"),
    ]
    assert files[0].read_text().startswith("<!doctype html>")
    stand = capsys.readouterr().err
    assert "0 of 50 steps" in stand and "student" in stand and "0 of 2 models" in stand


def test_what_a_run_sets_itself_holds(commands, folder, capsys):
    make(runs=["train a.gin TRAIN_STEPS=500"], bindings=["TRAIN_STEPS=100"]).finish()
    assert "0 of 500 steps" in capsys.readouterr().err
    assert commands[0].endswith("--gin.TRAIN_STEPS=100 --gin.TRAIN_STEPS=500")


def test_all_are_decoded_and_scored_alike(commands):
    decoding = ["beam=1", "no_repeat_ngram=3"]
    make(runs=RUNS[:1], testsets=["one"], decoding=decoding, scores=["ter=True"]).finish()
    bound = "--gin.Decoding.beam=1 --gin.Decoding.no_repeat_ngram=3 --gin.Metrics.ter=True"
    assert commands[-1] == f"evaluate --model runs/moe --testset one --out r.jsonl {bound}"


def test_what_was_found_on_the_way_stands_in_the_report(commands, folder):
    files = make(remarks={"Dropout": "0.3 helped"}).finish()
    assert "0.3 helped" in files[0].read_text()


def test_where_it_stands_is_read_from_the_disk(commands, folder, capsys):
    for step in (10, 30):
        (folder / "runs/moe/checkpoints" / str(step)).mkdir(parents=True)
    make().finish()
    assert "30 of 50 steps" in capsys.readouterr().err


def test_a_run_that_fails_ends_the_study(folder):
    (folder / "a.gin").write_text("MODEL_DIR = 'x'\nTRAIN_STEPS = 0\n")
    with pytest.raises(ValueError, match=r"mmt train --gin_file=a\.gin.* ended with status 1"):
        make(runs=RUNS[:1]).finish()
    assert not (folder / "report").exists()


def test_a_study_that_is_stopped_stops_its_run_and_does_not_go_on(folder, monkeypatch):
    command = folder / "command"
    command.write_text("#!/bin/sh\ntrap 'touch saved; exit 0' TERM\ntouch begun\nsleep 60 & wait\n")
    command.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(command))

    def stop():
        while not (folder / "begun").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop).start()
    with pytest.raises(ValueError, match=r"mmt train --gin_file=a.gin` was stopped; started again"):
        make(runs=RUNS[:1]).finish()
    assert (folder / "saved").exists()


@pytest.mark.parametrize("run", ["trian a.gin", "train", "a.gin", "train a.gin b.gin"])
def test_a_run_is_a_command_and_a_file(run):
    with pytest.raises(ValueError, match="expected a command of train, distill, baselines"):
        make(runs=[run])
