"""Series with fewer points: no peak is lost, values survive 16 bits, overfitting is found."""

import base64

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt.watch import series
from mmt.watch.run_metrics import RunMetrics
from mmt.watch.series import METRICS, Series, binned
from tests.mmt.watch.conftest import SIZE


def decoded(content, name, width):
    raw = np.frombuffer(base64.b64decode(content[name]), "<u2").reshape(width, -1).T
    scale = (content["most"] - content["least"]) / (series.EMPTY - 1)
    return np.where(raw == series.EMPTY, np.nan, content["least"] + raw * scale)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_bins_cover_every_row_once_and_keep_extremes(count, columns, seed):
    random = np.random.default_rng(seed)
    steps = np.cumsum(random.integers(1, 50, count))
    values = random.normal(0, 1, (count, 3)).astype(np.float32)
    values[random.random((count, 3)) < 0.3] = np.nan
    bins = binned(Series(steps, values), columns)
    assert len(bins.edges) == min(columns, count) + 1 and np.all(np.diff(bins.edges) > 0)
    place = np.searchsorted(bins.edges, steps) - 1  # edges[i] < step <= edges[i + 1]
    for number in range(len(bins.edges) - 1):
        part = values[place == number]
        for column in range(3):
            known = part[~np.isnan(part[:, column]), column]
            got = (bins.mean[number, column], bins.low[number, column], bins.high[number, column])
            if len(known):
                expected = known.mean(), known.min(), known.max()
                np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)
            else:
                assert np.isnan(got).all()


def test_sixteen_bits_are_enough():
    random = np.random.default_rng(0)
    values = random.uniform(0.5, 11, (50, 4)).astype(np.float32)
    values[3, 1], values[4, 2] = np.nan, np.inf
    bins = binned(Series(np.arange(1, 51), values), 100)
    content = bins.as_json(bands=True)
    for name in ("mean", "low", "high"):
        np.testing.assert_allclose(
            decoded(content, name, 4), np.where(np.isfinite(values), values, np.nan), atol=1e-4
        )
    assert set(bins.as_json(bands=False)) == {"edges", "least", "most", "mean"}


def test_no_rows_and_one_value():
    none = binned(Series(np.zeros(0, np.int64), np.zeros((0, 2), np.float32)), 10)
    assert none.as_json(bands=True)["mean"] == "" and none.edges.tolist() == [0]
    one = binned(Series(np.array([500]), np.full((1, 2), 3.0, np.float32)), 10)
    assert one.edges.tolist() == [0, 500]
    np.testing.assert_array_equal(decoded(one.as_json(bands=False), "mean", 2), [[3.0, 3.0]])


def metrics_of(tmp_path, validation, training=()):
    metrics = RunMetrics(tmp_path / "none")
    for field, rows in (("language_validation_loss", validation), ("language_loss", training)):
        for number, loss in enumerate(rows, 1):
            metrics._add({"step": 100 * number, field: {"deu_Latn": loss}})
    return metrics


FALLING = [3.0 - number / 10 for number in range(8)]


@pytest.mark.parametrize(
    ("validation", "training", "onset"),
    [
        ([5, 4, 3, 3.2, 3.3, 3.4], FALLING, 300),
        ([5, 4, 3, 3.2, 3.3, 3.4], [], 300),  # training loss is not logged
        ([5, 4, 3, 3.2, 3.3, 3.4], FALLING[::-1], None),  # both get worse: it diverges
        ([5, 4, 3, 3.2, 3.3], FALLING, None),  # too few measurements since
        ([5, 4, 3, 3.01, 3.02, 3.01], FALLING, None),  # within 1 %
        ([5, 4, 3, 3.2, 2.9, 3.4], FALLING, None),  # a new best one
        ([5, 4, 3, 2.9], FALLING, None),
        ([3, 4, 5, 6], FALLING, 100),
        ([4, 3, 3.5, float("nan"), 3.5, 3.6], FALLING, 200),  # one measurement left out
    ],
)
def test_onset_of_overfitting(validation, training, onset, tmp_path):
    found = series.overfitting(metrics_of(tmp_path, validation, training))
    assert {column: each.onset for column, each in found.items()} == ({0: onset} if onset else {})


def test_derived_metrics(made_up):
    metrics = RunMetrics(made_up / "metrics.jsonl")
    while metrics.read():
        pass
    tokens = metrics.by_language["language_tokens"].values
    share = series.of_languages(metrics, "share", None)
    np.testing.assert_allclose(share.values.sum(axis=1), 100, rtol=1e-5)
    rate = series.of_languages(metrics, "rate", None)
    np.testing.assert_allclose(rate.values.sum(axis=1), 100, rtol=1e-5)
    np.testing.assert_allclose(rate.values, 100 * SIZE._shares[None] * np.ones((20, 1)), rtol=0.01)
    epoch = np.full(len(metrics.languages), 1e6)
    epoch[3] = np.nan
    epochs = series.of_languages(metrics, "epochs", epoch).values
    np.testing.assert_allclose(epochs[-1, :3], tokens.sum(axis=0)[:3] / 1e6, rtol=1e-5)
    assert np.isnan(epochs[:, 3]).all() and np.all(np.diff(epochs[:, 0]) > 0)
    assert series.of_languages(metrics, "epochs", None) is None
    above = series.of_languages(metrics, "overfitting", None).values[:, :-1]
    assert above.min() == 0 and above[-1].argmax() in (3, 10)  # those that overfit
    assert series.of_languages(metrics, "source_use", None) is None
    assert all(metric.name == name for name, metric in METRICS.items())
