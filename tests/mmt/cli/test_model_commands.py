"""Flags of `mmt extract` and `mmt import` that do not belong together are refused."""

from pathlib import Path

import pytest

from mmt.cli.main import main

OLD = Path(__file__).resolve().parents[2] / "data/old_run"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"extract --model {OLD}/toy --languages= --out o", "does not route by language"),
        (f"extract --model {OLD}/toy --pieces x --experts 2 --out o", "--experts belongs to"),
        (f"extract --model {OLD}/toy --pieces x --corpus c --out o", "--corpus belongs to"),
        (f"extract --model {OLD}/toy --languages deu --gin.Pruning.lines=3 --out o", "lines=3 bel"),
        (f"extract --model {OLD}/toy --pieces x --gin.Pruning.lines=3 --out o", "lines=3 bel"),
        ("import hf folder --out x --vocabulary v.model", "contains its vocabulary"),
    ],
)
def test_flags_that_do_not_belong_together_are_refused(line, message, capsys):
    assert main(line.split()) == 1
    assert message in capsys.readouterr().err
