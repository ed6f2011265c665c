"""The rulebook: TOML tables of cleaning rules, global, per language and per entry.

    [clean]                                        # for all pairs
    length = { characters = [1, 600], words = 150 }
    ratio = true                                   # with its defaults
    [clean.language.zho]                           # overrides [clean]
    length = { words = 50 }                        # `characters` stays [1, 600]
    [clean.corpus.europarl]                        # overrides both, by the name of an entry
    numbers = false

`default = true` in [clean] starts from the default rules (`DEFAULT`) instead of none. The rules are
in rules.py and corpus_rules.py; cascade.py applies them.
"""

import functools
import hashlib
import inspect
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmt import languages, suggest
from mmt.data.cleaning import corpus_rules, rules
from mmt.data.cleaning.rules import Rule, RuleContext
from mmt.system.toml_place import located

Settings = Mapping[str, Mapping[str, Any]]  # rule -> its settings, in the order of application

RULES: dict[str, Callable[..., Rule]] = {
    name: getattr(module, name)
    for module, names in (
        (rules, "encoding normalise length"),
        (corpus_rules, "ratio"),
        (rules, "script repeats copies tags urls placeholders numbers langid"),
        (corpus_rules, "overlap duplicates one_side"),
    )
    for name in names.split()
}
TOGETHER = ("duplicates", "one_side")  # rules over all entries of a language, in their order


@dataclass(frozen=True)
class Rulebook:
    """The rules of all languages and entries.

    Attributes:
      levels: rule -> settings (False: the rule is off), for all pairs (''), for `language.<FLORES
        code>`, and for `corpus.<name>`: an entry, or for a glob or folder the part of its name
        before '/'.
      at: level -> 'rules.toml:12', for errors.
    """

    levels: Mapping[str, Mapping[str, Mapping[str, Any] | bool]]
    at: Mapping[str, str]

    def settings(self, language: str, corpus: str) -> Settings:
        """Returns the rules for the pairs of a language (FLORES code) in an entry."""
        settings: dict[str, dict[str, Any]] = {}
        for level in ("", f"language.{language}", *(f"corpus.{name}" for name in _names(corpus))):
            for name, value in self.levels.get(level, {}).items():
                if value is False:
                    settings.pop(name, None)
                else:
                    options = value if isinstance(value, Mapping) else {}
                    settings[name] = {**settings.get(name, {}), **options}
        return {name: settings[name] for name in RULES if name in settings}

    def check(self, codes: Iterable[str], entries: Iterable[str]) -> list[str]:
        """Returns an error for each language and entry in the rules that the corpus lacks."""
        names = {name for entry in entries for name in _names(entry)}
        available = {"language": sorted(codes), "corpus": sorted(names)}
        faults = []
        for level in self.levels:
            kind, _, name = level.partition(".")
            if kind and name not in available[kind]:
                faults.append(
                    f"{self.at[level]}: the corpus has no {kind} {name!r}; "
                    f"{suggest.choices(name, available[kind])}"
                )
        return faults

    def hash(self) -> str:
        """Returns 16 hex digits of the rules, independent of their file."""
        levels = [[level, sorted(by_rule.items())] for level, by_rule in self.levels.items()]
        content = json.dumps(levels)
        for rules_of_level in self.levels.values():
            if isinstance(langid := rules_of_level.get("langid"), Mapping) and langid.get("model"):
                model = langid["model"]
                content = content.replace(json.dumps(model), _digest(Path(model)))
        return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()

    def text(self) -> str:
        """Returns the rules as TOML with all settings."""
        lines = []
        for level, rules_of_level in self.levels.items():
            lines.append(f"[clean.{_quoted(level)}]" if level else "[clean]")
            for name in filter(rules_of_level.__contains__, RULES):
                value = rules_of_level[name]
                changed = value if isinstance(value, Mapping) else {}
                settings = {**defaults(name), **changed} if not level else changed
                options = ", ".join(f"{key} = {_toml(option)}" for key, option in settings.items())
                value_text = f"{{ {options} }}" if settings else "true"
                lines.append(f"{name} = {'false' if value is False else value_text}")
        return "\n".join(lines) + "\n"


DEFAULT = Rulebook({"": {name: True for name in RULES if name != "langid"}}, {"": "default"})


def read(file: Path) -> Rulebook:
    """Reads a file with only `[clean]` tables, as in a corpus.toml.

    Raises:
      ValueError: an unknown rule, setting or language, with file, line and nearest name.
    """
    try:
        text = file.read_bytes().decode()
        content = tomllib.loads(text)
    except OSError as error:
        raise ValueError(f"no rules in {str(file)!r}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: it must be UTF-8: {error}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: {error}") from None
    for key in content:
        if key != "clean":
            location = located(text, file, key)
            raise ValueError(f"{location}: unknown key {key!r}; rules are in the table [clean]")
    return parse(content.get("clean"), functools.partial(located, text, file), folder=file.parent)


