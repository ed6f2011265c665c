"""Bindings as text: what a run's configuration says, without importing what it names."""

import subprocess
import sys
from pathlib import Path

import pytest

from mmt import config

OLD = Path(__file__).resolve().parents[2] / "data/old_run"


def test_it_reads_what_gin_reads():
    file = OLD / "toy/config.gin"
    written = config.written(file)
    known = dict(statement.split(" = ", 1) for statement in config.statements(str(file)))
    assert {name.rpartition(".")[2] for name in written} == {
        name.rpartition(".")[2] for name in known
    }
    assert written["BATCH_SIZE"].value == known["BATCH_SIZE"] == "8"
    assert written["transformer.Config.dropout_rate"] == ("%DROPOUT_RATE", "0.1")


def test_it_needs_no_module_that_the_file_names(tmp_path):
    file = tmp_path / "config.gin"
    file.write_text(
        "from __gin__ import dynamic_registration\nfrom no.such import module\n"
        "SIZE = 3\nSIZES = [%SIZE, {'a': %SIZE}]\nLOOP = %LOOP\n"
        "module.f.part = @scope/module.Part()\nscope/a.b.module.Part.open = %OPEN\n"
    )
    assert config.written(file) == {
        "SIZE": ("3", "3"),
        "SIZES": ("[%SIZE, {'a': %SIZE}]", "[3, {'a': 3}]"),
        "LOOP": ("%LOOP", "%LOOP"),
        "module.f.part": ("@scope/module.Part()", "@scope/module.Part()"),
        "scope/module.Part.open": ("%OPEN", "%OPEN"),
    }
    code = "import sys; from mmt import config; config.written(__import__('pathlib').Path({!r}));"
    code += "sys.exit('jax' in sys.modules)"
    command = [sys.executable, "-c", code.format(str(OLD / "toy/config.gin"))]
    assert subprocess.run(command, check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A = 1\nB = half a line", "config.gin:2: "),
        ("A = [1,\n", "config.gin: line 2: "),
        ("include 'other.gin'\n", "line 1: expected no include"),
        ("A = '\udce4'\n", "is not UTF-8"),
    ],
)
def test_a_fault_names_the_place(text, message, tmp_path):
    file = tmp_path / "config.gin"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=message):
        config.written(file)
