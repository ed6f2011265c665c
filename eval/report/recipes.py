"""The recipes of a report's systems: configs, whole or as differences, and library versions."""

import difflib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from eval.records.analysis import SystemRecipe
from eval.records.analysis_index import AnalysisIndex
from mmt import config, languages

_MOST_LINES = 30  # of a summary's difference
_MOST_VALUES = 3  # of a summary's fact
_COMMENTS = ("#", "from ", "import ")  # lines that are no settings


class Made(NamedTuple):
    """The recipe of a system.

    text: the config, or its difference to the first config of the same system. languages: names of
    the languages whose baselines have this recipe.
    """

    system: str
    chosen: str
    facts: tuple[tuple[str, str], ...]
    config: str
    text: str
    languages: tuple[str, ...]

    @property
    def title(self) -> str:
        """Returns the system, and the number of languages of baselines."""
        number = len(self.languages)
        count = f", {number} language{'' if number == 1 else 's'}" if number else ""
        return self.system + count


class Summary(NamedTuple):
    """The short form of a recipe, for Markdown.

    settings: the statements that differ from the recipe of `against`. The first recipe has all
    statements, and `against` is "". facts: of other recipes, those that the first does not share.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    languages: tuple[str, ...]
    against: str
    settings: str


def recipes(systems: Iterable[str], analyses: AnalysisIndex) -> list[Made]:
    """Returns the recipes of all systems; of baselines, each distinct one."""
    result = []
    for system in systems:
        alike: dict[tuple[str, str], list[SystemRecipe]] = {}
        for row in analyses.recipes(system):
            text = config.with_present_names(row.text)
            alike.setdefault((text, row.chosen), []).append(row)
        first = ""
        for (text, chosen), rows in alike.items():
            names = tuple(languages.find(row.source).name for row in rows if row.source)
            facts = _facts(rows, chosen)
            result.append(Made(system, chosen, facts, text, _unlike(first, text), names))
            first = first or text
    return result


def summaries(made: Sequence[Made]) -> list[Summary]:
    """Returns short forms: each is the difference to the most similar one before it.

    Baselines whose settings were chosen in the same way have one summary. Their configs may differ
    by language.
    """
    groups: dict[tuple[str, str], list[Made]] = {}
    for recipe in made:
        groups.setdefault((recipe.system, recipe.chosen), []).append(recipe)
    short: list[Summary] = []
    earlier: dict[str, list[str]] = {}  # title -> statements
    for group in groups.values():
        first = group[0]
        statements = _statements(first.config)
        names = tuple(name for recipe in group for name in recipe.languages)
        title = first._replace(languages=names).title
        if first.chosen:
            title += f": {first.chosen.partition(' (')[0]}"
        against = min(earlier, key=lambda t: len({*earlier[t]} ^ {*statements}), default="")
        settings = "\n".join(statements)
        if against:
            settings = _settings(earlier[against], statements)
        facts: dict[str, dict[str, None]] = {}
        for recipe in group:
            for name, value in recipe.facts:
                facts.setdefault(name, {})[value] = None
        shown_settings = tuple(
            (name, _few(list(values))) for name, values in facts.items()
            if not short or list(values) != [dict(made[0].facts).get(name)]
        )  # fmt: skip
        short.append(Summary(title, shown_settings, names, against, settings))
        earlier.setdefault(title, statements)
    return short


def _facts(rows: list[SystemRecipe], chosen: str) -> tuple[tuple[str, str], ...]:
    facts = [("config", ", ".join(dict.fromkeys(row.config for row in rows)))]
    facts += [("chosen", chosen)] if chosen else []
    facts += [("seed", ", ".join(dict.fromkeys(str(row.seed) for row in rows)))]
    hashes = (
        ("corpus", [row.corpus for row in rows if row.corpus]),
        ("vocabulary", [digest for row in rows for digest in row.vocabulary.values()]),
    )
    facts += [(name, ", ".join(dict.fromkeys(all_))) for name, all_ in hashes if all_]
    return (*facts, *sorted(rows[0].versions.items()))


def _unlike(first: str, text: str) -> str:
    """Returns the text, or its difference to the first one if that is shorter."""
    if not first:
        return text
    lines = difflib.unified_diff(
        first.splitlines(), text.splitlines(), "the first one", "this one", n=0, lineterm=""
    )
    difference = "\n".join(lines)
    return difference if len(difference) < len(text) else text


def _settings(before: Sequence[str], after: Sequence[str]) -> str:
    """Returns the lines that differ, as `-old` and `+new`.

    >>> _settings(["A = 1", "B = 2"], ["A = 1", "B = 3"])
    '-B = 2\\n+B = 3'
    """
    difference = difflib.unified_diff(before, after, n=0, lineterm="")
    changed = [line for line in difference if not line.startswith(("---", "+++", "@@"))]
    if len(changed) > _MOST_LINES:
        hidden = len(changed) - _MOST_LINES
        changed = [*changed[:_MOST_LINES], f"… and {hidden} more lines"]
    return "\n".join(changed) or "(the same settings)"


def _statements(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith(_COMMENTS)]


def _few(values: Sequence[str]) -> str:
    rest = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
    return ", ".join(values[:_MOST_VALUES]) + rest