def parse(table: object, at: Callable[[str, str], str], *, folder: Path) -> Rulebook:
    """Returns the rules of a `[clean]` table; `at(key, table)` returns 'file:line'."""
    if not isinstance(table, dict):
        raise ValueError(f"{at('clean', '')}: clean must be a table, [clean]")
    global_rules = dict(table)
    levels: dict[str, dict[str, Any]] = {}
    locations = {"": at("clean", "")}
    tables_by_kind = {kind: global_rules.pop(kind, {}) for kind in ("language", "corpus")}
    if (default := global_rules.pop("default", False)) not in (True, False):
        raise ValueError(f"{at('default', 'clean')}: default is {default!r}; allowed: true, false")
    start = DEFAULT.levels[""] if default else {"overlap": True}
    levels[""] = {**start, **_rules(global_rules, "clean", at, folder)}
    for kind, tables in tables_by_kind.items():
        if not isinstance(tables, dict):
            raise ValueError(f"{at(kind, 'clean')}: write [clean.{kind}.NAME] and its rules")
        for key, level_rules in tables.items():
            location = at(key, f"clean.{kind}")
            if not isinstance(level_rules, dict):
                raise ValueError(f"{location}: {key} must be a table, [clean.{kind}.{key}]")
            name = key if kind == "corpus" else _code(key, location)
            if f"{kind}.{name}" in levels:
                raise ValueError(f"{location}: {key} ({name}) is listed already under another name")
            levels[f"{kind}.{name}"] = _rules(level_rules, f"clean.{kind}.{key}", at, folder)
            locations[f"{kind}.{name}"] = location
    return Rulebook(levels, locations)


def defaults(rule: str) -> dict[str, Any]:
    """Returns the settings of a rule with their defaults."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(RULES[rule]).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }


def _names(entry: str) -> list[str]:
    """Returns the names for an entry: 'news/a.tmx' gives 'news' and 'news/a.tmx'."""
    name_parts = entry.split("/")
    return ["/".join(name_parts[: end + 1]) for end in range(len(name_parts))]


def _rules(
    table: Mapping[str, Any], name: str, at: Callable[[str, str], str], folder: Path
) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    for rule, value in table.items():
        location = at(rule, name)
        if rule not in RULES:
            allowed = (*RULES, *(("default", "language", "corpus") if name == "clean" else ()))
            raise ValueError(f"{location}: unknown rule {rule!r}; {suggest.choices(rule, allowed)}")
        if not isinstance(value, bool | dict):
            raise ValueError(
                f"{location}: {rule} is {value!r}; allowed: true, false, or its settings: "
                f"{{ {', '.join(defaults(rule)) or 'none'} }}"
            )
        if isinstance(value, dict) and isinstance(model := value.get("model"), str):
            value = value | {"model": str(folder / model)}
        checked[rule] = _checked(rule, value, location) if isinstance(value, dict) else value
    return checked


def _checked(rule: str, settings: Mapping[str, Any], location: str) -> dict[str, Any]:
    """Returns the settings of a rule, converted and checked."""
    allowed = defaults(rule)
    checked = {}
    for key, value in settings.items():
        if key not in allowed:
            choices = suggest.choices(key, allowed)
            raise ValueError(f"{location}: {rule} has no setting {key!r}; {choices}")
        checked[key] = _as(allowed[key], value)
        if checked[key] is None:
            raise ValueError(
                f"{location}: {rule}: {key} is {value!r}; expected like {allowed[key]!r}"
            )
    try:
        RULES[rule](RuleContext("eng_Latn", "eng_Latn"), **checked)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{location}: {rule}: {error}") from None
    return checked


def _as(default: Any, value: Any) -> Any:
    """Returns the value in the default's type; None for another type, and for NaN."""
    if value != value:  # NaN, for which no limit is exceeded
        return None
    if isinstance(default, tuple):
        has_form = isinstance(value, list) and len(value) == len(default)
        return tuple(value) if has_form and all(type(item) is int for item in value) else None
    if isinstance(default, float) and type(value) is int:
        return float(value)
    return value if type(value) is type(default) else None


def _code(name: str, location: str) -> str:
    try:
        return languages.find(name).code
    except ValueError as error:
        raise ValueError(f"{location}: language: {error}") from None


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _quoted(level: str) -> str:
    kind, _, name = level.partition(".")
    return f"{kind}.{name if re.fullmatch('[A-Za-z0-9_-]+', name) else json.dumps(name)}"


def _toml(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
