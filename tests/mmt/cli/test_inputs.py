"""Missing inputs are reported within two seconds, before any heavy import."""

import os
import subprocess
import sys

import pytest

TRAIN = (
    "train --gin_file=gin_configs/models/tiny_moe.gin --gin_file=gin_configs/runs/train.gin "
    "--gin.MIXTURE_OR_TASK_NAME=x_to_eng --gin.TRAIN_STEPS=5"
)
PROGRAM = """
import sys
from mmt.cli.main import main
status = main(sys.argv[1:])
heavy = {"jax", "orbax", "tensorflow", "grain"} & set(sys.modules)
sys.exit(f"imported {heavy}" if heavy else status)
"""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("translate --model runs/none", "runs/none is no model directory: it has no config.gin"),
        ("evaluate --model runs/none --testset cldr", "runs/none is no model directory"),
        ("evaluate --model . --testset cldr", ". is no model directory"),
        ("export hf --model runs/none --out out", "runs/none is no model directory"),
        (f"{TRAIN} --gin.CORPUS=nowhere --gin.MODEL_DIR=out", "no corpus at 'nowhere'"),
        (f"{TRAIN} --gin.CORPUS=cldr --gin.MODEL_DIR=file/run", "file is a file"),
    ],
)
def test_missing_inputs_are_errors_before_heavy_imports(line, message, tmp_path):
    (tmp_path / "file").touch()
    paths = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *line.split()], cwd=tmp_path, capture_output=True,
        text=True, check=False, env={**os.environ, "PYTHONPATH": paths, "MMT_DATA": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1 and message in done.stderr, done.stderr
    assert "imported" not in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_a_missing_test_set_is_named_as_a_test_set(tmp_path, monkeypatch):
    from eval import testsets

    monkeypatch.chdir(tmp_path)
    (tmp_path / "flores200").mkdir()
    with pytest.raises(ValueError, match="no test set 'flores20'; nearest: flores200"):
        testsets.load("flores20")


def test_a_folder_without_permission_is_named(tmp_path):
    from mmt.cli.inputs import _check_writable

    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.access(closed, os.W_OK):
        pytest.skip("this user may write anywhere")
    with pytest.raises(ValueError, match="no permission in .*closed"):
        _check_writable(closed / "run")
