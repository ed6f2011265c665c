"""Files of an earlier version stay usable: a run directory, results, and published gin files."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from eval import baselines, study
from eval.records import analysis, results
from mmt import config, train
from mmt.run import read_metrics

ROOT = Path(__file__).resolve().parents[2]
OLD = ROOT / "tests/data/old_run"
CONFIGS = sorted((OLD / "configs").glob("*.gin"))
COMPLETE = ("bible100_baselines", "bilingual_run", "stages", "study", "tiny")
OPEN = {
    "MODEL_DIR": "runs/x", "MIXTURE_OR_TASK_NAME": "x_to_eng", "TRAIN_STEPS": "1000",
    "RESULTS": "runs/results.jsonl", "CORPUS": "x", "INITIAL_MODEL_DIR": "runs/parent",
    "TEACHER_DIR": "runs/teacher", "TEACHER_CORPUS": "x",
}  # fmt: skip


@pytest.fixture
def old(tmp_path):
    """A copy of the old files, and a function that runs `mmt` beside them."""
    folder = tmp_path / "old"
    shutil.copytree(OLD, folder)

    def run(*arguments: object, stdin: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "-m", "mmt.cli", *map(str, arguments)], input=stdin, text=True,
            capture_output=True, cwd=folder, timeout=600, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT), "MMT_DATA": str(folder / "data")},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return folder, run


def test_translate_and_evaluate(old):
    """The old run translates as before: its new rows replace the old ones with equal scores."""
    folder, run = old
    sources = (folder / "hypotheses/toy/numbers/deu_Latn.src").read_text()
    hypotheses = (folder / "hypotheses/toy/numbers/deu_Latn.hyp").read_text()
    translated = run("translate", "--model", "toy", "--from", "deu", "--beam", 2, stdin=sources)
    assert translated == hypotheses
    before = results.read_rows(folder / "results.jsonl")
    shutil.rmtree(folder / "hypotheses/toy")  # else nothing is translated again
    out = folder / "results.jsonl"
    run(
        "evaluate", "--model", "toy", "--testset", "numbers", "--beam", 2, "--out", out,
        "--gin.Decoding.early_stopping=never",
    )  # fmt: skip
    rows = results.read_rows(out)
    assert len(rows) == len(before) == 6
    for row in before:
        new = next(other for other in rows if other.key == row.key)
        assert bool(new.weights) == (row.system == "toy") and row.weights is None
        assert dataclasses.replace(new, seconds=row.seconds, weights=None) == row
    assert (folder / "hypotheses/toy/numbers/deu_Latn.hyp").read_text() == hypotheses


def test_train_resumes(old):
    """More steps of the old run continue from its checkpoint, and keep what it measured.

    The sums of the languages, which its last training row has, go on into the new rows.
    """
    pytest.importorskip("seqio", reason="making a cache needs the extra [data]")
    folder, run = old
    before = read_metrics(folder / "toy/metrics.jsonl")
    run("train", "--gin_file=toy/config.gin", "--gin.TRAIN_STEPS=90")
    after = read_metrics(folder / "toy/metrics.jsonl")
    (last,) = (row for row in before if row["step"] == 80 and "loss" in row)
    del last["language_tokens"], last["language_loss"]
    assert after[: len(before)] == before
    assert {row["step"] for row in after[len(before) :]} == {90}
    assert {path.name for path in (folder / "toy/checkpoints").iterdir()} >= {"90"}
    assert run("translate", "--model", "toy", "--from", "deu", stdin="eins\n").count("\n") == 1


def test_results_and_their_report(old):
    folder, run = old
    lines = (folder / "analysis.jsonl").read_text().splitlines()
    kinds = {json.loads(line)["kind"] for line in lines}
    assert {"interval", "counts", "cost", "recipe", "curve", "routing"} < kinds
    assert len(analysis.read(folder / "analysis.jsonl")) == len(lines)
    run("report", "results.jsonl", "--out", "report")
    page = (folder / "report/report.html").read_text()
    for row in results.read_rows(folder / "results.jsonl"):
        assert f"{row.bleu:.1f}" in page
    for name in ("German", "French", "Swahili", "toy"):
        assert name in page


def load(file: Path) -> None:
    """Loads a file with what it builds on before it, all of the earlier version."""
    before = [] if file.stem in COMPLETE else ["tiny_moe.gin", "train.gin"]
    files = list(dict.fromkeys([*(OLD / "configs" / name for name in before), file]))
    config.load(files, may_leave_open=True)
    left = [name for name in OPEN if config.macro(name) is None]
    known = "".join(path.read_text() for path in files)
    config.load(files, [f"{name}={OPEN[name]}" for name in left if f"{name} =" in known])


@pytest.mark.parametrize("file", CONFIGS, ids=lambda path: path.stem)
def test_an_old_gin_file_loads(file):
    load(file)
    if file.stem == "study":
        assert len(config.configured(study.Study)().runs) == 3
    elif file.stem not in ("tiny", "tiny_moe", "expert_data"):
        program = config.configured(train.Trainer)()
        assert program.model.config.encoder_layers in (2, 4)


def test_an_old_class_of_baselines_sets_what_its_bindings_say():
    load(OLD / "configs/bible100_baselines.gin")
    bound = config.value(baselines.baselines, "classes")
    classes = {baseline_class.name: baseline_class for baseline_class in bound}
    assert list(classes) == ["top", "high", "mid", "mid_copied", "low"]
    with classes["low"].configured() as (program, plan):
        assert program.model.config.dropout_rate == 0.3
        assert program.model.config.vocab_size == 2500
        assert plan.own_vocabulary and plan.batch_size == 4 and plan.stages is None
    with classes["top"].configured() as (program, plan):
        assert program.model.config.dropout_rate == 0.1
        assert plan.before_last == 610 and plan.patience == 4 and len(plan.stages) == 2
