"""A vocabulary of ours and one with the ids of MADLAD-400."""

import pytest

from mmt.data import vocabulary as vocab
from tests.mmt.data.vocabulary import TAGS, TEXTS, foreign


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.model"
    vocab.train(TEXTS, path, size=1500, tags=TAGS)
    return path


@pytest.fixture(scope="module")
def vocabulary(model):
    return vocab.Vocabulary.load(model)


@pytest.fixture(scope="module")
def madlad(tmp_path_factory):
    path = tmp_path_factory.mktemp("madlad") / "spiece.model"
    path.write_bytes(foreign("<2en>", "<2de>", "<2zh>", "<2zh_Hant>", "<2sr>", "<2ber>", "<2 x>"))
    return vocab.Vocabulary.load(path)
