"""A run directory: one module spells its file names; its steps; whether it is trained."""

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mmt import config
from mmt.run import Run, read_metrics

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = (
    "config.gin", "manifest.json", "metrics.jsonl", "ledger.json", "environment.json",
    "vocabulary.model", "vocabulary.source.model", "vocabulary.target.model", "languages.npz",
    "risk.json", "timings.jsonl",
)  # fmt: skip


def spelled(path):
    """The string constants of a file, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        text = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and id(node) not in documents:
            yield text


@pytest.mark.parametrize("package", ["mmt", "eval", "tasks"])
def test_only_run_spells_the_names_of_a_run_directory(package):
    for path in (ROOT / package).rglob("*.py"):
        if path != ROOT / "mmt/run.py":
            for text in spelled(path):
                assert text != "checkpoints" and not any(name in text for name in NAMES), path
    assert set(NAMES[:5]) <= set(spelled(ROOT / "mmt/run.py"))


def test_it_is_light_to_import():
    code = "import sys, mmt.run; sys.exit(bool({'jax', 'orbax', 'numpy'} & sys.modules.keys()))"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_run_is_trained_by_its_steps_or_by_a_hook(tmp_path):
    run = Run(tmp_path)
    assert not run.is_trained(None) and not run.is_trained(1)
    checkpoints(tmp_path, {4: None})
    assert run.is_trained(4) and not run.is_trained(5) and not run.is_trained(None)
    run.metrics.write_text('{"step": 5, "stopped": "no gain"}\n')
    assert not run.is_trained(5)  # it was stopped after the latest checkpoint
    run.metrics.write_text('{"step": 4, "stopped": "no gain"}\n{"step": 5, "lo')
    assert run.is_trained(5) and run.is_trained(None)


def test_settings_that_differ_from_those_so_far_are_named(tmp_path, capsys):
    toy = Path(__file__).resolve().parents[1] / "data/old_run/toy"
    run = Run(shutil.copytree(toy, tmp_path / "toy"))
    config.load([run.config], ["TRAIN_STEPS=160", f"MODEL_DIR={run.directory}"])
    assert not run.keeps_description() and not capsys.readouterr().err  # it is only longer
    config.load([run.config], ["TRAIN_STEPS=160", "DROPOUT_RATE=0.3"])
    assert not run.keeps_description()
    message = capsys.readouterr().err
    assert "so far with other settings; from now on: DROPOUT_RATE = 0.3, there 0.1. " in message
    config.load([run.config], ["DROPOUT_RATE=0.3"])
    assert run.keeps_description()
    assert "without effect now: DROPOUT_RATE = 0.3, there 0.1" in capsys.readouterr().err
    shutil.rmtree(run.checkpoints)
    assert not run.keeps_description() and not capsys.readouterr().err  # nothing is trained yet


def test_vocabularies_are_shared_or_separate_or_the_missing_one_is_named(tmp_path):
    run = Run(tmp_path)
    (tmp_path / "vocabulary.source.model").touch()
    with pytest.raises(ValueError, match=r"neither vocabulary.model nor .*target.model"):
        run.vocabularies()
    (tmp_path / "vocabulary.target.model").touch()
    assert run.vocabularies() == {
        side: tmp_path / f"vocabulary.{side}.model" for side in ("source", "target")
    }
    (tmp_path / "vocabulary.model").touch()
    assert set(run.vocabularies().values()) == {tmp_path / "vocabulary.model"}


def test_a_directory_without_config_is_no_model(tmp_path):
    before = config.macro("TRAIN_STEPS")
    with pytest.raises(ValueError, match="no config.gin"):
        Run(tmp_path).model()
    (tmp_path / "config.gin").write_text("")
    with pytest.raises(ValueError, match="no manifest.json"):
        Run(tmp_path).check_is_model()
    with pytest.raises(ValueError, match="describes no model"):
        Run(tmp_path).model()
    assert config.macro("TRAIN_STEPS") == before  # the loaded configuration is untouched


def checkpoints(run, losses):
    for step, loss in losses.items():
        folder = run / "checkpoints" / str(step) / "measured"
        folder.mkdir(parents=True)
        measured = {} if loss is None else {"validation_loss": loss}
        (folder / "metadata").write_text(json.dumps(measured))


def test_a_missing_directory_gets_the_nearest_name(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "notes.txt").touch()
    assert Run(tmp_path / "mime").nearest() == f"; nearest: {tmp_path / 'mine'}"
    assert Run(tmp_path / "mine").nearest() == Run(tmp_path / "no/mine").nearest() == ""
    assert Run(tmp_path / "other").nearest() == ""
    with pytest.raises(ValueError, match="no model directory: it has no config.gin; nearest"):
        Run(tmp_path / "mime").check_is_model()


def test_only_complete_checkpoints_count(tmp_path):
    assert Run(tmp_path).checkpoint_steps() == []
    checkpoints(tmp_path, {10: None, 9: None})
    for name in ("11.orbax-checkpoint-tmp", "8.damaged"):
        (tmp_path / "checkpoints" / name).mkdir()
    (tmp_path / "checkpoints/12").write_text("")
    assert Run(tmp_path).checkpoint_steps() == [9, 10]


def test_the_best_checkpoint_has_the_least_loss(tmp_path, capsys):
    checkpoints(tmp_path, {1: 3.0, 2: 1.0, 3: 2.0, 4: None})
    assert Run(tmp_path).best_step() == 2
    (tmp_path / "checkpoints/2/measured/metadata").write_text("{")
    assert Run(tmp_path).best_step() == 3
    assert "checkpoints/2/measured is damaged" in capsys.readouterr().err
    for loss in ("NaN", '"1.0"', "null"):
        (tmp_path / "checkpoints/1/measured/metadata").write_text(f'{{"validation_loss": {loss}}}')
        assert Run(tmp_path).best_step() == 3


def test_the_last_checkpoints_are_in_order(tmp_path):
    checkpoints(tmp_path, {2: None, 4: None, 10: None})
    assert Run(tmp_path).last_steps(2) == [4, 10]
    with pytest.raises(ValueError, match="has 2, 4, 10"):
        Run(tmp_path).last_steps(4)
    with pytest.raises(ValueError, match="last 3 .*has 2, 4, 10 .a run keeps the last 2, .* best"):
        Run(tmp_path).last_steps(3, keep=2)  # 2 may be an old best one
    with pytest.raises(ValueError, match="the last 2 checkpoints up to 4"):
        Run(tmp_path).last_steps(2, step=4, keep=2)
    assert Run(tmp_path).last_steps(2, step=4, keep=3) == [2, 4]


def test_only_the_last_row_of_the_metrics_may_be_incomplete(tmp_path):
    """Resuming writes the rows again, so none may be lost without a word."""
    file = tmp_path / "metrics.jsonl"
    assert read_metrics(file) == []
    for end in (b"", b"\n", b'{"step": 3, "lo', b"\0\0\0\n"):
        file.write_bytes(b'{"step": 1, "text": "a\xe2\x80\xa8b"}\n{"step": 2}\n' + end)
        assert [row["step"] for row in read_metrics(file)] == [1, 2]
    for line, fault in ((b"{", "no JSON"), (b"[1]", "an object"), (b'{"loss": 1.0}', "its step"),
                        (b"\xff", "no UTF-8"), (b"", "no JSON")):  # fmt: skip
        file.write_bytes(b'{"step": 1}\n' + line + b'\n{"step": 2}\n')
        with pytest.raises(ValueError, match=rf"metrics\.jsonl:2: .*{fault}"):
            read_metrics(file)
    file.write_bytes(b'\xef\xbb\xbf{"step": 1}\n{"step": 2}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl:1: no JSON: Unexpected UTF-8 BOM"):
        read_metrics(file)
