"""The cache and the batches that the tests of forecasts share."""

import pytest

from tests.helpers.streams import maker, write_cache

COUNTS = {"deu_Latn": 2000, "fra_Latn": 400, "yor_Latn": 30}
STEPS, BATCH = 120, 8


@pytest.fixture(scope="session")
def directory(tmp_path_factory):
    return write_cache(tmp_path_factory.mktemp("data"), COUNTS)


@pytest.fixture(scope="session")
def make(directory):
    """A function that makes the batches of a mixture, to be forecast."""
    return maker(directory, BATCH)
