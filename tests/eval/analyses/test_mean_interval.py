"""The interval of a mean against a bootstrap by hand."""

import numpy as np

from eval.analyses.mean_interval import mean_interval


def test_the_interval_of_a_mean_is_that_of_a_bootstrap():
    values = np.random.default_rng(1).normal(5, 2, 60).tolist()
    low, high = mean_interval(values)
    assert mean_interval(values) == (low, high) and mean_interval(values[:4]) is None
    assert mean_interval([3.0] * 5) == (3, 3)
    rng = np.random.default_rng(7)
    means = [rng.choice(values, len(values)).mean() for _ in range(4000)]
    np.testing.assert_allclose([low, high], np.percentile(means, [2.5, 97.5]), atol=0.05)
