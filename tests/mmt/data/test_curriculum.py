"""Changes of rates inside the last stage; tests/mmt/data/test_stages.py has the stages."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt.data.curriculum import CurriculumSampler, RateChange
from mmt.data.mixing import Mixing
from mmt.data.stages import Stage

COUNTS = {"deu_Latn": 400, "fra_Latn": 90, "swh_Latn": 25, "yor_Latn": 11}
CODES = list(COUNTS)
FACTORS = st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_size=2, max_size=2)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 1500), FACTORS), max_size=4), st.booleans())
def test_changes_keep_the_order_of_every_language(made, staged):
    """However rates change, a language's examples come one after the other, and all are counted."""
    stages = [Stage({"examples": 200}, Mixing(languages=["deu", "swh"]))] * staged + [Stage()]
    changes = [
        RateChange(draw, {"deu_Latn": 1.0, "fra_Latn": first, "swh_Latn": second})
        for draw, (first, second) in sorted(made)
    ]
    sampler = CurriculumSampler(stages, COUNTS, changes=changes)
    languages, appearances, which = sampler.at(np.arange(2000))
    start = 200 * staged
    assert sampler.last_start() == start
    assert np.array_equal(which, (np.arange(2000) >= start) * staged)
    for number in range(len(CODES)):
        own = np.flatnonzero(languages == number)
        assert appearances[own].tolist() == list(range(len(own)))
        for place in own[::37].tolist():
            assert sampler.when(number, int(appearances[place])) == place
            assert sampler.before(place)[number] == appearances[place]
    planned = sampler.planned_rates()
    for draw in range(start, 2000, 111):
        past = [change for change in changes if max(change.draw, start) <= draw]
        rates = sampler.rates(draw)
        assert rates["yor_Latn"] == planned["yor_Latn"]  # in no change
        assert sum(rates.values()) == pytest.approx(1)
        for code, factor in past[-1].factors.items() if past else ():
            ratio = rates[code] / planned[code] * planned["deu_Latn"] / rates["deu_Latn"]
            assert ratio == pytest.approx(factor)
    np.testing.assert_allclose(
        sampler.expected(2000), sampler.before(2000), atol=2 * len(made) + 4
    )


def test_without_changes_the_sampler_is_as_it_was():
    plain = CurriculumSampler([Stage()], COUNTS)
    ones = [RateChange(0, dict.fromkeys(CODES, 1.0))]
    changed = CurriculumSampler([Stage()], COUNTS, changes=ones)
    for one, other in zip(plain.at(np.arange(3000)), changed.at(np.arange(3000)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert plain.resumed([], ones).changes == tuple(ones)
