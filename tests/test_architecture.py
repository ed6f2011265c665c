"""The house rules that a machine can check: arrows, single doors, no cycles, sizes."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("mmt", "tasks", "eval")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in FILES
}

# Who may import a heavy library: the one door (a prefix of module names).
DOORS = {
    "gin": {"mmt.config"},
    "orbax": {"mmt.checkpoint", "mmt.piecewise"},
    "seqio": {"tasks"},
    "tensorflow": {"tasks"},
    "tensorflow_datasets": {"tasks"},
    "t5x": {"mmt.t5x_adapter"},
    "tensorstore": {"mmt.piecewise", "mmt.convert.t5x"},
    "torch": set(),
    "transformers": set(),
    "safetensors": {"mmt.convert.tensors"},
    "ctranslate2": {"mmt.convert.ctranslate2"},
    "sentencepiece": {"mmt.data.vocab"},
    "sacrebleu": {"eval.metrics", "eval.testsets", "tasks"},
    "babel": {"mmt.data"},
    "matplotlib": {"eval"},
    "py3langid": {"mmt.data.identify"},
    "fasttext": {"mmt.data.identify"},
    "ftfy": {"mmt.data.rules"},
    "datasketch": {"mmt.data.rules_between"},
}

# Leaves: any module may import them; they import nothing of the house but leaves.
LEAVES = {"mmt.checked", "mmt.progress", "mmt.suggest"}

# What a module (a prefix of names) may import of the house; anything else is an arrow too many.
# cli is the one that may reach everything, lazily.
MAY_IMPORT = {
    **{leaf: set() for leaf in LEAVES},
    "mmt.languages": set(),
    "mmt.data": {"mmt.data", "mmt.languages"},
    "mmt.model.layers": set(),
    "mmt.model.routing": set(),
    "mmt.model.dispatch": {"mmt.model.routing"},
    "mmt.model.moe": {"mmt.model.layers", "mmt.model.routing", "mmt.model.dispatch"},
    "mmt.model.config": {"mmt.model.layers", "mmt.model.moe"},
    "mmt.model.stack": {"mmt.model.layers", "mmt.model.moe", "mmt.model.config"},
    "mmt.model.transformer": {"mmt.model.layers", "mmt.model.config", "mmt.model.stack"},
    "mmt.convert.flat": {"mmt.model"},
    "mmt.convert.names": {"mmt.model", "mmt.convert.flat"},
    "mmt.convert.hf_config": {"mmt.model"},
    "mmt.convert.tensors": set(),
    "mmt.convert.tokenizer": {"mmt.data.vocab"},
    "mmt.convert.hf": {"mmt.convert", "mmt.model", "mmt.data", "mmt.checkpoint", "mmt.config"},
    "mmt.convert.ctranslate2": {"mmt.convert.hf", "mmt.convert.tokenizer", "mmt.data.vocab",
                                "mmt.config"},
    "mmt.convert.t5x": {"mmt.convert", "mmt.model", "mmt.data", "mmt.checkpoint", "mmt.config"},
    "mmt.t5x_adapter": {"mmt.model", "mmt.losses"},
    "mmt.sharding": set(),
    "mmt.losses": {"mmt.metrics"},
    "mmt.sampling": set(),
    "mmt.decode": {"mmt.sampling"},
    "mmt.decoding": {"mmt.decode"},
    "mmt.tiles": {"mmt.model", "mmt.decode", "mmt.decoding", "mmt.sharding"},
    "mmt.integrity": set(),
    "mmt.steps": set(),
    "mmt.lock": {"mmt.distributed"},
    "mmt.piecewise": set(),
    "mmt.checkpoint": {"mmt.distributed", "mmt.integrity", "mmt.piecewise", "mmt.steps"},
    "mmt.distributed": set(),
    "mmt.metrics": {"mmt.distributed"},
    "mmt.optimizer": set(),
    "mmt.config": {"mmt.model.transformer"},
    "mmt.state": {"mmt.checkpoint", "mmt.distributed"},
    "mmt.initial": {"mmt.model", "mmt.sharding", "mmt.checkpoint", "mmt.config",
                    "mmt.convert.flat"},
    "mmt.program": {"mmt.model", "mmt.sharding", "mmt.losses", "mmt.metrics", "mmt.optimizer",
                    "mmt.state", "mmt.initial"},
    "mmt.train": {"mmt.program", "mmt.checkpoint", "mmt.metrics", "mmt.state", "mmt.initial",
                  "mmt.distributed", "mmt.lock"},
    "mmt.resumable": {"mmt.data", "mmt.lock"},
    "mmt.distill": {"mmt.program", "mmt.model", "mmt.sharding", "mmt.checkpoint", "mmt.config",
                    "mmt.initial", "mmt.translate", "mmt.decoding", "mmt.data", "mmt.lock",
                    "mmt.resumable"},
    "mmt.back_translation": {"mmt.translate", "mmt.decoding", "mmt.data", "mmt.languages",
                             "mmt.lock", "mmt.integrity", "mmt.resumable"},
    "mmt.hooks": {"mmt.train", "mmt.distributed", "mmt.metrics"},
    "mmt.stacked": {"mmt.environment", "mmt.metrics", "mmt.program", "mmt.sharding", "mmt.state"},
    "mmt.side_by_side": {"mmt.checkpoint", "mmt.hooks", "mmt.metrics", "mmt.program", "mmt.stacked",
                         "mmt.state", "mmt.train"},
    "mmt.parameters": {"mmt.model", "mmt.convert.flat"},
    "mmt.topology": set(),
    "mmt.collectives": set(),
    "mmt.flops": set(),
    "mmt.ahead": {"mmt.collectives", "mmt.config", "mmt.decoding", "mmt.flops", "mmt.model",
                  "mmt.parameters", "mmt.program", "mmt.sharding", "mmt.tiles", "mmt.topology"},
    "mmt.plan": {"mmt.collectives", "mmt.parameters", "mmt.topology"},
    "mmt.translate": {
        "mmt.model", "mmt.checkpoint", "mmt.config", "mmt.languages", "mmt.data", "mmt.sentences",
        "mmt.decoding", "mmt.tiles", "mmt.sharding",
    },
    "tasks": {"tasks", "mmt.data", "mmt.languages"},
    "eval.baselines": {"eval", "mmt"},
    "eval.tuning": {"eval", "mmt"},
    "eval": {"eval", "mmt.translate", "mmt.languages", "mmt.data", "mmt.checkpoint", "mmt.hooks",
             "mmt.train", "mmt.config", "mmt.decoding", "mmt.distributed", "mmt.environment",
             "mmt.metrics", "mmt.parameters"},
    "mmt.foresight": {"mmt.data", "mmt.config"},
    "mmt.environment": set(),
    "mmt.arguments": set(),
    "mmt.cli": {"mmt", "tasks", "eval"},
    "mmt.cli_data": {"mmt", "tasks", "eval"},
}  # fmt: skip


def imports(path: Path) -> list[tuple[str, bool]]:
    """(module, whether at the top level of the file) of every import in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = set(map(id, tree.body))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(name.name, id(node) in top) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            base = node.module or ""
            for name in node.names:
                full = f"{base}.{name.name}"
                found.append((full if full in MODULES else base, id(node) in top))
    return found


