"""Dataclasses of analysis.jsonl check themselves: types by annotation, ranges by a field's name."""

import dataclasses
import math

from eval import rows

# What a number may be, by the name of its field, in rows of every kind.
_SHARES = (
    "copies", "empty", "short", "long", "looping", "not_english", "recited", "p_bootstrap",
    "p_randomization", "low", "high", "load", "drop_rate", "entropy",
)  # fmt: skip
_SCORES = ("bleu_low", "bleu_high", "chrf_low", "chrf_high", "bleu")
_DIFFERENCES = ("delta", "delta_low", "delta_high", "chrf_delta")
_COUNTS = (
    "sentences", "tokens", "steps", "seconds", "loss", "validation_loss", "parameters",
    "active_parameters", "device_hours", "epochs",
)  # fmt: skip
_POSITIVE = ("resamples", "devices")
_PARAGRAPHS = ("text",)  # of a recipe, of a remark
_RANGES = {
    **dict.fromkeys(_SHARES, (0.0, 1.0)),
    **dict.fromkeys(_SCORES, (0.0, 100.0)),
    **dict.fromkeys(_DIFFERENCES, (-100.0, 100.0)),
    **dict.fromkeys(_COUNTS, (0.0, math.inf)),
    **dict.fromkeys(_POSITIVE, (1.0, math.inf)),
}


class Checked:
    """Fields hold what their annotations and names say, or it is a ValueError."""

    def __post_init__(self) -> None:
        rows.check_types(self)
        rows.check_lines(self, except_for=_PARAGRAPHS)
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.name in _RANGES:
                rows.check_range(field.name, value, *_RANGES[field.name])
            if field.name in ("source", "target") and value != field.default:
                rows.check_code(field.name, value)
        self._check()

    def _check(self) -> None:
        """What one field alone does not tell."""
