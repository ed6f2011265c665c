"""The recipes of a report's systems: configs, whole or as differences, and library versions."""

import difflib
from collections.abc import Iterable
from typing import NamedTuple

from eval.records.analysis import SystemRecipe
from eval.records.analysis_index import AnalysisIndex
from mmt import languages

_MOST_LINES = 60  # of a difference in Markdown
_COMMENTS = ("#", "from ", "import ")


class Made(NamedTuple):
    """The recipe of a system.

    text: the config, or its difference to the first config of the same system. languages: names of
    the languages whose baselines have this recipe. settings: the statements that differ from the
    config of `against`, at most 60 lines. The first recipe has its whole config there, and
    `against` is "".
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    text: str
    languages: tuple[str, ...]
    settings: str
    against: str


def recipes(systems: Iterable[str], evidence: AnalysisIndex) -> list[Made]:
    """Returns the recipes of all systems; of baselines, each distinct one."""
    made: list[Made] = []
    first_of_all = ""
    for system in systems:
        alike: dict[tuple[str, str], list[SystemRecipe]] = {}
        for row in evidence.recipes(system):
            alike.setdefault((row.text, row.chosen), []).append(row)
        first = ""
        for (text, chosen), rows in alike.items():
            names = tuple(languages.find(row.source).name for row in rows if row.source)
            count = f", {len(names)} language{'' if len(names) == 1 else 's'}" if names else ""
            against = f"the first recipe of {system}" if first else made[0].title if made else ""
            made.append(Made(
                f"{system}{count}",
                _facts(rows, chosen),
                tuple(sorted(rows[0].versions.items())),
                _unlike(first, text),
                names,
                _settings(first or first_of_all, text) if made else text,
                against,
            ))  # fmt: skip
            first = first or text
            first_of_all = first_of_all or text
    return made


def _facts(rows: list[SystemRecipe], chosen: str) -> tuple[tuple[str, str], ...]:
    facts = [("config", ", ".join(dict.fromkeys(row.config for row in rows)))]
    facts += [("chosen", chosen)] if chosen else []
    facts += [("seed", ", ".join(dict.fromkeys(str(row.seed) for row in rows)))]
    hashes = (
        ("corpus", [row.corpus for row in rows if row.corpus]),
        ("vocabulary", [digest for row in rows for digest in row.vocabulary.values()]),
    )
    facts += [(name, ", ".join(dict.fromkeys(all_))) for name, all_ in hashes if all_]
    return tuple(facts)


def _unlike(first: str, text: str) -> str:
    """Returns the text, or its difference to the first one if that is shorter."""
    if not first:
        return text
    lines = difflib.unified_diff(
        first.splitlines(), text.splitlines(), "the first one", "this one", n=0, lineterm=""
    )
    difference = "\n".join(lines)
    return difference if len(difference) < len(text) else text


def _settings(first: str, text: str) -> str:
    """Returns the lines of statements that differ, as `-old` and `+new`.

    >>> _settings("# Macros:\\nA = 1\\nB = 2\\n", "A = 1\\nB = 3\\n")
    '-B = 2\\n+B = 3'
    """
    before, after = _statements(first), _statements(text)
    difference = difflib.unified_diff(before, after, n=0, lineterm="")
    changed = [line for line in difference if not line.startswith(("---", "+++", "@@"))]
    if len(changed) > _MOST_LINES:
        left = len(changed) - _MOST_LINES
        changed = [*changed[:_MOST_LINES], f"… and {left} more lines"]
    return "\n".join(changed) or "(the same settings)"


def _statements(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith(_COMMENTS)]
