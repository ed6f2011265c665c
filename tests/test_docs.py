"""The site: it builds without a warning, and the reference is complete."""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mmt.cli.arguments import parser

ROOT = Path(__file__).resolve().parent.parent


def hook(name: str):
    """A module of docs/hooks."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/hooks/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def flags(of: argparse.ArgumentParser) -> set[str]:
    """The spellings of all options of all commands."""
    spellings = {spelling for action in of._actions for spelling in action.option_strings}
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            spellings |= set().union(*map(flags, action.choices.values()))
    return spellings - {"-h", "--help"}


def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="the site needs the extra [docs]")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and not done.stderr, done.stderr
    pages = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.html")}
    assert len(pages) >= 25
    for path, text in pages.items():  # it can be read where there is no network
        loaded = re.findall(r"(?:src|href)=\"(?:https?:)?//[^\"]*\.(?:js|css|woff2?)\"", text)
        assert not loaded, f"{path}: {loaded}"
    bindings = pages[Path("reference/gin.html")]
    for name in ("mmt.train.train", "mmt.train.Trainer", "mmt.hooks.EarlyStop", "eval.study.Study"):
        assert f'id="{name}"' in bindings, name
    for old_name in ("lanes", "skips", "returns"):  # only old configs use them
        assert f'<span class="n">{old_name}</span>' not in bindings, old_name
        assert f"<strong>{old_name}</strong>" not in bindings, old_name


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_outside_the_site_have_targets(page):
    for link in re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text(encoding="utf-8")):
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_the_reference_has_every_flag_and_every_macro():
    reference = hook("reference")
    commands, macros = reference.commands(), reference.macros()
    assert all(flag in commands for flag in flags(parser()))
    for file in (ROOT / "gin_configs/runs").glob("*.gin"):
        assert f"runs/{file.name}" in macros
        for name in re.findall(r"^([A-Z][A-Z_]+) = ", file.read_text(), re.M):
            assert f"| `{name}` |" in macros
    assert "|  |" not in macros  # each has a meaning: a comment in one of the files


def test_the_quickstart_has_every_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    section = (ROOT / "docs/quickstart.md").read_text().split("| extra |")[1].split("## Demo")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert named == set(project["optional-dependencies"])


def test_docstrings_become_markdown():
    text = "Adds.\n\nleft: one.\n  right: no field, it is indented.\n>>> add(1, 1)\n2\n\nEnd."
    assert hook("docstrings").markdown(text, {"left"}) == (
        "Adds.\n\n* **left**: one.\n    right: no field, it is indented.\n\n"
        "```pycon\n>>> add(1, 1)\n2\n```\n\nEnd."
    )


def test_comments_at_fields_are_a_list():
    source = [
        "class Config:", "    # in training;", "    # 0: none", "    rate: float = 0.0",
        "    size: int = 8  # rows", "    plain: int = 1", "    # of f", "    def f(self):",
    ]  # fmt: skip
    assert hook("docstrings").field_comments(source) == [
        "* **rate**: in training; 0: none", "* **size**: rows",
    ]  # fmt: skip


def test_headers_of_gin_files_have_labels():
    assert "Hardware," not in hook("reference").files()
    assert "\nmmt plan reads" not in hook("reference").macros()
