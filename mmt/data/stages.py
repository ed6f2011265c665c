"""Stages: mixtures over time. `curriculum.py` draws from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from mmt import suggest
from mmt.data import mixing
from mmt.data.mixing import Mixing

LOSS = "validation_loss"
_NEVER = 10**15  # more steps or epochs than any run
KINDS = ("steps", "examples", LOSS, f"{LOSS}/LANGUAGE", "LANGUAGE")

Number = int | float
Modifiers = Mapping[str, Number | Mapping[str, Number]]


@dataclass(frozen=True)
class Stage:
    """A mixture and its end; the last stage of a run has no end.

    Attributes:
      until: the end, counted from the start of the run, not of the stage; one of
        {'steps': 20000}: training steps; with packing within about 1 %, and spread over as many
          batches as there are open rows (8 with one row per virtual shard);
        {'examples': 10**6}: examples drawn;
        {'Swahili': 2, 'yor': 0.5}: epochs, of all the languages named (by any name);
        {'validation_loss': 3}: when the mean over languages has not improved in 3 evaluations;
        {'validation_loss/swh': 3}: the same for one language.
      mixing: the mixture; default: that of the run.
      modifiers: {'upper_case': 0.05, 'typos': {'deu': 0.1}}, see `modifiers/rewriter.py`.
      context_lines: maximum lines before a line that the modifier `context` joins with it.
      max_targets: the stage draws only examples of at most this many target tokens, with EOS.
    """

    until: Mapping[str, Number] | None = None
    mixing: Mixing | None = None
    modifiers: Modifiers | None = None
    max_targets: int | None = None
    context_lines: int = 1

    def watched_loss(self) -> tuple[str, int] | None:
        """Returns the language ('': mean) whose loss ends the stage, and the patience; or None."""
        for key, value in (self.until or {}).items():
            if key.split("/")[0] == LOSS:
                return key[len(LOSS) + 1 :], int(value)
        return None

    def with_examples(self, counts: Mapping[str, int], known: Sequence[str]) -> "Stage":
        """Returns the stage without the languages of `known` of which `counts` has no examples."""
        stage = replace(self, modifiers=_with_examples(self.modifiers, counts, known))
        if self.mixing is None or self.mixing.languages is None:
            return stage
        codes = [code for code in self.mixing.choose(known) if code in counts]
        return replace(stage, mixing=replace(self.mixing, languages=codes))


def _with_examples(
    modifiers: Modifiers | None, counts: Mapping[str, int], known: Sequence[str]
) -> Modifiers | None:
    """Returns modifiers without languages that have no examples; unknown names stay."""
    if not isinstance(modifiers, Mapping):
        return modifiers

    def has_examples(name: str) -> bool:
        try:
            return mixing.resolve(name, known) in counts
        except ValueError:
            return True  # its error comes with the modifiers

    return {
        kind: {name: value for name, value in odds.items() if has_examples(name)}
        if isinstance(odds, Mapping)
        else odds
        for kind, odds in modifiers.items()
    }


def planned_stages(stages: Sequence[Stage] | None, mixture: Mixing | None) -> list[Stage]:
    """Returns the stages of a run, by default one; each has a mixture, by default the run's.

    Raises:
      ValueError: `stages` is no list of stages.
    """
    curriculum = [Stage()] if stages is None else stages
    is_list = isinstance(curriculum, Sequence)
    if not is_list or not all(isinstance(stage, Stage) for stage in curriculum):
        raise ValueError(
            f"stages = {stages!r}; allowed: a list of Stage, such as "
            "[@large/stages.Stage(), @all/stages.Stage()], or None"
        )
    return [replace(stage, mixing=stage.mixing or mixture or Mixing()) for stage in curriculum]


def stage_rates(stage: Stage, counts: Mapping[str, int]) -> Float[np.ndarray, "languages"]:
    """Returns the rate of every language of `counts` in a stage; 0 if it is not in the mixture."""
    rates = (stage.mixing or Mixing()).rates(counts)
    return np.array([rates.get(code, 0.0) for code in counts])


def epochs_of(until: Mapping[str, Number], counts: Mapping[str, int]) -> dict[int, Number]:
    """Returns the epochs by the index of the language, for an end by epochs."""
    codes = list(counts)
    return {codes.index(mixing.resolve(name, codes)): value for name, value in until.items()}


def check_stages(stages: Sequence[Stage], counts: Mapping[str, int]) -> None:
    """Raises ValueError for invalid stages, also where their start is not known yet."""
    if not stages:
        raise ValueError("stages is empty; allowed: one Stage or more, or no stages at all")
    for number, stage in enumerate(stages, 1):
        where = f"stage {number} of {len(stages)}"
        if (stage.until is None) != (number == len(stages)):
            state = "has an end" if stage.until is not None else "never ends"
            raise ValueError(
                f"{where} {state}, until = {stage.until}; all but the last need `until`, such as "
                "{'steps': 20000}"
            )
        if stage.max_targets is not None and stage.max_targets < 1:
            raise ValueError(
                f"{where}: max_targets = {stage.max_targets}; allowed: a number of tokens, 1 or "
                "more, or None"
            )
        uses_context = "context" in (stage.modifiers or {})
        if stage.context_lines < 1 or (stage.context_lines > 1 and not uses_context):
            raise ValueError(
                f"{where}: context_lines = {stage.context_lines}; allowed: 1 or more, with the "
                "modifier 'context'"
            )
        rates = stage_rates(stage, counts)
        if stage.until is not None:
            _check_until(stage.until, counts, rates, where)


def _check_until(
    until: Mapping[str, Number], counts: Mapping[str, int], rates: Any, where: str
) -> None:
    if not _is_valid_end(until):
        raise ValueError(
            f"{where}: until = {until!r}; allowed: one of {{'steps': N}}, {{'examples': N}}, "
            f"{{'{LOSS}': N}} and {{'{LOSS}/LANGUAGE': N}}, N a whole number of 1 or more, or "
            "{LANGUAGE: EPOCHS, ...}"
        )
    codes = list(counts)
    keys_by_code: dict[str, str] = {}
    for key in until:
        if key in ("steps", "examples", LOSS):
            continue
        name = key.removeprefix(f"{LOSS}/")
        try:
            code = mixing.resolve(name, codes)
        except ValueError as error:
            nearest = suggest.closest_name(key, ("steps", "examples", LOSS))
            hint = f"nearest: {nearest!r}; or, as a language, " if nearest else ""
            raise ValueError(f"{where}: until = {dict(until)}: {hint}{error}") from None
        if (earlier_key := keys_by_code.setdefault(code, key)) != key:
            raise ValueError(
                f"{where}: until = {dict(until)}: {earlier_key!r} and {key!r} are {code}"
            )
        if name == key and not rates[codes.index(code)]:
            raise ValueError(
                f"{where} never ends: until = {dict(until)}, but its mixture has no {code}; it "
                f"draws {', '.join(np.array(codes)[rates > 0][:10])}"
            )


def _is_valid_end(until: Any) -> bool:
    """Returns whether `until` is one kind of end with a valid number, or epochs of languages."""
    if not isinstance(until, Mapping) or not until:
        return False
    if not all(isinstance(key, str) for key in until):
        return False
    kinds = [key for key in until if key in ("steps", "examples") or key.split("/")[0] == LOSS]
    if kinds and len(until) > 1:
        return False
    return all(
        isinstance(value, int | float) and not isinstance(value, bool)
        and 0 < value < _NEVER and (not kinds or value == int(value))
        for value in until.values()
    )  # fmt: skip
