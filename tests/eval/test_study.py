"""A study's runs and evaluations in their order, from where they stand; the report at the end.

The commands themselves are tested where they are; here what would run is noted, not run.
"""

import os
import signal
import sys
import threading
import time
import warnings

import pytest

from eval import study
from eval.records.results import Row, add_rows

RUNS = ("train a.gin", "baselines b.gin", "distill c.gin")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three gin files, in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, run in (("a", "moe"), ("b", "baselines"), ("c", "student")):
        text = f"MODEL_DIR = 'runs/{run}'\nTRAIN_STEPS = 50\nRESULTS = 'r.jsonl'\n"
        text += "BASELINE_LANGUAGES = ['de', 'fr']\n"
        (tmp_path / f"{name}.gin").write_text(text)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for side in ("src", "ref"):
            (tmp_path / name / f"deu.{side}").write_text("3\n")
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


def test_a_run_that_cannot_be_parsed_is_named(folder):
    for run in ("", "train 'a.gin"):
        with pytest.raises(ValueError, match=f"Study.runs: {run!r}"):
            make(runs=[run])
    (folder / "d.gin").write_text("TRAIN_STEPS = 50\n")
    with pytest.raises(ValueError, match="neither it nor d.gin gives MODEL_DIR"):
        make(runs=["train d.gin"]).finish()


def test_every_run_is_trained_and_evaluated_in_order_and_then_reported(commands, folder, capsys):
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


def test_bindings_of_a_run_win(commands, folder, capsys):
    make(runs=["train a.gin TRAIN_STEPS=500"], bindings=["TRAIN_STEPS=100"]).finish()
    assert "0 of 500 steps" in capsys.readouterr().err
    assert commands[0].endswith("--gin.TRAIN_STEPS=100 --gin.TRAIN_STEPS=500")


def test_all_are_decoded_and_scored_alike(commands):
    decoding = ["beam=1", "no_repeat_ngram=3"]
    make(runs=RUNS[:1], testsets=["one"], decoding=decoding, scores=["ter=True"]).finish()
    bound = "--gin.Decoding.beam=1 --gin.Decoding.no_repeat_ngram=3 --gin.Metrics.ter=True"
    assert commands[-1] == f"evaluate --model runs/moe --testset one --out r.jsonl {bound}"


def test_decoding_and_scores_are_objects_as_in_gin(commands, folder):
    head = (
        "from __gin__ import dynamic_registration\nfrom eval import metrics\n"
        "from eval import study\nfrom mmt import decoding\n"
    )
    text = (
        "study.Study:\n  runs = ['train a.gin']\n  testsets = ['one']\n  results = 'r.jsonl'\n"
        "  out = 'report'\n  decoding = @decoding.Decoding()\n  scores = @metrics.Metrics()\n"
        "decoding.Decoding.beam = 1\ndecoding.Decoding.prefix = 'a b'\nmetrics.Metrics.ter = True\n"
    )
    (folder / "s.gin").write_text(head + text)
    with warnings.catch_warnings(action="error"):
        study.load("s.gin").finish()
    bound = "--gin.Decoding.beam=1 --gin.Decoding.prefix='a b' --gin.Metrics.ter=True"
    assert commands[-1] == f"evaluate --model runs/moe --testset one --out r.jsonl {bound}"


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"runs": ["train a.gin TRAIN_STEPS=5"]}, "runs"),
     ({"bindings": ["TRAIN_STEPS=5"]}, "bindings"),
     ({"decoding": ["beam=1"]}, "decoding"), ({"scores": ["ter=True"]}, "scores")],
)  # fmt: skip
def test_settings_as_text_still_count_with_a_warning(changes, name):
    with pytest.warns(UserWarning, match=f"^Study.{name}: settings as text"):
        make(**changes)


def test_remarks_are_in_the_report(commands, folder):
    files = make(remarks={"Dropout": "0.3 helped"}).finish()
    assert "0.3 helped" in files[0].read_text()


def test_progress_is_read_from_the_disk(commands, folder, capsys):
    for step in (10, 30):
        (folder / "runs/moe/checkpoints" / str(step)).mkdir(parents=True)
    make().finish()
    assert "30 of 50 steps" in capsys.readouterr().err


def test_a_run_that_fails_ends_the_study(folder):
    (folder / "a.gin").write_text("MODEL_DIR = 'x'\nTRAIN_STEPS = 0\n")
    with pytest.raises(ValueError, match=r"mmt train --gin_file=a\.gin.* ended with status 1"):
        make(runs=RUNS[:1]).finish()
    assert not (folder / "report").exists()


def test_a_stopped_study_stops_its_run_and_ends(folder, monkeypatch):
    command = folder / "command"
    command.write_text("#!/bin/sh\ntrap 'touch saved; exit 0' TERM\ntouch begun\nsleep 60 & wait\n")
    command.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(command))

    def stop():
        while not (folder / "begun").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop).start()
    with pytest.raises(ValueError, match=r"mmt train --gin_file=a.gin` was stopped; run the same"):
        make(runs=RUNS[:1]).finish()
    assert (folder / "saved").exists()


