"""Reads the bindings of a gin file as text, without importing what it names."""

from pathlib import Path
from typing import Any, NamedTuple

from gin import config_parser

from mmt.config.bindings import FAULTS, error_message
from mmt.config.renamed import with_present_names


class WrittenBinding(NamedTuple):
    """The value of a binding as text. text: as in the file; value: with the values of macros."""

    text: str
    value: str


class _Written:
    """A reference or a macro, shown as in the file."""

    def __init__(self, text: str, macro: str = "") -> None:
        self.text, self.macro = text, macro

    def __repr__(self) -> str:
        return self.text


class _AsText(config_parser.ParserDelegate):
    """Keeps references and macros as text."""

    def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> _Written:
        return _Written(f"@{scoped_configurable_name}{'()' * evaluate}")

    def macro(self, scoped_name: str) -> _Written:
        return _Written(f"%{scoped_name}", macro=scoped_name)


def written(file: Path) -> dict[str, WrittenBinding]:
    """Returns the bindings of a run's `config.gin` by their short names, as `Config.emb_dim`.

    It is quick, and reads files of older versions, because no module is imported.

    Raises:
      ValueError: the file is no gin file, or includes another one; it names the line.
      OSError: the file cannot be read.
    """
    values: dict[str, Any] = {}
    try:
        text = with_present_names(file.read_text("utf-8"))
        for statement in config_parser.ConfigParser(text, _AsText()):
            if isinstance(statement, config_parser.IncludeStatement):
                raise ValueError(f"line {statement.location.line_num}: expected no include")
            if isinstance(statement, config_parser.BindingStatement):
                values[_name(statement)] = statement.value
    except FAULTS as error:
        line = getattr(error, "lineno", None)
        location = f"{file}:{line}" if line else f"{file}"
        raise ValueError(f"{location}: {error_message(error).splitlines()[0]}") from error
    return {
        name: WrittenBinding(repr(value), repr(_resolved(value, values, ())))
        for name, value in values.items()
    }


def _name(statement: config_parser.BindingStatement) -> str:
    short = ".".join(statement.selector.split(".")[-2:])
    parameter = f".{statement.arg_name}" if statement.arg_name else ""
    return f"{statement.scope}/" * bool(statement.scope) + short + parameter


def _resolved(value: Any, values: dict[str, Any], parents: tuple[str, ...]) -> Any:
    """Returns the value with macros replaced; an undefined macro or a circle stays as it is."""
    if isinstance(value, _Written):
        name = value.macro
        if name not in values or name in parents:
            return value
        return _resolved(values[name], values, (*parents, name))
    if isinstance(value, dict):
        return {key: _resolved(item, values, parents) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_resolved(item, values, parents) for item in value)
    return value
