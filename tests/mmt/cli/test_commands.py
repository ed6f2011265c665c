"""Commands refuse flags that do not belong together, before they read anything."""

import pytest

from mmt.cli.main import main


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
