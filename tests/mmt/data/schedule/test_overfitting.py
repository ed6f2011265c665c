"""The onset of overfitting; tests/mmt/watch/test_series.py has the cases of a run's metrics."""

import pytest

from mmt.data.schedule.overfitting import Losses, overfitting

STEPS = [10, 20, 30, 40, 50]
UP = Losses(STEPS, [3.0, 2.0, 2.1, 2.2, 2.3])


@pytest.mark.parametrize(("patience", "found"), [(1, True), (3, True), (4, False)])
def test_patience_is_the_number_of_worse_validations(patience, found):
    since = overfitting(UP, patience=patience)
    assert (since == (20, 2.0, 2.3)) if found else (since is None)


@pytest.mark.parametrize(
    ("training", "found"),
    [
        ([4.0, 3.0, 2.0, 1.0, 0.5], True),
        ([4.0, 3.0, 4.0, 5.0, 6.0], False),
        ([float("nan")] * 5, False),  # nothing was trained since
    ],
)
def test_the_training_loss_must_fall(training, found):
    assert (overfitting(UP, Losses(STEPS, training)) is not None) == found
