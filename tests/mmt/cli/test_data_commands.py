"""`mmt data …` as typed: what the corpora hold, and what the commands refuse."""

import json

import pytest

from mmt.cli.main import main


def test_data_commands(toy_corpus, capsys):
    assert main(["data", "languages", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) >= 250 and {"deu_Latn", "swh_Latn"} <= {row["code"] for row in rows}
    assert main(["data", "stats", str(toy_corpus), "--json"]) == 0
    rows = {row["language"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows["deu_Latn"]["train"] == 400 and 0.3 < rows["deu_Latn"]["share"] < 0.5
    assert main(["data", "stats", str(toy_corpus)]) == 0
    assert "swh_Latn" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "expected CORPUS and --out DIR, or --gin_file FILE"),
        (["--gin_file", "x.gin", "--rules", "y.toml"], "belong to CORPUS"),
        (["cldr"], "expected --out DIR, or --explain"),
        (["cldr", "--explain", "a\tb"], "--explain 'SOURCE<TAB>TARGET' --language NAME"),
    ],
)
def test_flags_of_prepare_that_exclude_each_other_are_errors(flags, message, capsys):
    assert main(["data", "prepare", *flags]) == 1
    assert message in capsys.readouterr().err
