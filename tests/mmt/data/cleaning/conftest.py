"""Dirty corpora whose maker knows what each rule drops."""

import pytest

from mmt.data import corpora
from mmt.data.cleaning import prepare
from tests.helpers import dirty

FEW = ("deu_Latn", "tha_Thai", "arb_Arab")


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The dirty corpus, the expected counts, its cleaned folder and the report."""
    root = tmp_path_factory.mktemp("dirty")
    expected = dirty.make(root / "dirty")
    corpus = corpora.load(root / "dirty")
    report = prepare.prepare(corpus, root / "clean", processes=1)
    return corpus, expected, root / "clean", report


@pytest.fixture
def few(tmp_path):
    """A smaller dirty corpus of three languages."""
    dirty.make(tmp_path / "dirty", clean=110, codes=FEW)
    return corpora.load(tmp_path / "dirty")
