"""An argument parser whose errors name the subcommand's usage and the nearest valid name."""

import argparse
import importlib.metadata
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from mmt import suggest

_BINDING = re.compile(r"--(?P<binding>(?:[A-Z][A-Z0-9_]*|[\w/]+\.[\w.]+)(?:=.*)?)", re.DOTALL)
_CHOICE = re.compile(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)


class CommandParser(argparse.ArgumentParser):
    """Parses the arguments of one command; its subcommands are of this class too.

    Errors belong to the subcommand that got the argument. A gin binding without its prefix
    (`--TRAIN_STEPS=5`) gets a hint, and a mistyped command or flag the nearest name.
    """

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        for argument in args or ():
            binding = _BINDING.fullmatch(argument)
            if binding and self._takes_bindings():
                self.error(f"unrecognized argument {argument}; write --gin.{binding['binding']}")
        namespace, rest = super().parse_known_args(args, namespace)
        if rest:
            known = [name for name in self._option_string_actions if name.startswith("--")]
            near = suggest.hint(rest[0].partition("=")[0], known)
            self.error(f"unrecognized arguments: {' '.join(rest)}{near}")
        return namespace, rest

    def error(self, message: str) -> NoReturn:
        """Prints usage and message, and exits with 2."""
        choice = _CHOICE.fullmatch(message)
        if choice:
            name, value, choices = choice.groups()
            names = re.findall(r"'([^']+)'", choices)
            message = f"argument {name}: no {value!r}; {suggest.choices(value, names)}"
        super().error(message)

    def _takes_bindings(self) -> bool:
        return "--gin_file" in self._option_string_actions or bool(self.get_default("gin_file"))


class VersionAction(argparse.Action):
    """Prints the version of the installed package. The commands also run where it is not installed.
    """

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        del dest  # it stores nothing
        super().__init__(option_strings, argparse.SUPPRESS, 0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        """Prints and exits; an error if the package is not installed."""
        try:
            version = importlib.metadata.version("mmt")
        except importlib.metadata.PackageNotFoundError:
            parser.error("mmt is not installed, so it has no version; pip install writes it")
        print(f"mmt {version}")
        parser.exit()