def within(module: str, prefixes: set[str]) -> bool:
    return any(module == prefix or module.startswith(prefix + ".") for prefix in prefixes)


@pytest.mark.parametrize("name", MODULES)
def test_arrows_and_doors(name):
    for module, _ in imports(MODULES[name]):
        top = module.split(".")[0]
        if top in DOORS:
            assert within(name, DOORS[top]), f"{name} imports {module}; its door is {DOORS[top]}"
        if top in PACKAGES and module in MODULES and module not in PACKAGES:
            rule = max(
                (prefix for prefix in MAY_IMPORT if within(name, {prefix})), key=len, default=None
            )
            assert rule, f"{name}: say in MAY_IMPORT what it may import"
            assert within(module, MAY_IMPORT[rule] | LEAVES), f"{name} may not import {module}"


def test_model_and_data_never_meet():
    for name, path in MODULES.items():
        used = [module for module, _ in imports(path)]
        if name.startswith("mmt.model"):
            assert not within("mmt.data", {m for m in used if m.startswith("mmt.data")}), name
            assert not [m for m in used if m.startswith("mmt.data")], name
        if name.startswith("mmt.data"):
            assert not [m for m in used if m.startswith("mmt.model")], name


def test_no_import_cycles():
    graph = {
        name: {m for m, top in imports(path) if top and m in MODULES and m not in PACKAGES}
        for name, path in MODULES.items()
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, f"cycle: {' -> '.join((*trail[trail.index(name):], name))}"
        if name not in done:
            for other in graph[name]:
                visit(other, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sizes(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400, "a file of over 400 lines: is there a deeper cut?"
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "no docstring says what the file is for"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            length = node.end_lineno - node.lineno + 1
            assert length <= 60, f"{node.name} has {length} lines"


def test_every_file_has_its_test():
    names = {path.stem for path in (ROOT / "tests").glob("test_*.py")}
    for package, prefixes in (("mmt", ("",)), ("eval", ("", "eval_"))):
        for path in (ROOT / package).rglob("*.py"):
            if path.stem != "__init__":
                assert any(f"test_{prefix}{path.stem}" in names for prefix in prefixes), path


@pytest.mark.parametrize("forbidden", ["jax", "tensorflow", "torch", "gin"])
def test_importing_mmt_is_light(forbidden):
    code = f"import mmt, mmt.cli, sys; sys.exit({forbidden!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_training_and_translating_need_no_tensorflow():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['tensorflow', 'seqio', 'torch']));"
        "import mmt.train, mmt.hooks, mmt.translate, mmt.data.pipeline, mmt.config;"
        "from eval import evaluate, report, baselines"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_command_line_options_are_counted():
    """A new knob is a gin binding, not a flag; whoever adds a flag says so here."""
    from mmt.cli.arguments import parser

    def count(parser) -> int:
        total = 0
        for action in parser._actions:
            if hasattr(action, "choices") and isinstance(action.choices, dict):
                total += sum(map(count, action.choices.values()))
            elif action.option_strings and "--help" not in action.option_strings:
                total += 1
        return total

    assert count(parser()) == 54
