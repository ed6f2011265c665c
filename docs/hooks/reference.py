"""MkDocs hook: generates the reference pages from the parser and the gin files at build time.

`<!-- generated: NAME -->` in a page is replaced by the text that the function of that name returns.
Docstrings are rendered by mkdocstrings: generated text contains its `::: path.to.name` blocks.
"""

import argparse
import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmt.cli.arguments import parser
from mmt.data.cleaning import rulebook

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "gin_configs"
PACKAGES = ("mmt", "eval", "tasks")
_LABEL = re.compile(  # of a header
    r" *\b(Hardware(?:, Time)?(?: and (?:time|score))?|Time(?: and score)?|Score):"
)

_BOUND_BY_USERS = (  # by no file of gin_configs
    "eval.study.Study", "mmt.distributed.start", "mmt.hooks.EarlyStop",
    "mmt.translate.back_translation.BackTranslation", "mmt.identify.IdentifierConfig",
    "eval.calibration.calibrate", "eval.behave.suite.Suite",
)  # fmt: skip


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Returns the page with every marker replaced; MkDocs calls it for each page."""
    return re.sub(
        r"^<!-- generated: (\w+) -->$", lambda m: GENERATORS[m[1]](), markdown, flags=re.M
    )


def commands() -> str:
    """Returns a section for each command: usage, description, table of arguments."""
    return "\n".join(_command(parser()))


def _command(of: argparse.ArgumentParser, about: str = "") -> Iterator[str]:
    nested = [a for a in of._actions if isinstance(a, argparse._SubParsersAction)]
    arguments = list(_arguments(of))
    if not nested or arguments:
        yield from (f"## {of.prog}", "", _sentence(about or of.description or ""), "")
        yield from ("```text", _usage(of), "```", "")
        yield from arguments
        if of.epilog:
            yield from (_code(of.epilog), "")
    for action in nested:
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        aliases: dict[argparse.ArgumentParser, list[str]] = {}
        for name, child in action.choices.items():
            aliases.setdefault(child, []).append(name)
        for child, (name, *others) in aliases.items():
            also = f" (old name: `{'`, `'.join(others)}`)" if others else ""
            yield from _command(child, helps[name] + also)


def _usage(of: argparse.ArgumentParser) -> str:
    of.formatter_class = functools.partial(argparse.HelpFormatter, width=88)
    return of.format_usage().removeprefix("usage: ").replace("\n       ", "\n").rstrip()


def _arguments(of: argparse.ArgumentParser) -> Iterator[str]:
    other = argparse._SubParsersAction, argparse._HelpAction
    rows = [action for action in of._actions if not isinstance(action, other)]
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
        yield f"| `{shown}` | {_sentence(action.help or '')}{required} |"
    yield ""


def macros() -> str:
    """Returns a section for each file that sets macros of its own: header and table of macros."""
    return "\n".join(line for file in _with_macros() for line in _section(file))


def _with_macros() -> list[Path]:
    return [*_configs("runs"), CONFIGS / "models" / "base.gin"]


def _section(file: Path) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    about, command = _header(text)
    yield from (f"### {file.parent.name}/{file.name}", "", _LABEL.sub(r"\n\n**\1**:", about), "")
    if command.startswith("mmt ") and ";" not in command:  # no sentence
        yield from ("```text", command.replace(" --", " \\\n  --"), "```", "")
    if rows := _macros(text):
        yield from ("| macro | default | meaning |", "|---|---|---|")
        meanings = _meanings()
        for name, value, comment in rows:
            value = "required" if value == "%gin.REQUIRED" else f"`{value}`"
            yield f"| `{name}` | {value} | {_sentence(comment or meanings[name])} |"
        yield ""


def _macros(text: str) -> list[tuple[str, str, str]]:
    """Returns (macro, value, comment) of every macro that the text of a gin file sets."""
    return re.findall(r"^([A-Z][A-Z_]+) = ([^#\n]*?) *(?:# *(.*))?$", text, re.M)


def _meanings() -> dict[str, str]:
    """Returns the comment of each macro, from whichever file has one."""
    texts = [file.read_text(encoding="utf-8") for file in _with_macros()]
    return {name: comment for text in texts for name, _, comment in _macros(text) if comment}


def files() -> str:
    """Returns a table for each other folder of gin_configs: files and their headers."""
    lines = []
    for folder in ("models", "meshes", "examples"):
        lines += [f"### {folder}", "", "| file | content |", "|---|---|"]
        for file in _configs(folder):
            about, _ = _header(file.read_text(encoding="utf-8"))
            lines.append(f"| `{file.name}` | {_cell(_LABEL.split(about)[0])} |")
        lines.append("")
    return "\n".join(lines)


def bindings() -> str:
    """Returns an mkdocstrings block for each name of this project that a config may bind."""
    block = "::: {}\n    options:\n      members: false"
    names = set(_bound()) | set(_BOUND_BY_USERS)
    return "\n\n".join(map(block.format, sorted(names)))


def benchmarks() -> str:
    """Returns a table of the benchmarks with the first paragraph of their docstrings."""
    lines = ["| name | measures |", "|---|---|"]
    for file in sorted((ROOT / "benchmarks").rglob("*.py")):
        about = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        module = module.removesuffix(".__main__")
        if f"python -m {module}" in about:
            first = about.split("\n\n")[0].replace("\n", " ")
            name = module.removeprefix("benchmarks.")
            lines.append(f"| `{name}` | {_sentence(first)} |")
    return "\n".join(lines)


def rules() -> str:
    """Returns the default rules of cleaning as TOML, every setting written out."""
    return f"```toml\n{rulebook.DEFAULT.text()}```"


def _bound() -> set[str]:
    names = set()
    for folder in ("runs", "examples", "models", "meshes", "baselines"):
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


def _sentence(text: str) -> str:
    text = _cell(text)
    begin = text[:1] if re.match(r"cldr|t5x", text) else text[:1].upper()  # names stay
    return f"{begin}{text[1:]}{'' if text[-1] in '.?!' else '.'}" if text else ""


def _cell(text: str) -> str:
    return _code(text).replace("|", "\\|")


def _code(text: str) -> str:
    return re.sub(r"(?<!`)(--gin[\w.]*(?:=\w+)?)", r"`\1`", _escaped(text))


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")


GENERATORS = {
    "commands": commands, "macros": macros, "files": files, "bindings": bindings, "rules": rules,
    "benchmarks": benchmarks,
}  # fmt: skip
