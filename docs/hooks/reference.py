"""MkDocs hook: generates the reference pages from the parser and the gin files at build time.

`<!-- generated: NAME -->` in a page is replaced by the text that the function of that name returns.
Docstrings are rendered by mkdocstrings: generated text contains its `::: path.to.name` blocks.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmt.arguments import parser

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "gin_configs"
PACKAGES = ("mmt", "eval", "tasks")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Returns the page with every marker replaced; MkDocs calls it for each page."""
    return re.sub(
        r"^<!-- generated: (\w+) -->$", lambda m: GENERATORS[m[1]](), markdown, flags=re.M
    )


def commands() -> str:
    """Returns a section for each command: usage, description, table of arguments."""
    return "\n".join(_command(parser(), level=2))


def _command(of: argparse.ArgumentParser, level: int, about: str = "") -> Iterator[str]:
    nested = [a for a in of._actions if isinstance(a, argparse._SubParsersAction)]
    if not nested:
        yield from (f"{'#' * level} {of.prog}", "", f"{about[:1].upper()}{about[1:]}.", "")
        yield from ("```text", _usage(of), "```", "")
        yield from _arguments(of)
        if of.epilog:
            yield from (_code(of.epilog), "")
    for action in nested:
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        aliases: dict[argparse.ArgumentParser, list[str]] = {}
        for name, child in action.choices.items():
            aliases.setdefault(child, []).append(name)
        for child, (name, *others) in aliases.items():
            also = f" (old name: `{'`, `'.join(others)}`)" if others else ""
            yield from _command(child, level + (of.prog != "mmt"), helps[name] + also)


def _usage(of: argparse.ArgumentParser) -> str:
    return of.format_usage().removeprefix("usage: ").rstrip()


def _arguments(of: argparse.ArgumentParser) -> Iterator[str]:
    rows = [action for action in of._actions if action.dest != "help"]
    if not rows:
        return
    yield from ("| argument | meaning |", "|---|---|")
    for action in rows:
        names = ", ".join(action.option_strings)
        value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
        if action.choices:
            value = "{" + ",".join(map(str, action.choices)) + "}"
        shown = f"{names} {value}".strip() if names else f"{value}"
        required = " Required." if action.required and names else ""
        yield f"| `{shown.replace('|', chr(92) + '|')}` | {_cell(action.help or '')}{required} |"
    yield ""


def macros() -> str:
    """Returns a section for each file of gin_configs/runs: its header and a table of its macros."""
    return "\n".join(line for file in _configs("runs") for line in _run_file(file))


def _run_file(file: Path) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    about, command = _header(text)
    yield from (f"### runs/{file.name}", "", about, "")
    if command.startswith("mmt "):
        yield from ("```text", command, "```", "")
    rows = re.findall(r"^([A-Z][A-Z_]+) = ([^#\n]*?) *(?:# *(.*))?$", text, re.M)
    if rows:
        yield from ("| macro | default | meaning |", "|---|---|---|")
        for name, value, comment in rows:
            value = "required" if value == "%gin.REQUIRED" else f"`{value}`"
            yield f"| `{name}` | {value} | {_cell(comment or MACROS.get(name, ''))} |"
        yield ""


def files() -> str:
    """Returns a table for each other folder of gin_configs: files and their headers."""
    lines = []
    for folder in ("models", "meshes", "examples"):
        lines += [f"### {folder}", "", "| file | content |", "|---|---|"]
        for file in _configs(folder):
            about, _ = _header(file.read_text(encoding="utf-8"))
            lines.append(f"| `{file.name}` | {_cell(about.split(' Hardware:')[0])} |")
        lines.append("")
    return "\n".join(lines)


def bindings() -> str:
    """Returns an mkdocstrings block for each name of this project that a gin file binds."""
    return "\n\n".join(f"::: {name}" for name in sorted(_bound()))


def _bound() -> set[str]:
    names = set()
    for folder in ("runs", "examples", "models", "meshes"):
        for file in _configs(folder):
            text = re.sub(r"#.*|'[^']*'", "", file.read_text(encoding="utf-8"))
            imported = re.findall(r"^from ([\w.]+) import (\w+)$", text, re.M)
            modules = {module: f"{package}.{module}" for package, module in imported}
            for module, name in re.findall(r"(?:^|[@/ ])(\w+)\.([A-Za-z]\w*)", text, re.M):
                if module in modules and modules[module].split(".")[0] in PACKAGES:
                    names.add(f"{modules[module]}.{name}")
    return names


def _configs(folder: str) -> list[Path]:
    return sorted((CONFIGS / folder).glob("*.gin"))


def _header(text: str) -> tuple[str, str]:
    """Returns what the comment at the top of a gin file says, and the command that it names."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# "))
    about, _, command = " ".join(lines).partition("Command: ")
    return _escaped(about.strip()), command.strip()


def _cell(text: str) -> str:
    return _code(text).replace("|", "\\|")


def _code(text: str) -> str:
    return re.sub(r"(?<!`)(--gin[\w.]*(?:=\w+)?)", r"`\1`", _escaped(text))


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")


MACROS = {
    "MODEL_DIR": "run directory",
    "MIXTURE_OR_TASK_NAME": "SeqIO mixture or task, for example `my_corpus_to_eng`",
    "MIXTURE_OR_TASK_MODULE": "Python module that registers the mixture when it is imported",
    "CORPUS": "corpus folder, or `cldr` (the embedded corpus)",
    "TRAIN_STEPS": "training steps of the whole run",
    "VOCABULARY_FROM": "run directory or cache whose vocabulary is used",
    "TASK_FEATURE_LENGTHS": "tokens in a row of the batch, source and target",
    "BATCH_SIZE": "rows in a batch",
    "TEMPERATURE": "temperature T of the mixture: p ∝ n^(1/T)",
    "CHECKPOINT_PERIOD": "steps between checkpoints",
    "EVAL_PERIOD": "steps between validations",
    "SEED": "seed of parameters, dropout and data order",
    "CACHE_DIR": "token cache; default: below `$MMT_DATA/caches`",
    "OPTIMIZER": "an optax optimizer",
    "RESULTS": "results file that gets the rows",
    "TESTSET": "test set that the baselines are evaluated on",
    "BASELINE_LANGUAGES": "number of languages (spread by size), or a list of names",
    "BASELINE_EPOCHS": "maximum passes over the pairs of a language",
    "BASELINE_BATCH_SIZE": "rows in a batch of one baseline",
    "TEACHER_DIR": "run directory of the teacher",
    "TEACHER_CORPUS": "corpus whose training sources the teacher translates",
    "TEACHER_PAIRS": "sources translated per language; 0: all",
    "REFERENCES": "whether the pairs of the corpus itself are added",
    "INITIAL_MODEL_DIR": "run directory whose parameters training starts from",
    "NUM_EXPERTS": "experts in a mixture-of-experts layer",
    "MONOLINGUAL": "fraction of the examples made from monolingual text",
    "PREFIX_LM": "fraction of the monolingual lines used for prefix language modelling",
    "TOKENS": "source tokens of the whole training that `mmt plan` computes with",
}
GENERATORS = {"commands": commands, "macros": macros, "files": files, "bindings": bindings}
