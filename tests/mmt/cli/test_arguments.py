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


@pytest.mark.parametrize(
    ("line", "old"),
    [("data forecast cldr --steps 7", "shares"), ("data consumed runs/mine", "ledger")],
)
def test_the_old_name_of_a_command_means_the_same(line, old):
    _, new, *flags = line.split()
    named, before = (vars(parser().parse_args(["data", name, *flags])) for name in (new, old))
    assert (named.pop("data_command"), before.pop("data_command")) == (new, old)
    assert named == before


def test_an_unknown_command_is_an_error_with_the_known_ones(capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["trian"])
    assert "train" in capsys.readouterr().err
