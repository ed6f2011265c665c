"""The grammar of the command line: every command has an implementation in `mmt.cli`."""

import argparse

import pytest

from mmt.cli import commands
from mmt.cli.arguments import parser


def runs(of: argparse.ArgumentParser) -> set[str]:
    """The `run` of every command."""
    names = {of.get_default("run")}
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            names |= set().union(*map(runs, action.choices.values()))
    return names - {None}


def test_every_command_has_an_implementation():
    assert runs(parser()) == set(commands.COMMANDS)


def test_an_unknown_command_is_an_error_with_the_known_ones(capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["trian"])
    assert "train" in capsys.readouterr().err
