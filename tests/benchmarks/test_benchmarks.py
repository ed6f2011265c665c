"""Every file of benchmarks/ can be imported and run as its docstring says."""

import ast
import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HELPERS = {  # imported by others
    "benchmarks.faulty_run", "benchmarks.goodput.forecasts", "benchmarks.goodput.formulas",
    "benchmarks.goodput.killed_runs", "benchmarks.header", "benchmarks.packs",
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
    texts = [FILES[name].read_text(encoding="utf-8") for name in BENCHMARKS]
    for helper in HELPERS:
        package, _, module = helper.rpartition(".")
        forms = f"from {helper} import", f"from {package} import {module}"
        assert any(form in text for form in forms for text in texts), helper
