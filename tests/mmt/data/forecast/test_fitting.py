"""Fitted mixtures keep their bounds by their forecast; impossible bounds are errors with proposals.
"""

import re

import pytest

from mmt.data import mixing
from mmt.data.forecast import fitting, forecast
from tests.mmt.data.forecast.conftest import COUNTS, STEPS


@pytest.mark.parametrize("most", [3.0, 7.31])
def test_a_cap_is_kept(make, most):
    mixture = fitting.cap_mixture(make, mixing.Mixing(max_epochs=most), STEPS)
    assert fitting.cap_mixture(make, mixture, STEPS) is mixture
    foreseen = forecast.forecast(make(mixture), STEPS)
    worst = max(row["epochs"] for row in foreseen.rows)
    assert most * 0.9 < worst <= most
    assert not foreseen.notes


@pytest.mark.parametrize(
    "bounds",
    ["epochs<=4,share>=0.01", "share >= 30%", "epochs<=2.5", "epochs<=1", "share>=0.33333333333"],
)
def test_a_fitted_mixture_keeps_its_bounds(make, bounds):
    mixture, expected = fitting.fit(make, bounds, mixing.Mixing(temperature=3.0), STEPS)
    most, least = {
        "epochs<=4,share>=0.01": (4, 0.01), "share >= 30%": (1e9, 0.3), "epochs<=2.5": (2.5, 0),
        "epochs<=1": (1, 0), "share>=0.33333333333": (1e9, 0.33333333333),
    }[bounds]  # fmt: skip
    assert mixture.temperature >= 3.0
    again = forecast.forecast(make(mixture), STEPS)
    assert again == expected
    assert max(row["epochs"] for row in again.rows) <= most
    assert min(row["share"] for row in again.rows) >= least * (1 - 1e-6)
    assert sum(row["share"] for row in again.rows) == pytest.approx(1)
    if least == 0.3:  # and no higher than it must be
        lower = mixing.Mixing(temperature=mixture.temperature * 0.97).rates(COUNTS)
        assert min(lower.values()) < 0.3
        assert mixture.max_epochs is None


def test_new_languages_are_refused(make):
    start = mixing.Mixing(new_languages=["yor"], rehearsal=0.3)
    with pytest.raises(ValueError, match=r"--fit and new_languages = \['yor'\]: .* 0\.7; bind"):
        fitting.fit(make, "share>=0.1", start, STEPS)


@pytest.mark.parametrize(
    ("bounds", "steps", "message"),
    [
        ("share>=0.5", STEPS, "3 languages; possible: share>=0.333"),
        ("epochs<=0.1", STEPS, r"epochs<=0.1 cannot be satisfied.*possible: epochs<=.* \d+ steps"),
        ("epochs<=2,share>=0.3", STEPS, "yor_Latn has 30 examples.* or without yor_Latn"),
        ("epoch<=2", STEPS, "no bound 'epoch<=2'; allowed: epochs<=N and share>=N"),
        ("epochs<=2;share>=1", STEPS, "no bound"),
        ("share<=2", STEPS, "no bound"),
        ("epochs<=0", STEPS, "no bound"),
        ("", STEPS, "--fit '': no bound ''; allowed: epochs<=N"),
        ("epochs<=60,epochs<=1000", STEPS, "two bounds of epochs; allowed: one of each"),
        ("epochs<=1", 0, "steps is 0; allowed: 1 to 125,000,000,000, which is"),
        ("epochs<=1", 10**20, "steps is 100000000000000000000; allowed: 1 to 125,000,000,000"),
    ],
)
def test_impossible_bounds_are_errors_that_propose_possible_ones(make, bounds, steps, message):
    with pytest.raises(ValueError, match=message):
        fitting.fit(make, bounds, mixing.Mixing(), steps)


@pytest.mark.parametrize(
    ("bounds", "steps", "lines"),
    [
        ("epochs<=2,share>=0.3", STEPS, 4),
        ("epochs<=1", 430, 2),
        ("share>=0.4,epochs<=1000", STEPS, 1),
    ],
)
def test_proposed_bounds_are_possible(make, bounds, steps, lines):
    with pytest.raises(ValueError) as raised:
        fitting.fit(make, bounds, mixing.Mixing(), steps)
    possible = str(raised.value).split("possible: ")[1].split(", or ")
    assert len(possible) == lines
    for option in possible:
        languages = [*COUNTS][:2] if option == "without yor_Latn" else None
        bound, number = re.split("(?<==)", option) if "=" in option else (option, "")
        parts = bounds.split(",")
        proposed = ",".join(option if part.startswith(bound) else part for part in parts)
        few = int(option.split()[0].replace(",", "")) if option.endswith(" steps") else steps
        mixture, foreseen = fitting.fit(make, proposed, mixing.Mixing(languages=languages), few)
        assert mixture and number in proposed and foreseen.steps == few
