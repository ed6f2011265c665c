"""Shares against their definition."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmt.data import mixing


def power_law(languages: int, largest: int = 20_000, smallest: int = 100) -> dict[str, int]:
    steps = np.linspace(0, 1, languages)
    return {f"l{i}": int(largest * (smallest / largest) ** x) for i, x in enumerate(steps)}


def test_rates_are_the_power_of_the_counts():
    counts = {"deu": 32, "swh": 1, "fra": 243}
    rates = {"deu": 2 / 6, "swh": 1 / 6, "fra": 3 / 6}
    assert mixing.mixing_rates(counts, 5.0) == pytest.approx(rates)
    rates = {code: count / 276 for code, count in counts.items()}
    assert mixing.mixing_rates(counts, 1.0) == pytest.approx(rates)
    assert mixing.mixing_rates(counts, 1e9) == pytest.approx(dict.fromkeys(counts, 1 / 3))
    assert mixing.mixing_rates(counts | {"none": 0})["none"] == 0


@given(
    st.lists(st.integers(1, 10**9), min_size=1, max_size=30),
    st.floats(1.0, 100.0),
    st.floats(1.0, 20.0),
)
def test_cap_is_kept_and_the_excess_shared_in_proportion(counts, temperature, epochs):
    named = {str(i): count for i, count in enumerate(counts)}
    budget = sum(counts)  # epochs >= 1, so that the caps leave room
    rates = mixing.mixing_rates(named, temperature, max_epochs=epochs, examples=budget)
    assert math.isclose(sum(rates.values()), 1, rel_tol=1e-9)
    cap = {name: epochs * count / budget for name, count in named.items()}
    assert all(rates[name] <= cap[name] * (1 + 1e-9) for name in named)
    free = mixing.mixing_rates(named, temperature)
    ratios = [rates[name] / free[name] for name in named if rates[name] < cap[name] * (1 - 1e-6)]
    if ratios:  # all below their cap grew by one factor, which is at least 1
        assert min(ratios) == pytest.approx(max(ratios))
        assert min(ratios) >= 1 - 1e-9


def test_budget_beyond_all_caps_is_an_error():
    with pytest.raises(ValueError, match=r"every language reaches its cap.*20\.0%"):
        mixing.mixing_rates({"deu": 100, "swh": 100}, max_epochs=1.0, examples=1000)


@pytest.mark.parametrize(
    ("counts", "options", "message"),
    [
        ({}, {}, "empty"),
        ({"deu": 0}, {}, "empty"),
        ({"deu": 1, "swh": -1}, {}, "swh.*negative"),
        ({"deu": 1}, {"temperature": 0.0}, "temperature must be positive"),
        ({"deu": 1}, {"max_epochs": 2.0}, "needs examples"),
        ({"deu": 1}, {"max_epochs": -2.0, "examples": 3}, "max_epochs must be positive"),
    ],
)
def test_bad_mixtures_are_errors(counts, options, message):
    with pytest.raises(ValueError, match=message):
        mixing.mixing_rates(counts, **options)


def test_mixing_chooses_languages_by_any_name():
    counts = {"deu_Latn": 32, "swh_Latn": 1, "fra_Latn": 7}
    chosen = mixing.Mixing(languages=("Swahili", "de"))
    assert chosen.rates(counts) == pytest.approx({"deu_Latn": 2 / 3, "swh_Latn": 1 / 3})
    assert list(mixing.Mixing().rates(counts)) == list(counts)
    with pytest.raises(ValueError, match="'deu_Ltn'.*nearest: deu_Latn"):
        dataclasses.replace(chosen, languages=("deu_Ltn",)).rates(counts)
    with pytest.raises(ValueError, match="'Japanese' is not among the 3 languages"):
        dataclasses.replace(chosen, languages=["Japanese"]).rates(counts)
    with pytest.raises(ValueError, match="empty"):
        dataclasses.replace(chosen, languages=()).rates(counts)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": "x"}, "temperature = 'x'; allowed: float$"),
        ({"temperature": None}, "temperature = None; allowed: float$"),
        ({"temperature": True}, "temperature = True; allowed: float$"),
        ({"temperature": -1.0}, "temperature = -1.0; allowed: above 0$"),
        ({"temperature": float("nan")}, "temperature = nan; allowed: above 0$"),
        ({"max_epochs": "a"}, r"max_epochs = 'a'; allowed: float \| None$"),
        ({"max_epochs": 0}, "max_epochs = 0; allowed: above 0, or None$"),
        ({"examples": -4}, "examples = -4; allowed: 1 or more, or None$"),
        ({"examples": 0}, "examples = 0; allowed: 1 or more, or None$"),
        ({"at_least": "x"}, "at_least = 'x'; allowed: int$"),
        ({"at_least": -5}, "at_least = -5; allowed: 0 or more$"),
        ({"languages": 5}, r"languages = 5; allowed: list\[str\] \| None$"),
        ({"languages": "deu"}, r"languages = 'deu'; allowed: list\[str\] \| None$"),
        ({"monolingual": "x"}, r"monolingual = 'x'; allowed: float \| None$"),
    ],
)
def test_impossible_mixtures_are_errors(wrong, message, as_users_have_it):
    with pytest.raises(ValueError, match=f"^Mixing.{message}"):
        mixing.Mixing(**wrong)
    assert mixing.Mixing(examples=10**12, max_epochs=1).examples == 10**12


BOTH = {"deu_Latn": 900, "swh_Latn": 30, "deu_Latn.monolingual": 5000, "eng_Latn.monolingual": 50}


@pytest.mark.parametrize(("monolingual", "part"), [(None, 0.5), (0.2, 0.2), (1.0, 1.0), (0.0, 0.0)])
def test_monolingual_text_has_its_fraction(monolingual, part):
    mixture = mixing.Mixing(monolingual=monolingual)
    rates = mixture.rates({code: BOTH[code] for code in mixture.choose(list(BOTH))})
    text = {code: share for code, share in rates.items() if mixing.is_monolingual(code)}
    pairs = {code: share for code, share in rates.items() if code not in text}
    for group, whole in ((text, part), (pairs, 1 - part)):
        alone = mixing.mixing_rates({code: BOTH[code] for code in group}, 5.0) if group else {}
        assert group == pytest.approx({code: share * whole for code, share in alone.items()})
    assert sum(rates.values()) == pytest.approx(1)


def test_caps_and_languages_hold_for_pairs_and_text_alike():
    capped = mixing.Mixing(monolingual=0.5, max_epochs=2.0, examples=1000)
    rates = capped.rates(BOTH)
    assert all(rates[code] * 1000 <= 2 * BOTH[code] * (1 + 1e-9) for code in BOTH)
    german = mixing.Mixing(languages=["German"])
    assert german.choose(list(BOTH)) == ["deu_Latn", "deu_Latn.monolingual"]
    assert mixing.language_of(mixing.monolingual("deu_Latn")) == "deu_Latn"
    assert mixing.Mixing(monolingual=0.0, languages=["de"]).choose(list(BOTH)) == ["deu_Latn"]
    with pytest.raises(ValueError, match=r"monolingual is 1\.0, but the data has only pairs"):
        mixing.Mixing(monolingual=1.0).choose(["deu_Latn"])
    with pytest.raises(ValueError, match="'fra' is not among the 3 languages"):
        mixing.Mixing(languages=["fra"]).choose(list(BOTH))


NEW = {"kat_Geor": 9, "pol_Latn": 4}


def test_new_languages_get_what_rehearsal_leaves():
    old = {"deu_Latn": 1000, "fra_Latn": 100, "swh_Latn": 3}
    mixture = mixing.Mixing(
        temperature=2.0, at_least=5, max_epochs=40.0, examples=10_000,
        new_languages=["Georgian", "pl"], rehearsal=0.3,
    )  # fmt: skip
    rates = mixture.rates(old | NEW)
    before = dataclasses.replace(mixture, new_languages=()).rates(old)
    for code, rate in before.items():
        assert rates[code] == pytest.approx(0.3 * rate)
    assert rates["kat_Geor"] == pytest.approx(0.7 * 3 / 5)  # neither cap nor minimum
    assert rates["pol_Latn"] == pytest.approx(0.7 * 2 / 5)
    assert "swh_Latn" not in rates and sum(rates.values()) == pytest.approx(1)
    of_one = dataclasses.replace(mixture, at_least=0, max_epochs=None, languages=["swh"])
    assert set(of_one.rates(old | NEW)) == {"swh_Latn", *NEW}


def test_the_cap_of_old_languages_counts_the_draws_that_they_get():
    old = {"deu_Latn": 300, "fra_Latn": 100}
    mixture = mixing.Mixing(
        temperature=5.0, max_epochs=2.0, examples=1000, new_languages=["pl"], rehearsal=0.5
    )
    rates = mixture.rates(old | {"pol_Latn": 4})
    alone = mixing.mixing_rates(old, 5.0, max_epochs=2.0, examples=500)
    expected = {code: rate / 2 for code, rate in alone.items()} | {"pol_Latn": 0.5}
    assert rates == pytest.approx(expected)
    assert rates["fra_Latn"] * 1000 / 100 == pytest.approx(2.0)


def test_new_text_is_mixed_among_the_new():
    counts = {"deu_Latn": 4, "deu_Latn.monolingual": 4, "kat_Geor": 9}
    rates = mixing.Mixing(monolingual=0.25, new_languages=["kat"], rehearsal=0.8).rates(counts)
    assert rates == pytest.approx(
        {"deu_Latn": 0.6, "deu_Latn.monolingual": 0.2, "kat_Geor": 0.2}
    )


def test_new_languages_must_be_in_the_data(as_users_have_it):
    message = "mixing.Mixing.new_languages: language 'Georgian' is not among the 1 languages"
    with pytest.raises(ValueError, match=message):
        mixing.Mixing(new_languages=["Georgian"]).rates({"deu_Latn": 3})
    with pytest.raises(ValueError, match="rehearsal = 1.0; allowed: 0 < x < 1"):
        mixing.Mixing(rehearsal=1.0)
