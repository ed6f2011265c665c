"""Late entry: simulated example by example, each late language is shown as often as the bound."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt.data.schedule.late import entries

SIZES = {"a": 50_000, "b": 4_000, "c": 900, "d": 900, "e": 40}


def simulated(weights, late, examples):
    """How often each language is shown if it takes part in the last `late` examples, or in all."""
    seen = dict.fromkeys(weights, 0.0)
    bounds = sorted({0.0, float(examples), *(examples - left for left in late.values())})
    for start, end in zip(bounds, bounds[1:], strict=False):
        middle = (start + end) / 2
        present = [name for name in weights if middle >= examples - late.get(name, examples)]
        whole = sum(weights[name] for name in present)
        for name in present:
            seen[name] += (end - start) * weights[name] / whole
    return seen


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.floats(0.01, 1), min_size=5, max_size=5), st.floats(100, 200_000),
    st.floats(0.5, 20), st.sets(st.sampled_from("abcde")),
)  # fmt: skip
def test_late_languages_are_shown_as_often_as_the_bound(weights, examples, epochs, candidates):
    weights = dict(zip(SIZES, weights, strict=True))
    late = entries(weights, SIZES, candidates, examples, epochs)
    assert set(late) <= candidates and len(late) < len(SIZES)
    seen = simulated(weights, late, examples)
    for name in late:
        assert 0 < late[name] < examples
        assert seen[name] == pytest.approx(epochs * SIZES[name], rel=1e-6)
    if len(late) < len(SIZES) - 1:  # else the last one has all that is left
        for name in candidates - set(late):
            assert seen[name] <= epochs * SIZES[name] * (1 + 1e-6)


def test_a_later_plan_keeps_the_entries_that_are_left():
    weights = {"a": 0.5, "b": 0.3, "c": 0.1, "d": 0.1, "e": 0.1}
    whole = entries(weights, SIZES, set(SIZES), 60_000.0, 3.0)
    assert len(whole) == 4
    entered = max(whole, key=whole.get)
    rest = entries(weights, SIZES, set(whole) - {entered}, whole[entered], 3.0)
    assert rest == {name: left for name, left in whole.items() if name != entered}