@pytest.mark.parametrize("run", ["trian a.gin", "train", "a.gin", "train a.gin b.gin"])
def test_a_run_is_a_command_and_a_file(run):
    with pytest.raises(ValueError, match="expected a command of train, distill, baselines"):
        make(runs=[run])


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"testsets": ["oen"]}, "oen"), ({"testsets": "one"}, "Study.testsets: 'one'; expected a"),
     ({"decoding": ["beem=1"]}, "Decoding.beem: no such parameter; nearest: Decoding.beam"),
     ({"decoding": ["beam=0"]}, "beam"), ({"scores": ["terr=True"]}, "nearest: Metrics.ter"),
     ({"corpus": "crop"}, "crop"), ({"out": "a.gin"}, "a.gin is a file"),
     ({"remarks": {"": 5}}, "expected text"), ({"remarks": ["a"]}, "expected headings"),
     ({"runs": []}, "expected a run or more"), ({"runs": [3]}, "expected a list of texts"),
     ({"runs": ["train aa.gin"]}, "'train aa.gin': no gin file 'aa.gin'"),
     ({"runs": ["train a.gin MODEL_DIR=5"]}, "MODEL_DIR is 5; expected a folder's name"),
     ({"runs": ["train a.gin TRAIN_STEPS='x'"]}, "TRAIN_STEPS is 'x'; expected a number"),
     ({"runs": ["train a.gin MODEL_DIR=x/baseline"]}, "is called 'baseline'"),
     ({"runs": ["train a.gin", "train a.gin MODEL_DIR=other/moe"]}, "both would be 'moe'"),
     ({"runs": ["baselines b.gin RESULTS=x.jsonl"]}, "rows go into x.jsonl, the study's are in r")],
)  # fmt: skip
def test_invalid_settings_are_errors_before_anything_is_trained(commands, changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes).finish()
    assert not commands


def test_a_file_that_describes_no_study_is_named(folder):
    with pytest.raises(ValueError, match=r"a\.gin is no study: it has no study\.Study\.runs"):
        study.load("a.gin")
    head = "from __gin__ import dynamic_registration\nfrom eval import study\n"
    text = "study.Study:\n  runs = ['train a.gin']\n  testsets = ['one']\n  out = 'x'\n"
    (folder / "s.gin").write_text(head + text)
    with pytest.raises(ValueError, match=r"it has no study\.Study\.results"):
        study.load("s.gin")
    assert study.load("s.gin", ["study.Study.results='r.jsonl'"]).testsets == ["one"]


@pytest.fixture
def corpora_folder(folder):
    """A gin file whose corpus has the entries news and my/web."""
    text = 'name = "toys"\n[train]\nde = [{ pairs = "n.tsv", name = "news" }, '
    text += '{ pairs = "w.tsv", name = "my/web" }]\n'
    (folder / "toys").mkdir()
    (folder / "toys/corpus.toml").write_text(text)
    for name in "nw":
        (folder / f"toys/{name}.tsv").write_text("Zug\ttrain\n")
    head = "from __gin__ import dynamic_registration\nfrom mmt.data import pipeline\n"
    head += "from mmt.data import recipe\nMODEL_DIR = 'runs/moe'\nTRAIN_STEPS = 50\n"
    head += "recipe.CacheConfig.directory = 'none'\nrecipe.CacheConfig.mixture = 'toys_to_eng'\n"
    (folder / "e.gin").write_text(head + "recipe.CacheConfig.corpus = 'toys'\n")
    return folder


def test_the_first_run_is_repeated_without_each_corpus(commands, corpora_folder, monkeypatch):
    given = []
    monkeypatch.setattr(study, "read_manifest", lambda path: path)
    monkeypatch.setattr(study, "effects", lambda *arguments: given.append(arguments) or [])
    make(runs=["train e.gin", RUNS[2]], testsets=["one"], leave_out=["my/web", "news"]).finish()
    assert [command for command in commands if command.startswith("train")] == [
        "train --gin_file=e.gin",
        *(f"train --gin_file=e.gin --gin.MODEL_DIR='runs/without:{name}' "
          f"--gin.pipeline.train_batches.leave_out=['{corpus}']"
          for name, corpus in (("my_web", "my/web"), ("news", "news"))),
    ]  # fmt: skip
    assert sum("evaluate --model runs/without:" in command for command in commands) == 2
    ((_, system, without, manifest),) = given
    assert (system, str(manifest)) == ("moe", "runs/moe/manifest.json")
    assert without == {"my/web": "without:my_web", "news": "without:news"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"leave_out": ["newz"]}, "Study.leave_out: no corpus 'newz' .*nearest: news"),
     ({"leave_out": "news"}, "Study.leave_out: 'news'; expected a list of texts"),
     ({"leave_out": ["news"], "runs": ["distill e.gin"]}, "expected a run of the command train"),
     ({"leave_out": ["my/web", "my_web"]}, "no corpus 'my_web'")],
)  # fmt: skip
def test_faults_of_leave_out_are_errors_before_training(commands, corpora_folder, changes, message):
    with pytest.raises(ValueError, match=message):
        make(**{"runs": ["train e.gin"]} | changes).finish()
    assert not commands


def test_test_sets_are_read_into_the_target_of_the_runs(commands, corpora_folder):
    (corpora_folder / "german").mkdir()
    for language in ("de", "fr"):
        (corpora_folder / f"german/test.{language}").write_text("3\n")
    with pytest.raises(ValueError, match="eng"):
        make(runs=["train e.gin"], testsets=["german"]).finish()
    assert not commands
    description = corpora_folder / "toys/corpus.toml"
    description.write_text('target = "de"\n' + description.read_text().replace("de = ", "fr = "))
    gin = corpora_folder / "e.gin"
    gin.write_text(gin.read_text().replace("toys_to_eng", "toys_to_deu"))
    make(runs=["train e.gin"], testsets=["german"]).finish()
    assert "evaluate --model runs/moe --testset german --out r.jsonl" in commands
