"""The grammar of the command line: every command is one that `mmt.cli` has."""

import argparse

import pytest

from mmt.cli import main
from mmt.cli.arguments import parser


def runs(of: argparse.ArgumentParser) -> set[str]:
    """The `run` of every command."""
    found = {of.get_default("run")}
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= set().union(*map(runs, action.choices.values()))
    return found - {None}


def test_every_command_is_one_that_runs():
    assert runs(parser()) == set(main._COMMANDS)


def test_an_unknown_command_names_those_there_are(capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["trian"])
    assert "train" in capsys.readouterr().err
