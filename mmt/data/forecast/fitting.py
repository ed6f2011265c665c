"""Finds mixtures within bounds: for the cap of `--max_epochs`, and for `--fit`.

Candidates are evaluated with `forecast`; the fallback proposal is verified too.
"""

import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mmt.data import mixing
from mmt.data.forecast import forecast
from mmt.data.mixing import Mixing
from mmt.data.pipeline import TrainBatches

Make = Callable[[Mixing], TrainBatches]


def cap_mixture(make: Make, mixture: Mixing, steps: int) -> Mixing:
    """Returns `mixture` with the `examples` that its cap needs.

    These are the examples of `steps` batches, or a few more, so that no language exceeds the cap.

    Args:
      make: returns the batches of a mixture.
      mixture: returned unchanged if it has no cap, or if it has `examples`.
      steps: steps of the run.

    Raises:
      ValueError: the run is longer than all caps allow.
    """
    if mixture.max_epochs is None or mixture.examples is not None:
        return mixture
    examples = _count_examples(make, dataclasses.replace(mixture, max_epochs=None), steps)

    def choose(examples: int) -> Mixing:
        return dataclasses.replace(mixture, examples=examples)

    return _find_within(make, choose, (mixture.max_epochs, 0.0), examples, steps)[0]


def fit(make: Make, bounds: str, mixture: Mixing, steps: int) -> tuple[Mixing, forecast.Forecast]:
    """Returns a mixture within `bounds`, and its forecast.

    Args:
      make: returns the batches of a mixture.
      bounds: "epochs<=20,share>=0.003", or one of the two.
      mixture: gives the temperature, which is raised only if a share needs it.
      steps: steps of the run.

    Raises:
      ValueError: no mixture satisfies the bounds; the message has bounds that are possible.
    """
    max_epochs, min_share = _bounds(bounds)
    try:
        return _fitted(make, mixture, steps, max_epochs=max_epochs, min_share=min_share)
    except _Impossible as error:
        possible = (_possible(make, mixture, near) for near in error.alternatives)
        listed = ", or ".join(filter(None, possible)) or "no near bounds"
        raise ValueError(f"{error}; possible: {listed}") from None


class _Alternative(NamedTuple):
    """Alternative bounds. `changed` names the bound that differs, or describes the languages."""

    changed: str
    max_epochs: float
    min_share: float
    steps: float
    languages: list[str] | None = None


class _Impossible(ValueError):
    """Bounds that no mixture satisfies; `alternatives` may be possible."""

    def __init__(self, message: str, alternatives: Sequence[_Alternative]):
        super().__init__(message)
        self.alternatives = alternatives


def _possible(make: Make, mixture: Mixing, near: _Alternative) -> str:
    """Returns the nearest bounds that a mixture satisfies, in words; '' if there are none."""
    if near.languages is not None:
        mixture = dataclasses.replace(mixture, languages=near.languages)
    for slack in (1, 1.003, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2):
        epochs, share, steps = near.max_epochs, near.min_share, int(near.steps)
        if near.changed == "epochs":
            epochs = float(_round_up(epochs * slack))
        elif near.changed == "share":
            share = float(_round_down(share / slack))
        elif near.changed == "steps":
            steps = int(near.steps / slack)
        with contextlib.suppress(ValueError):
            _fitted(make, mixture, steps, max_epochs=epochs, min_share=share)
            return {
                "epochs": f"epochs<={epochs:g}", "share": f"share>={share:g}",
                "steps": f"{steps:,} steps",
            }.get(near.changed, near.changed)  # fmt: skip
    return ""


def _fitted(
    make: Make, mixture: Mixing, steps: int, *, max_epochs: float, min_share: float
) -> tuple[Mixing, forecast.Forecast]:
    uncapped = dataclasses.replace(mixture, max_epochs=None, examples=None)
    examples = _count_examples(make, uncapped, steps)
    counts = _counts_in_mixture(make(uncapped), uncapped)
    if any(map(mixing.is_monolingual, counts)):
        raise ValueError("--fit supports pairs only; bind mixing.Mixing.monolingual = 0")
    if mixture.new_languages:
        raise ValueError(
            f"--fit and new_languages = {list(mixture.new_languages)}: their share is fixed, "
            f"1 - rehearsal = {1 - mixture.rehearsal:g}; bind mixing.Mixing.rehearsal instead"
        )

    def choose(examples: int) -> Mixing:
        _check_possible(counts, max_epochs, min_share, examples, steps)
        return _lowest_temperature(counts, max_epochs, min_share, examples, uncapped)

    return _find_within(make, choose, (max_epochs, min_share), examples, steps)


def _find_within(
    make: Make,
    choose: Callable[[int], Mixing],
    bounds: tuple[float, float],
    examples: int,
    steps: int,
) -> tuple[Mixing, forecast.Forecast]:
    """Returns the mixture that `choose` makes for `examples`, or for more until the bounds hold.

    Examples per row depend on the mixture, and examples are whole, so several tries may be needed.
    """
    max_epochs, min_share = bounds
    for _ in range(8):
        mixture = choose(examples)
        batches = make(mixture)
        batches.close()
        result = forecast.forecast(batches, steps)
        highest_epochs = max(row["epochs"] for row in result.rows if row["examples"])
        if highest_epochs <= max_epochs:
            return mixture, result
        examples = math.ceil(max(examples * highest_epochs / max_epochs, examples + 1))
    raise _Impossible(
        f"epochs<={max_epochs:g} cannot be satisfied: languages have too few examples for whole "
        "epochs",
        [
            _Alternative("epochs", highest_epochs, min_share, steps),
            _Alternative("steps", max_epochs, min_share, steps),
        ],
    )


