"""The forms of `mmt plan` exclude each other, and parameters need a model alone."""

import pytest

from mmt.cli import main

TINY = "--gin_file=gin_configs/models/tiny.gin"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--run --topology v3:8x8 --decode", "omit --decode"),
        ("--run --topology v3:8x8 --compare", "omit --compare"),
        ("--search --topology v4:2x2x1 --compare", "omit --compare"),
        ("--search --topology v4:2x2x1 --run", "omit --run"),
        ("--search --params", "omit --params"),
    ],
)
def test_forms_exclude_each_other(flags, message, capsys):
    assert main.main(["plan", TINY, *flags.split()]) == 1
    assert message in capsys.readouterr().err


def test_a_model_is_enough_and_a_run_may_stand_before_it(capsys):
    flags = [f"--gin_file=gin_configs/{f}.gin" for f in ("runs/train", "models/tiny")]
    assert main.main(["plan", "--params", *flags]) == 0
    with_run = capsys.readouterr().out
    assert main.main(["plan", "--params", flags[1]]) == 0
    assert capsys.readouterr().out == with_run
