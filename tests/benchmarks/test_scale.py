"""benchmarks/scale: the stream of pairs, the fit, and all measurements at a small size."""

import numpy as np
import pytest

from benchmarks.scale import __main__ as scale
from benchmarks.scale import costs, curves, made_up


def test_sizes_fall_geometrically_to_the_given_total():
    sizes = made_up.sizes(scale.GOAL, 100)
    each = np.array(list(sizes.values()))
    assert each.sum() == scale.GOAL and 2e9 < each[0] < 4e9
    np.testing.assert_allclose(each[1:-1] / each[2:], made_up.RATIO ** (1 / 99), rtol=1e-3)
    assert min(made_up.sizes(1000, 100).values()) == 1
    with pytest.raises(ValueError, match="99 pairs are too few for 100 languages"):
        made_up.sizes(99, 100)


def test_text_has_the_number_of_pairs_the_length_and_zipf_frequencies():
    pairs = [pair for group in made_up.texts(1, 5000, 18) for pair in group]
    assert len(pairs) == 5000
    assert pairs == [pair for group in made_up.texts(1, 5000, 18) for pair in group]
    words = [side.split(" ") for pair in pairs for side in pair]
    assert 17 <= np.median([len(side) for side in words]) <= 19
    _, counts = np.unique([word for side in words for word in side], return_counts=True)
    assert len(counts) > 5000 and np.sort(counts)[-10:].sum() > 0.15 * counts.sum()


def test_lengths_are_streamed_for_any_number_of_pairs():
    parts = list(made_up.token_lengths(3, (1 << 20) + 5))
    assert [len(part) for part in parts] == [1 << 20, 5]
    assert 22 <= np.median(parts[0]) <= 25 and parts[0].min() >= 1


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_a_power_law_with_a_fixed_part_is_found_and_extrapolated(exponent):
    noise = 1 + 0.02 * np.random.default_rng(0).standard_normal(6)
    sizes = [10**n for n in range(2, 8)]
    points = {1: 3.0} | {
        size: 3.0 + 2.0 * size**exponent * factor
        for size, factor in zip(sizes, noise, strict=True)
    }
    curve = curves.fit(points)
    assert abs(curve.exponent - exponent) < 0.01 and curve.steep == (exponent > 1.05)
    low, high = curve.interval(1e10)
    assert low < 2.0 * 1e10**exponent < high < 2 * low


def test_what_does_not_grow_is_constant():
    curve = curves.fit({10: 4.0, 100: 4.1, 1000: 3.9, 10_000: 4.2})
    assert (curve.exponent, curve.at(1e10)) == (0.0, 4.2)
    assert curve.interval(1e10) == (3.9, 4.2)
    with pytest.raises(ValueError, match="three sizes"):
        curves.fit({10: 4.0, 100: 4.1})


@pytest.mark.slow
def test_the_costs_of_two_hundred_pairs(tmp_path):
    folder = tmp_path / "cache"
    cached = costs.caching(folder, 200, 3, made_up.SHORT)
    assert cached["cache: files of records"] == 3
    assert not (folder / "text").exists()
    started, resumed, read = (cost(folder) for cost in
                              (costs.starting, costs.resuming, costs.reading))  # fmt: skip
    assert read["readers: open files"] == 3
    rows = scale.rows_of("pairs", 200, cached | started | resumed | read)
    assert all(np.isfinite(row["value"]) for row in rows)


def test_an_index_without_records_is_opened_and_resumed(tmp_path):
    costs.index(tmp_path / "cache", 2000, 3)
    assert costs.starting(tmp_path / "cache")["start: time"] > 0
    assert costs.resuming(tmp_path / "cache")["resume: time"] > 0


def test_table_marks_what_grows_faster_than_linear():
    rows = [
        row for size in (10, 100, 1000, 10_000)
        for row in scale.rows_of("made up", size, {"good": size * 1.0, "bad": size**1.2})
    ]  # fmt: skip
    columns = {column.header: list(column.cells) for column in scale.table(rows).columns}
    exponents = dict(zip(columns["quantity"], columns["exponent"], strict=True))
    assert exponents["good"].strip() == "1.00" and "steep" in exponents["bad"]
