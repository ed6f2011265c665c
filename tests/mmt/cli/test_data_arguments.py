"""The commands `mmt data …` and their former names."""

import pytest

from mmt.cli.arguments import parser


@pytest.mark.parametrize(
    ("line", "old"),
    [("data forecast cldr --steps 7", "shares"), ("data consumed runs/mine", "ledger")],
)
def test_the_old_name_of_a_command_means_the_same(line, old):
    _, new, *flags = line.split()
    named, before = (vars(parser().parse_args(["data", name, *flags])) for name in (new, old))
    assert (named.pop("data_command"), before.pop("data_command")) == (new, old)
    assert named == before
