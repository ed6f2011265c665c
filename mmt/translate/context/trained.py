"""The context that a run was trained with, from its configuration."""

import copy
from collections.abc import Mapping
from pathlib import Path

from mmt import config
from mmt.data.modifiers import CONTEXT
from mmt.run import Run

_MODIFIERS, _LINES = "stages.Stage.modifiers", "stages.Stage.context_lines"


def trained_lines(model_dir: str | Path) -> int:
    """Returns the most previous lines that the run's training joined with a line; 0: none."""
    max_lines = 0
    with config.isolated(Run(model_dir).config):
        bindings = config.flat()
        for name, value in bindings.items():
            scope = name.removesuffix(_MODIFIERS)
            odds = copy.deepcopy(value) if scope != name else None  # gin evaluates macros in copies
            if isinstance(odds, Mapping) and _any(odds.get(CONTEXT)):
                lines = bindings.get(f"{scope}{_LINES}", bindings.get(_LINES, 1))
                max_lines = max(max_lines, copy.deepcopy(lines))
    return max_lines


def check_trained_lines(model_dir: str | Path, lines: int) -> None:
    """Raises ValueError unless the run was trained with `lines` previous lines, 1 or more."""
    trained = trained_lines(model_dir)
    if not trained:
        raise ValueError(
            f"--context {lines}: the model was not trained with context: no stage in "
            f"{Run(model_dir).config} has the modifier {CONTEXT!r} (docs/data/mixtures.md)"
        )
    if not 1 <= lines <= trained:
        raise ValueError(
            f"--context {lines}: {Run(model_dir).config} trained with at most {trained} previous "
            f"lines (stages.Stage.context_lines); allowed: 1 to {trained}"
        )


def _any(odds: object) -> bool:
    """Returns whether a probability, or one of a language, is above 0."""
    return any(odds.values()) if isinstance(odds, Mapping) else bool(odds)
