"""Every file of benchmarks/ can be imported and run as its docstring says."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import benchmarks.__main__ as runner
from benchmarks.data import pipeline

ROOT = Path(__file__).resolve().parents[2]
HELPERS = {  # imported by others
    "benchmarks.faulty_run", "benchmarks.goodput.forecasts", "benchmarks.goodput.formulas",
    "benchmarks.goodput.killed_runs", "benchmarks.goodput.launched_runs",
    "benchmarks.header", "benchmarks.packs",
    "benchmarks.scale.curves", "benchmarks.scale.made_up", "benchmarks.scale.costs",
    "benchmarks.serving.clients", "benchmarks.translate.lines", "benchmarks.watch.made_up_run",
}  # fmt: skip
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for path in sorted((ROOT / "benchmarks").rglob("*.py"))
    if path.name != "__init__.py"
}
BENCHMARKS = sorted(FILES.keys() - HELPERS)


@pytest.mark.parametrize("name", FILES)
def test_it_imports_without_the_optional_extras(name, monkeypatch):
    for heavy in ("ctranslate2", "seqio", "t5x", "tensorflow", "torch", "transformers"):
        monkeypatch.setitem(sys.modules, heavy, None)  # an import raises ImportError
    assert importlib.import_module(name).__doc__


@pytest.mark.parametrize("name", BENCHMARKS)
def test_it_names_its_command_and_runs_main(name):
    tree = ast.parse(FILES[name].read_text(encoding="utf-8"))
    assert f"python -m {name.removesuffix('.__main__')}" in (ast.get_docstring(tree) or "")
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert "main" in functions and ast.get_docstring(functions["main"])
    entry = tree.body[-1]
    assert isinstance(entry, ast.If) and ast.unparse(entry.test) == "__name__ == '__main__'"
    called = [node.func for node in ast.walk(entry) if isinstance(node, ast.Call)]
    assert "main" in {node.id for node in called if isinstance(node, ast.Name)}


def test_a_helper_is_imported_by_a_benchmark():
    imported = {
        f"{node.module}.{name.name}" if form == "module" else node.module
        for path in map(FILES.get, BENCHMARKS)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        for form in ("module", "name")
    }
    assert imported >= HELPERS


def test_the_runner_runs_those_without_arguments_and_names_the_others(monkeypatch, capsys):
    usages = {"benchmarks.a": "[DIRECTORY]", "benchmarks.b": "DATA [N]", "benchmarks.c": ""}
    monkeypatch.setattr(runner, "commands", lambda: usages)
    ran = []

    def run(command, **_):
        ran.append(command[-1])
        failed = command[-1] == "benchmarks.a"
        return subprocess.CompletedProcess(command, int(failed), stderr="x\nno run\n" * failed)

    monkeypatch.setattr(runner.subprocess, "run", run)
    with pytest.raises(SystemExit, match=r"failed:\nbenchmarks.a: no run"):
        runner.main([])
    assert ran == ["benchmarks.a", "benchmarks.c"]
    assert capsys.readouterr().out.endswith("python -m benchmarks.b DATA [N]\n")


def test_the_runner_knows_every_benchmark():
    names = {name.removesuffix(".__main__") for name in BENCHMARKS}
    studies = {name for name in names if name.split(".")[1:2] in (["bible100"], ["mix150"])}
    assert runner.commands().keys() == names - studies - {"benchmarks"}


def test_the_data_pipeline_is_measured_on_made_up_lines(monkeypatch, capsys):
    monkeypatch.setattr(pipeline, "TOTAL", 5000)
    assert pipeline.main(4, 3000) in (0, 1)  # of few lines, a limit may be exceeded
    assert "2 workers" in capsys.readouterr().out
