"""Runs every measurement that needs no argument, and lists the others with their commands.

    python -m benchmarks [--list]

A benchmark that fails, for example without the demo's model or an optional extra, does not stop
the others; its name and the last line of its errors are repeated at the end, and the exit status is
1. The studies bible100 and mix150 are not measurements of this kind: they have a Makefile target.
"""

import argparse
import ast
import re
import subprocess
import sys
from pathlib import Path

STUDIES = ("bible100", "mix150")
ROOT = Path(__file__).resolve().parents[1]
_OPTIONAL = re.compile(r"\[[^\]]*\]")


def commands() -> dict[str, str]:
    """Returns the arguments of each benchmark that its docstring names, such as '[DIRECTORY]'."""
    usages = {}
    for file in sorted((ROOT / "benchmarks").rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__main__")
        if parts[1] in STUDIES or name == "benchmarks":
            continue
        text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        if usage := re.search(rf"python -m {re.escape(name)}\b(.*)", text):
            usages[name] = usage[1].strip()
    return usages


def needed(arguments: str) -> str:
    """Returns the arguments that are not optional.

    >>> needed("RUN TESTSET [--lines N]"), needed("[RUN] [--seconds 60]")
    ('RUN TESTSET', '')
    """
    return " ".join(_OPTIONAL.sub(" ", arguments).split())


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmarks one after the other; exits with 1 if one failed."""
    parser = argparse.ArgumentParser("python -m benchmarks")
    parser.add_argument("--list", action="store_true", help="print the commands, run nothing")
    listed = parser.parse_args(arguments).list
    usages = commands()
    if listed:
        print("\n".join(f"python -m {name} {usage}".rstrip() for name, usage in usages.items()))
        return
    failures = {}
    for name in (name for name, usage in usages.items() if not needed(usage)):
        print(f"== {name}", flush=True)
        done = subprocess.run([sys.executable, "-m", name], stderr=subprocess.PIPE, text=True)
        if done.returncode:
            failures[name] = (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
            print(f"failed: {failures[name]}", flush=True)
    others = [f"python -m {name} {usage}" for name, usage in usages.items() if needed(usage)]
    print("\n".join(["== need arguments", *others]))
    if failures:
        raise SystemExit("\n".join(["failed:", *(f"{n}: {why}" for n, why in failures.items())]))


if __name__ == "__main__":
    main()
