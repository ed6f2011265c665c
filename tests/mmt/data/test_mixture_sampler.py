"""A sampler keeps its rates from the first draws on, and `permute` permutes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt.data import mixing, mixture_sampler
from mmt.data.mixture_sampler import MixtureSampler, permute
from tests.mmt.data.test_mixing import power_law

DRAWS = 200_000


@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_110_languages_have_their_rate_in_200_000_draws_and_early(temperature):
    shares = np.array(list(mixing.mixing_rates(power_law(110), temperature).values()))
    drawn, _ = MixtureSampler(shares.tolist()).at(np.arange(DRAWS))
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
    drawn, counted = MixtureSampler(weights).at(np.arange(math.ceil(1 / shares.min())))
    languages, first = np.unique(drawn, return_index=True)
    assert len(languages) == len(weights)
    assert (first < np.ceil(1 / shares - 1e-9)).all()
    assert (counted[first] == 0).all()


def test_a_sampler_has_random_access_and_counts_appearances():
    schedule = MixtureSampler(list(mixing.mixing_rates(power_law(1000), 1.43).values()))
    drawn, counted = schedule.at(np.arange(30_000))
    for component in (0, 500, 999):
        assert counted[drawn == component].tolist() == list(range((drawn == component).sum()))
    draws = np.random.default_rng(0).integers(0, 30_000, 1000)
    fresh = MixtureSampler(list(mixing.mixing_rates(power_law(1000), 1.43).values()))
    again, counted_again = fresh.at(draws)
    np.testing.assert_array_equal(again, drawn[draws])
    np.testing.assert_array_equal(counted_again, counted[draws])
    far = np.arange(10**12, 10**12 + 5000)  # cheap however far out
    np.testing.assert_array_equal(schedule.at(far)[0][::-1], fresh.at(far[::-1].copy())[0])


def test_a_sampler_refuses_rates_of_zero():
    for rates in ([], [0.5, 0.0]):
        with pytest.raises(ValueError, match="positive rates"):
            MixtureSampler(rates)


@given(st.integers(1, 500), st.integers(0, 2**64 - 1))
def test_permute_permutes(size, key):
    keys = np.full(size, key, np.uint64)
    permuted = permute(np.arange(size), np.full(size, size), keys)
    assert sorted(permuted.tolist()) == list(range(size))


def test_permutations_are_even_and_unlike_each_other():
    keys = np.random.default_rng(0).integers(0, 2**64, 20_000, np.uint64)
    for size in (2, 3, 7, 100):
        for index in (0, size - 1):
            sizes = np.full(len(keys), size)
            permuted = permute(np.full(len(keys), index), sizes, keys)
            expected = len(keys) / size
            chi2 = ((np.bincount(permuted, minlength=size) - expected) ** 2 / expected).sum()
            assert chi2 < size - 1 + 8 * math.sqrt(2 * size - 2)  # eight standard deviations
    size = 10_000
    index, sizes = np.arange(size), np.full(size, size)
    first, second = (permute(index, sizes, np.full(size, k)) for k in keys[:2])
    for left, right in ((first, second), (first, index), (first[1:], first[:-1])):
        assert abs(np.corrcoef(left, right)[0, 1]) < 0.05
    huge = np.full(3, 10**15)
    assert (permute(np.arange(3), huge, keys[:3]) < 10**15).all()


def test_keys_reach_all_orders_of_a_small_language():
    keys = np.arange(2_000, dtype=np.uint64).repeat(4)
    orders = permute(np.tile(np.arange(4), 2_000), np.full(8_000, 4), keys).reshape(-1, 4)
    assert len(np.unique(orders, axis=0)) == 24


@pytest.mark.parametrize("count", [1, 2, 30, 300])
@pytest.mark.parametrize("kind", ["equal", "random", "far"])
def test_first_draws_are_counted_as_by_definition(count, kind, monkeypatch):
    monkeypatch.setattr(mixture_sampler, "_SORTED", 3)  # small components are counted one by one
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
    assert mixture_sampler._first_draws(share, phase).tolist() == by_definition
