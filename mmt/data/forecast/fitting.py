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


def capped(make: Make, mixture: Mixing, steps: int) -> Mixing:
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
    examples = _examples(make, dataclasses.replace(mixture, max_epochs=None), steps)

    def choose(examples: int) -> Mixing:
        return dataclasses.replace(mixture, examples=examples)

    return _within(make, choose, (mixture.max_epochs, 0.0), examples, steps)[0]


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
    most, least = _bounds(bounds)
    try:
        return _fitted(make, mixture, steps, most=most, least=least)
    except _Impossible as error:
        alternatives = (_possible(make, mixture, near) for near in error.near)
        listed = ", or ".join(filter(None, alternatives)) or "no near bounds"
        raise ValueError(f"{error}; possible: {listed}") from None


class _Near(NamedTuple):
    """Alternative bounds: one of the three, or the languages, differs."""

    what: str
    most: float
    least: float
    steps: float
    languages: list[str] | None = None


class _Impossible(ValueError):
    """Bounds that no mixture satisfies; `near` are alternatives that may be possible."""

    def __init__(self, message: str, near: Sequence[_Near]):
        super().__init__(message)
        self.near = near


def _possible(make: Make, mixture: Mixing, near: _Near) -> str:
    """Returns the nearest bounds that a mixture satisfies, in words; '' if there are none."""
    free = mixture
    if near.languages is not None:
        free = dataclasses.replace(mixture, languages=near.languages)
    for slack in (1, 1.003, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2):
        now = near
        if near.what == "epochs":
            now = near._replace(most=float(_up(near.most * slack)))
        elif near.what == "share":
            now = near._replace(least=float(_down(near.least / slack)))
        elif near.what == "steps":
            now = near._replace(steps=int(near.steps / slack))
        with contextlib.suppress(ValueError):
            _fitted(make, free, int(now.steps), most=now.most, least=now.least)
            return {
                "epochs": f"epochs<={now.most:g}", "share": f"share>={now.least:g}",
                "steps": f"{now.steps:,} steps",
            }.get(near.what, near.what)  # fmt: skip
    return ""


def _fitted(
    make: Make, mixture: Mixing, steps: int, *, most: float, least: float
) -> tuple[Mixing, forecast.Forecast]:
    free = dataclasses.replace(mixture, max_epochs=None, examples=None)
    examples = _examples(make, free, steps)
    counts = _chosen(make(free), free)
    if any(map(mixing.is_monolingual, counts)):
        raise ValueError("--fit supports pairs only; bind mixing.Mixing.monolingual = 0")

    def choose(examples: int) -> Mixing:
        _check_possible(counts, most, least, examples, steps)
        return _lowest(counts, most, least, examples, free)

    return _within(make, choose, (most, least), examples, steps)


def _within(
    make: Make,
    choose: Callable[[int], Mixing],
    bounds: tuple[float, float],
    examples: int,
    steps: int,
) -> tuple[Mixing, forecast.Forecast]:
    """Returns the mixture that `choose` makes for `examples`, or for more until the bounds hold.

    Examples per row depend on the mixture, and examples are whole, so several tries may be needed.
    """
    most, least = bounds
    for _ in range(8):
        mixture = choose(examples)
        batches = make(mixture)
        batches.close()
        foreseen = forecast.forecast(batches, steps)
        worst = max(row["epochs"] for row in foreseen.rows if row["examples"])
        if worst <= most:
            return mixture, foreseen
        examples = math.ceil(max(examples * worst / most, examples + 1))
    raise _Impossible(
        f"epochs<={most:g} cannot be satisfied: languages have too few examples for whole epochs",
        [_Near("epochs", worst, least, steps), _Near("steps", most, least, steps)],
    )


def _examples(make: Make, mixture: Mixing, steps: int) -> int:
    batches = make(mixture)
    batches.close()
    return forecast.drawn(batches, steps)


def _chosen(batches: TrainBatches, mixture: Mixing) -> dict[str, int]:
    batches.close()
    counts = batches.order.split.counts
    return {code: n for code, n in counts.items() if mixture.rates(counts).get(code)}


def _bounds(text: str) -> tuple[float, float]:
    """Returns the maximum of epochs, and the minimum share."""
    bounds = {"epochs": math.inf, "share": 0.0}
    given: set[str] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(?:(epochs)\s*<=|(share)\s*>=)\s*(\d*\.?\d+)\s*(%?)\s*", part)
        if not match or not float(match[3]):
            raise ValueError(
                f"--fit {text!r}: no bound {part!r}; allowed: epochs<=N and share>=N (of 1, or "
                "N%), with a comma between"
            )
        name = match[1] or match[2]
        if name in given:
            raise ValueError(f"--fit {text!r}: two bounds of {name}; allowed: one of each")
        given.add(name)
        bounds[name] = float(match[3]) / (100 if match[4] else 1)
    return bounds["epochs"], bounds["share"]


def _check_possible(
    counts: Mapping[str, int], most: float, least: float, examples: int, steps: int
) -> None:
    asked = _Near("", most, least, steps)
    if least * len(counts) > 1:
        raise _Impossible(
            f"share>={least:g} cannot be satisfied by {len(counts)} languages",
            [asked._replace(what="share", least=1 / len(counts))],
        )
    total = sum(counts.values())
    if most * total < examples:
        raise _Impossible(
            f"epochs<={most:g} cannot be satisfied: {steps:,} steps draw {examples:,} examples, "
            f"the corpus has {total:,}",
            [
                asked._replace(what="epochs", most=examples / total),
                asked._replace(what="steps", steps=steps * most * total / examples),
            ],
        )
    code, fewest = min(counts.items(), key=lambda item: item[1])
    if most * fewest < least * examples:
        raise _Impossible(
            f"epochs<={most:g} and share>={least:g} are not possible together: {code} has "
            f"{fewest:,} examples, and a share of {least:g} of {examples:,} needs "
            f"{least * examples / fewest:,.1f} epochs",
            [
                asked._replace(what="epochs", most=least * examples / fewest),
                asked._replace(what="share", least=most * fewest / examples),
                asked._replace(what="steps", steps=steps * most * fewest / (least * examples)),
                asked._replace(what=f"without {code}", languages=[c for c in counts if c != code]),
            ],
        )


def _lowest(
    counts: Mapping[str, int], most: float, least: float, examples: int, free: Mixing
) -> Mixing:
    """Returns the mixture within the bounds with the lowest temperature, at least that of `free`.
    """
    for temperature in (*np.geomspace(free.temperature, 1000 * free.temperature, 700), 1e12):
        rounded = float(f"{temperature:.3g}")
        plain = mixing.mixing_rates(counts, rounded)
        cap = max(plain[code] * examples / counts[code] for code in counts) > most
        rates = plain
        if cap:
            rates = mixing.mixing_rates(counts, rounded, max_epochs=most, examples=examples)
        if min(rates.values()) >= least * (1 - 1e-9):
            warm = dataclasses.replace(free, temperature=rounded)
            if not cap:
                return warm
            return dataclasses.replace(warm, max_epochs=most, examples=examples)
    raise AssertionError(f"no temperature gives {least}")


def _up(value: float) -> str:
    return f"{math.ceil(value * 100) / 100:g}"


def _down(value: float) -> str:
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