def _count_examples(make: Make, mixture: Mixing, steps: int) -> int:
    batches = make(mixture)
    batches.close()
    return forecast.count_draws(batches, steps)


def _counts_in_mixture(batches: TrainBatches, mixture: Mixing) -> dict[str, int]:
    batches.close()
    counts = batches.order.split.counts
    return {code: n for code, n in counts.items() if mixture.rates(counts).get(code)}


def _bounds(text: str) -> tuple[float, float]:
    """Returns the maximum of epochs, and the minimum share."""
    bounds = {"epochs": math.inf, "share": 0.0}
    bounded: set[str] = set()
    for bound in text.split(","):
        match = re.fullmatch(r"\s*(?:(epochs)\s*<=|(share)\s*>=)\s*(\d*\.?\d+)\s*(%?)\s*", bound)
        if not match or not float(match[3]):
            raise ValueError(
                f"--fit {text!r}: no bound {bound!r}; allowed: epochs<=N and share>=N (of 1, or "
                "N%), with a comma between"
            )
        name = match[1] or match[2]
        if name in bounded:
            raise ValueError(f"--fit {text!r}: two bounds of {name}; allowed: one of each")
        bounded.add(name)
        bounds[name] = float(match[3]) / (100 if match[4] else 1)
    return bounds["epochs"], bounds["share"]


def _check_possible(
    counts: Mapping[str, int], max_epochs: float, min_share: float, examples: int, steps: int
) -> None:
    requested = _Alternative("", max_epochs, min_share, steps)
    if min_share * len(counts) > 1:
        raise _Impossible(
            f"share>={min_share:g} cannot be satisfied by {len(counts)} languages",
            [requested._replace(changed="share", min_share=1 / len(counts))],
        )
    total = sum(counts.values())
    if max_epochs * total < examples:
        raise _Impossible(
            f"epochs<={max_epochs:g} cannot be satisfied: {steps:,} steps draw {examples:,} "
            f"examples, the corpus has {total:,}",
            [
                requested._replace(changed="epochs", max_epochs=examples / total),
                requested._replace(changed="steps", steps=steps * max_epochs * total / examples),
            ],
        )
    code, count = min(counts.items(), key=lambda item: item[1])
    if max_epochs * count < min_share * examples:
        raise _Impossible(
            f"epochs<={max_epochs:g} and share>={min_share:g} are not possible together: {code} "
            f"has {count:,} examples, and a share of {min_share:g} of {examples:,} needs "
            f"{min_share * examples / count:,.1f} epochs",
            [
                requested._replace(changed="epochs", max_epochs=min_share * examples / count),
                requested._replace(changed="share", min_share=max_epochs * count / examples),
                requested._replace(
                    changed="steps", steps=steps * max_epochs * count / (min_share * examples)
                ),
                requested._replace(
                    changed=f"without {code}", languages=[c for c in counts if c != code]
                ),
            ],
        )


def _lowest_temperature(
    counts: Mapping[str, int], max_epochs: float, min_share: float, examples: int, start: Mixing
) -> Mixing:
    """Returns the mixture within the bounds with the lowest temperature, at least that of `start`.
    """
    for temperature in (*np.geomspace(start.temperature, 1000 * start.temperature, 700), 1e12):
        rounded = float(f"{temperature:.3g}")
        uncapped_rates = mixing.mixing_rates(counts, rounded)
        highest_epochs = max(uncapped_rates[code] * examples / counts[code] for code in counts)
        needs_cap = highest_epochs > max_epochs
        rates = uncapped_rates
        if needs_cap:
            rates = mixing.mixing_rates(counts, rounded, max_epochs=max_epochs, examples=examples)
        if min(rates.values()) >= min_share * (1 - 1e-9):
            mixture = dataclasses.replace(start, temperature=rounded)
            if not needs_cap:
                return mixture
            return dataclasses.replace(mixture, max_epochs=max_epochs, examples=examples)
    raise AssertionError(f"no temperature gives {min_share}")


def _round_up(value: float) -> str:
    return f"{math.ceil(value * 100) / 100:g}"


def _round_down(value: float) -> str:
    digits = 10.0 ** (2 - math.floor(math.log10(value)))
    return f"{math.floor(value * digits) / digits:g}"


def gin(mixture: Mixing) -> str:
    """Returns the gin bindings of a mixture."""
    names = ("temperature", "max_epochs", "examples")
    values = ((name, getattr(mixture, name)) for name in names)
    return "\n".join(
        f"mixing.Mixing.{name} = {value:g}" if isinstance(value, float) else
        f"mixing.Mixing.{name} = {value}"
        for name, value in values if value is not None
    )  # fmt: skip
