"""`mmt launch`: a command, and each kind of file, in several processes."""

import os
import subprocess
import sys

import pytest

from mmt.cli.main import main
from mmt.launch import jobs
from mmt.run import Run
from tests.helpers.processes import DENSE, FLAGS, ROOT, write_corpus

FILES = sorted((ROOT / "docs/launch").iterdir())


def tasks(command, processes=2, file=None):
    return jobs._tasks(command, file, processes, "/bin")


def test_each_process_gets_its_place():
    first, second = tasks(["train", "--gin_file=x"])
    assert first.command[-2:] == ["train", "--gin_file=x"] and first.command == second.command
    assert (first.environment["JAX_PROCESS_ID"], second.environment["JAX_PROCESS_ID"]) == ("0", "1")
    assert first.environment["JAX_NUM_PROCESSES"] == "2"
    address = first.environment["JAX_COORDINATOR_ADDRESS"]
    assert address.startswith("localhost:") and address == second.environment[
        "JAX_COORDINATOR_ADDRESS"
    ]
    script = ROOT / "docs/launch/tpu_pod.sh"
    assert tasks(["--gin.A=1"], file=script)[1].command == ["bash", str(script), "--gin.A=1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "--processes is missing"),
        (["--processes", "2"], "no command; for example"),
        (["--processes", "0", "train"], "--processes is 0; allowed: 1 or more"),
        (["--file", "nowhere.yaml"], "nowhere.yaml: no such file"),
    ],
)
def test_what_cannot_be_started_is_an_error(arguments, message, capsys, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert main(["launch", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_bindings_belong_to_the_command_that_is_started(monkeypatch):
    seen = []

    def record(arguments, **options):
        seen.append(arguments)
        return 0

    monkeypatch.setattr("mmt.launch.launch", record)
    main(["launch", "--processes", "2", "train", "--gin_file=x", "--gin.A.b=1", "--file=y"])
    main(["launch", "--file", "f", "--", "--gin.A.b=1"])
    assert seen == [["train", "--gin_file=x", "--gin.A.b=1", "--file=y"], ["--gin.A.b=1"]]


@pytest.mark.mesh
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_files_for_clusters_train_here(file, tmp_path):
    pytest.importorskip("seqio", reason="making a cache needs the extra [data]")
    corpus, config, run = write_corpus(tmp_path / "words"), tmp_path / "toy.gin", tmp_path / "run"
    flags = [*DENSE, *FLAGS, f"--gin.CORPUS={corpus}", "--gin.TRAIN_STEPS=4"]
    included = (f.removeprefix("--gin_file=") for f in flags if f.startswith("--gin_file="))
    config.write_text("".join(f"include '{name}'\n" for name in included))
    done = subprocess.run(
        [sys.executable, "-m", "mmt.cli", "launch", "--processes", "2", "--file", str(file), "--",
         *(flag for flag in flags if flag.startswith("--gin."))],
        env=os.environ | {"MMT_DATA": str(tmp_path), "CONFIG": str(config), "RUN": str(run)},
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"0: {run}" in done.stdout.splitlines() or f"0: 0: {run}" in done.stdout.splitlines()
    assert Run(run).checkpoint_steps() == [4]
    assert main(["health", str(run)]) == 0
