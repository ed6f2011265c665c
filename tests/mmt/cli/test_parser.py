"""Errors of the command line: the subcommand's usage, the nearest name, gin's prefix."""

import pytest

from mmt.cli.arguments import parser


@pytest.mark.parametrize(
    ("line", "usage", "message"),
    [
        ("trian", "usage: mmt [-h]", "no 'trian'; nearest: train; allowed: train, distill"),
        ("data forcast", "usage: mmt data [-h]", "no 'forcast'; nearest: forecast"),
        ("train --TRAIN_STEPS=5", "usage: mmt train", "write --gin.TRAIN_STEPS=5"),
        ("train --gin_file=a.gin --train.Trainer.seed=1", "usage: mmt train",
         "write --gin.train.Trainer.seed=1"),
        ("translate --model m --bam 4", "usage: mmt translate", "--bam 4; nearest: --beam"),
        ("evaluate --model m", "usage: mmt evaluate", "required: --testset"),
    ],
)  # fmt: skip
def test_an_error_is_of_the_subcommand_and_names_the_nearest(line, usage, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        parser().parse_args(line.split())
    written = capsys.readouterr().err
    assert stopped.value.code == 2
    assert written.startswith(usage)
    assert message in written


def test_the_version_is_that_of_the_package(capsys):
    import importlib.metadata

    with pytest.raises(SystemExit) as stopped:
        parser().parse_args(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"mmt {importlib.metadata.version('mmt')}\n"


def test_commands_run_where_the_package_is_not_installed(monkeypatch, capsys):
    """Such as a checkout on a machine that installs nothing."""
    import importlib.metadata

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert parser().parse_args(["train", "--gin_file=x"]).run == "train"
    with pytest.raises(SystemExit):
        parser().parse_args(["--version"])
    assert "mmt is not installed" in capsys.readouterr().err
