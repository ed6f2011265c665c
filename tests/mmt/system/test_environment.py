"""What a run directory notes of the machine; and how a command gets large pages."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from eval.baselines import stacked
from mmt.cli import main
from mmt.run import Run
from mmt.system import environment

ROOT = Path(__file__).resolve().parents[3]


def test_an_environment_round_trips(tmp_path):
    file = tmp_path / "environment.json"
    assert environment.read(file) is None
    environment.write(file)
    read = environment.read(file)
    assert read == environment.here()
    assert read.devices == environment.cores() and read.device.endswith(" core")
    assert {"python", "jax", "mmt"} <= read.versions.keys()


def test_a_broken_file_is_named(tmp_path):
    file = tmp_path / "environment.json"
    for text in ("{", '{"device": "x"}', "[]", 9999 * "["):
        file.write_text(text)
        with pytest.raises(ValueError, match=r"environment\.json"):
            environment.read(file)


PROGRAM = """
import os, sys
from mmt.system import environment
environment.start_again_with_large_pages()
print(os.getpid(), environment.STARTED_AGAIN in os.environ, environment.here().tunables, *sys.argv)
sys.exit(7)
"""
needs_tunables = pytest.mark.skipif(
    not environment.has_large_page_tunables(), reason="needs glibc 2.35 or later"
)


def started(folder, *command, **variables):
    """The process of a program, which has ended, and the words that it printed."""
    (folder / "program.py").write_text(PROGRAM)
    inherited = {name: value for name, value in os.environ.items() if name != environment.TUNABLES}
    paths = os.pathsep.join([str(folder), str(ROOT)])
    with subprocess.Popen(
        [sys.executable, *command], cwd=folder, env={**inherited, "PYTHONPATH": paths, **variables},
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        words = process.communicate(timeout=300)[0].split()
    return process, words


@needs_tunables
@pytest.mark.parametrize("command", [["-W", "ignore", "program.py"], ["-m", "program"]])
def test_a_program_starts_again_once_as_the_same_process(tmp_path, command):
    process, words = started(tmp_path, *command, "an argument", "--flag")
    assert process.returncode == 7
    assert words[:3] == [str(process.pid), "True", environment.LARGE_PAGES]
    assert words[4:] == ["an", "argument", "--flag"]


@pytest.mark.parametrize("tunables", ["", "glibc.malloc.arena_max=2"])
def test_tunables_of_the_user_are_kept(tmp_path, tunables):
    process, words = started(tmp_path, "program.py", GLIBC_TUNABLES=tunables)
    assert process.returncode == 7
    assert words[:-1] == [str(process.pid), "False", *tunables.split()]


@needs_tunables
def test_a_training_command_trains_with_large_pages(toy_run):
    noted = environment.read(Run(toy_run).environment)
    assert noted is not None
    assert noted.tunables == os.environ.get(environment.TUNABLES, environment.LARGE_PAGES)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("train --gin_file=none.gin", True), ("distill --gin_file=none.gin", True),
        ("baselines --gin_file=none.gin", True), ("report --train none.gin", True),
        ("report none.jsonl --out report", False), ("translate --model none", False),
    ],
)  # fmt: skip
def test_which_commands_start_again(monkeypatch, line, expected, tmp_path):
    calls = []
    monkeypatch.setattr(environment, "start_again_with_large_pages", lambda: calls.append(line))
    monkeypatch.setenv("MMT_DATA", str(tmp_path))
    monkeypatch.setattr(main, "_cache_programs", lambda: None)
    monkeypatch.setattr(stacked, "one_device_per_core", lambda: None)  # for a process of its own
    monkeypatch.setattr(sys, "argv", ["mmt", *line.split()])
    assert main.main() == 1  # there are no such files
    assert calls == [line] * expected
    assert main.main(line.split()) == 1  # called by a program, which would be started again
    assert calls == [line] * expected


def test_a_plan_says_whether_there_are_large_pages(monkeypatch):
    monkeypatch.setenv(environment.TUNABLES, "glibc.malloc.hugetlb=0")
    assert "GLIBC_TUNABLES='glibc.malloc.hugetlb=0'" in environment.large_pages()
    monkeypatch.delenv(environment.TUNABLES)
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.34")
    assert environment.large_pages() == "no: they need Linux with glibc 2.35 or later"
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.36.9000")
    assert environment.large_pages().startswith(("yes: ", "no: turned off in the kernel"))
    monkeypatch.setattr(os, "confstr", lambda name: None)
    assert environment.large_pages().startswith("no: they need")


def test_the_target_platform_is_that_of_the_mesh():
    """A plan compiles for devices that are not present."""
    assert environment.target_platform() == jax.default_backend()
    kinds = {"tpu": "TPU v5 lite", "cpu": "cpu"}
    for platform, kind in kinds.items():
        device = jax.sharding.AbstractDevice(kind, None, platform)
        mesh = jax.sharding.AbstractMesh((1,), ("data",), abstract_device=device)
        with jax.sharding.use_abstract_mesh(mesh):
            assert environment.target_platform() == platform
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((2,), ("data",))):
        assert environment.target_platform() == jax.default_backend()
