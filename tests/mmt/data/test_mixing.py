"""Shares against their definition, the schedule's promises, and that `permute` permutes."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt.data import mixing

DRAWS = 200_000


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


@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_110_languages_have_their_rate_in_200_000_draws_and_early(temperature):
    shares = np.array(list(mixing.mixing_rates(power_law(110), temperature).values()))
    drawn, _ = mixing.MixtureSampler(shares.tolist()).at(np.arange(DRAWS))
    realised = np.bincount(drawn, minlength=110) / DRAWS
    np.testing.assert_allclose(realised, shares, rtol=0.02)
    languages, first = np.unique(drawn, return_index=True)
    assert len(languages) == 110
    assert (first < np.ceil(1 / shares)).all()
    # The rarest third, taken together, has its share early, not only in the long run.
    early = np.isin(drawn[:2_000], np.argsort(shares)[:37]).mean()
    assert early == pytest.approx(np.sort(shares)[:37].sum(), rel=0.15)


@settings(deadline=None)
@given(st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=40))
def test_every_language_is_drawn_within_its_first_expected_period(weights):
    shares = np.array(weights) / sum(weights)
    drawn, counted = mixing.MixtureSampler(weights).at(np.arange(math.ceil(1 / shares.min())))
    languages, first = np.unique(drawn, return_index=True)
    assert len(languages) == len(weights)
    assert (first < np.ceil(1 / shares - 1e-9)).all()
    assert (counted[first] == 0).all()


def test_a_sampler_has_random_access_and_counts_appearances():
    schedule = mixing.MixtureSampler(list(mixing.mixing_rates(power_law(1000), 1.43).values()))
    drawn, counted = schedule.at(np.arange(30_000))
    for component in (0, 500, 999):
        assert counted[drawn == component].tolist() == list(range((drawn == component).sum()))
    draws = np.random.default_rng(0).integers(0, 30_000, 1000)
    fresh = mixing.MixtureSampler(list(mixing.mixing_rates(power_law(1000), 1.43).values()))
    again, counted_again = fresh.at(draws)
    np.testing.assert_array_equal(again, drawn[draws])
    np.testing.assert_array_equal(counted_again, counted[draws])
    far = np.arange(10**12, 10**12 + 5000)  # cheap however far out
    np.testing.assert_array_equal(schedule.at(far)[0][::-1], fresh.at(far[::-1].copy())[0])


def test_a_sampler_refuses_rates_of_zero():
    for rates in ([], [0.5, 0.0]):
        with pytest.raises(ValueError, match="positive rates"):
            mixing.MixtureSampler(rates)


@given(st.integers(1, 500), st.integers(0, 2**64 - 1))
def test_permute_permutes(size, key):
    keys = np.full(size, key, np.uint64)
    permuted = mixing.permute(np.arange(size), np.full(size, size), keys)
    assert sorted(permuted.tolist()) == list(range(size))


def test_permutations_are_even_and_unlike_each_other():
    keys = np.random.default_rng(0).integers(0, 2**64, 20_000, np.uint64)
    for size in (2, 3, 7, 100):
        for index in (0, size - 1):
            sizes = np.full(len(keys), size)
            permuted = mixing.permute(np.full(len(keys), index), sizes, keys)
            expected = len(keys) / size
            chi2 = ((np.bincount(permuted, minlength=size) - expected) ** 2 / expected).sum()
            assert chi2 < size - 1 + 8 * math.sqrt(2 * size - 2)  # eight standard deviations
    size = 10_000
    index, sizes = np.arange(size), np.full(size, size)
    first, second = (mixing.permute(index, sizes, np.full(size, k)) for k in keys[:2])
    for left, right in ((first, second), (first, index), (first[1:], first[:-1])):
        assert abs(np.corrcoef(left, right)[0, 1]) < 0.05
    huge = np.full(3, 10**15)
    assert (mixing.permute(np.arange(3), huge, keys[:3]) < 10**15).all()


def test_keys_reach_all_orders_of_a_small_language():
    keys = np.arange(2_000, dtype=np.uint64).repeat(4)
    orders = mixing.permute(np.tile(np.arange(4), 2_000), np.full(8_000, 4), keys).reshape(-1, 4)
    assert len(np.unique(orders, axis=0)) == 24


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


def test_new_text_is_mixed_among_the_new():
    counts = {"deu_Latn": 4, "deu_Latn.monolingual": 4, "kat_Geor": 9}
    rates = mixing.Mixing(monolingual=0.25, new_languages=["kat"], rehearsal=0.8).rates(counts)
    assert rates == pytest.approx(
        {"deu_Latn": 0.6, "deu_Latn.monolingual": 0.2, "kat_Geor": 0.2}
    )


def test_new_languages_must_be_in_the_data(as_users_have_it):
    with pytest.raises(ValueError, match="'Georgian' is not among the 1 languages"):
        mixing.Mixing(new_languages=["Georgian"]).rates({"deu_Latn": 3})
    with pytest.raises(ValueError, match="rehearsal = 1.0; allowed: 0 < x < 1"):
        mixing.Mixing(rehearsal=1.0)


@pytest.mark.parametrize("count", [1, 2, 30, 300])
@pytest.mark.parametrize("kind", ["equal", "random", "far"])
def test_first_draws_are_counted_as_by_definition(count, kind, monkeypatch):
    monkeypatch.setattr(mixing, "_SORTED", 3)  # those of small components are counted one by one
    random = np.random.default_rng(count)
    rates = {"equal": np.ones(count), "random": random.random(count) + 1e-3,
             "far": 1e5 ** -np.linspace(0, 1, count)}[kind]  # fmt: skip
    share, phase = -np.sort(-rates / rates.sum()), random.integers(0, 4, count) / 4
    first = phase / share
    by_definition = [
        sum(np.sum((np.arange(time * p + 2) + start) / p < time)
            for p, start in zip(share, phase, strict=True)) + np.sum(first[:rank] == time)
        for rank, time in enumerate(first.tolist())
    ]  # fmt: skip
    assert mixing._first_draws(share, phase).tolist() == by_definition
