"""The mixture that keeps to bounds: the cap of `--max_epochs`, and what `--fit` proposes.

It tries mixtures out: whether one keeps to them `shares.forecast` says. What is proposed where none
does has been tried as well.
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


def capped(make: Make, wanted: Mixing, steps: int) -> Mixing:
    """`wanted` with the `examples` that its cap needs: those that `steps` batches hold, or some
    more, so that it is kept exactly. `make` gives the batches of a mixture. ValueError where the
    run is longer than all caps allow.
    """
    if wanted.max_epochs is None or wanted.examples is not None:
        return wanted
    examples = _examples(make, dataclasses.replace(wanted, max_epochs=None), steps)

    def choose(examples: int) -> Mixing:
        return dataclasses.replace(wanted, examples=examples)

    return _within(make, choose, (wanted.max_epochs, 0.0), examples, steps)[0]


def fit(make: Make, bounds: str, wanted: Mixing, steps: int) -> tuple[Mixing, forecast.Forecast]:
    """The mixture that keeps to `bounds`, "epochs<=10,share>=0.005" or one of the two, and what it
    will show: with the temperature of `wanted` or, where a share asks for it, the next higher one;
    with a cap where that is needed.

    ValueError for bounds that no mixture can keep: it says which could be kept.
    """
    most, least = _bounds(bounds)
    try:
        return _fitted(make, wanted, steps, most=most, least=least)
    except _Impossible as error:
        near = [said for one in error.near if (said := _possible(make, wanted, one))]
        raise ValueError(f"{error}; possible: {', or '.join(near) or 'nothing near it'}") from None


class _Near(NamedTuple):
    """What could be asked instead: one of the three, or the languages, is another."""

    what: str
    most: float
    least: float
    steps: float
    languages: list[str] | None = None


class _Impossible(ValueError):
    """Bounds that no mixture keeps; `near` could be kept, if only about."""

    def __init__(self, said: str, near: Sequence[_Near]):
        super().__init__(said)
        self.near = near


def _possible(make: Make, wanted: Mixing, near: _Near) -> str:
    """The nearest to it that a mixture is found for, in words; '' where none is."""
    free = wanted
    if near.languages is not None:
        free = dataclasses.replace(wanted, languages=near.languages)
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
    make: Make, wanted: Mixing, steps: int, *, most: float, least: float
) -> tuple[Mixing, forecast.Forecast]:
    free = dataclasses.replace(wanted, max_epochs=None, examples=None)
    examples = _examples(make, free, steps)
    counts = _chosen(make(free), free)
    if any(map(mixing.is_monolingual, counts)):
        raise ValueError("--fit is for pairs alone; bind mixing.Mixing.monolingual = 0")

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
    """What `choose` makes for so many `examples`, or for more, so that it shows no language more
    often than its bounds say: what a row holds depends on the mixture, and examples are whole.
    """
    most, least = bounds
    for _ in range(8):
        found = choose(examples)
        batches = make(found)
        batches.close()
        foreseen = forecast.forecast(batches, steps)
        worst = max(row["epochs"] for row in foreseen.rows if row["examples"])
        if worst <= most:
            return found, foreseen
        examples = math.ceil(max(examples * worst / most, examples + 1))
    raise _Impossible(
        f"epochs<={most:g} cannot be kept: languages have too few examples for whole epochs",
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
    """The most epochs, and the least share."""
    found = {"epochs": math.inf, "share": 0.0}
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
        found[name] = float(match[3]) / (100 if match[4] else 1)
    return found["epochs"], found["share"]


def _check_possible(
    counts: Mapping[str, int], most: float, least: float, examples: int, steps: int
) -> None:
    asked = _Near("", most, least, steps)
    if least * len(counts) > 1:
        raise _Impossible(
            f"share>={least:g} cannot be kept by {len(counts)} languages",
            [asked._replace(what="share", least=1 / len(counts))],
        )
    total = sum(counts.values())
    if most * total < examples:
        raise _Impossible(
            f"epochs<={most:g} cannot be kept: {steps:,} steps show {examples:,} examples, the "
            f"corpus has {total:,}",
            [
                asked._replace(what="epochs", most=examples / total),
                asked._replace(what="steps", steps=steps * most * total / examples),
            ],
        )
    code, fewest = min(counts.items(), key=lambda one: one[1])
    if most * fewest < least * examples:
        raise _Impossible(
            f"epochs<={most:g} and share>={least:g} cannot both be kept: {code} has "
            f"{fewest:,} examples, a share of {least:g} of {examples:,} is "
            f"{least * examples / fewest:,.1f} epochs of it",
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
    """Of the temperatures from that of `free` upwards the first that keeps to the bounds."""
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
    """The bindings of gin that ask for a mixture."""
    names = ("temperature", "max_epochs", "examples")
    values = ((name, getattr(mixture, name)) for name in names)
    return "\n".join(
        f"mixing.Mixing.{name} = {value:g}" if isinstance(value, float) else
        f"mixing.Mixing.{name} = {value}"
        for name, value in values if value is not None
    )  # fmt: skip
