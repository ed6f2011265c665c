"""The flags of commands that convert and change models."""

import pytest

from mmt.cli.arguments import parser


@pytest.mark.parametrize("command", ["import", "export", "extract", "extend"])
def test_a_command_writes_a_new_directory(command, capsys):
    with pytest.raises(SystemExit):
        parser().parse_args([command, "--help"])
    assert "--out DIR" in capsys.readouterr().out


def test_extract_takes_languages_or_pieces():
    line = "extract --model RUN --languages de --pieces CORPUS --out DIR"
    with pytest.raises(SystemExit):
        parser().parse_args(line.split())
