"""Missing inputs are reported within two seconds, before any heavy import."""

import argparse
import contextlib
import errno
import os
import subprocess
import sys

import pytest

from mmt.cli import inputs
from mmt.cli.inputs import macros

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
        ("translate --model run --ensemble rum", "rum is no model directory: it has no config.gin; "
         "nearest: run"),
        ("evaluate --model . --testset cldr", ". is no model directory"),
        ("export hf --model runs/none --out out", "runs/none is no model directory"),
        (f"{TRAIN} --gin.CORPUS=nowhere --gin.MODEL_DIR=out", "no corpus at 'nowhere'"),
        (f"{TRAIN} --gin.CORPUS=cldr --gin.MODEL_DIR=file/run", "file is a file"),
        (f"{TRAIN} --gin.CORPUS=cldr --gin.MODEL_DIR=/proc/run", "/proc/run cannot be written"),
        (f"{TRAIN} --gin_file=mine.gin", "no corpus at 'nowhere'"),
        (f"{TRAIN} --gin_file=above.gin --gin.MODEL_DIR=out", "no corpus at 'nowhere'"),
        (f"{TRAIN} --gin_file=mine.gin --gin.CORPUS=elsewhere", "no corpus at 'elsewhere'"),
    ],
)
def test_missing_inputs_are_errors_before_heavy_imports(line, message, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/config.gin").touch()
    (tmp_path / "mine.gin").write_text("CORPUS = 'nowhere'  # not there\nMODEL_DIR = 'out'\n")
    (tmp_path / "above.gin").write_text("CORPUS = 'cldr'\ninclude 'mine.gin'\n")
    paths = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *line.split()], cwd=tmp_path, capture_output=True,
        text=True, check=False, env={**os.environ, "PYTHONPATH": paths, "MMT_DATA": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1 and message in done.stderr, done.stderr
    assert "imported" not in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_macros_are_read_as_gin_would(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "A = 'a'\nB = 'b'\ninclude 'circle.gin'\nB = %A\nC = 3\nx.D = 'd'\n# E = 'e'\n"
    (tmp_path / "circle.gin").write_text(text)
    assert macros(["circle.gin", "missing.gin"]) == {"A": "a", "B": None, "C": None}
    (tmp_path / "later.gin").write_text("include \"gin_configs/examples/demo.gin\"\nA = 'z'  # 'y'")
    values = macros(["circle.gin", "later.gin"])
    assert (values["A"], values["CORPUS"]) == ("z", "cldr")
    assert values["TRAIN_STEPS"] is values["CACHE_DIR"] is None


def test_a_teachers_translations_need_not_exist(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MMT_DATA", str(tmp_path))
    args = argparse.Namespace(run="distill", bindings=[], model=None)
    args.gin_file = ["gin_configs/examples/demo_distill.gin"]
    inputs.check(args)
    args.bindings = ["TEACHER_CORPUS=nowhere"]
    with pytest.raises(ValueError, match="no corpus at 'nowhere'"):
        inputs.check(args)


@pytest.mark.parametrize(("number", "refused"), [(errno.ENOSPC, False), (errno.EROFS, True)])
def test_a_full_disk_is_waited_for_and_a_read_only_one_refused(
    tmp_path, monkeypatch, number, refused
):
    def fail(dir):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(inputs.tempfile, "TemporaryFile", fail)
    with pytest.raises(ValueError, match="Read-only") if refused else contextlib.nullcontext():
        inputs._check_writable(tmp_path / "run")


def test_a_missing_test_set_is_named_as_a_test_set(tmp_path, monkeypatch):
    from eval import testsets

    monkeypatch.chdir(tmp_path)
    (tmp_path / "flores200").mkdir()
    with pytest.raises(ValueError, match="no test set 'flores20'; nearest: flores200"):
        testsets.load("flores20")


def test_a_folder_without_permission_is_named(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.access(closed, os.W_OK):
        pytest.skip("this user may write anywhere")
    with pytest.raises(ValueError, match="no permission in .*closed"):
        inputs._check_writable(closed / "run")
