"""Broken vocabulary files: one that loads can be used; else the error says why."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st

from mmt.data import vocabulary
from tests.fuzz.strategies import damage, fuzzed

TEXTS = ["Ein Satz, <2eng> é日本 \x00", "", "a b", "\u2028\u2581", "<s></s><pad>", "x" * 3000]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    file = tmp_path_factory.mktemp("vocabulary") / "whole.model"
    vocabulary.train(["ein kleiner Satz", "日本"] * 9, file, size=300, tags=["<2eng>"])
    return file.read_bytes()


@fuzzed(st.data(), short=60)
def test_a_broken_vocabulary_loads_or_is_named(example, whole):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "vocabulary.model")
        file.write_bytes(example.draw(damage(whole)))
        try:
            loaded = vocabulary.Vocabulary.load(file)
        except ValueError as error:
            assert str(file) in str(error), error
            return
        ids = loaded.encode_all(TEXTS)
        assert ids == [loaded.encode(text) for text in TEXTS]
        assert all(0 <= piece < loaded.size for text in ids for piece in text)
        assert len(loaded.decode_all(ids)) == len(TEXTS)
        assert isinstance(loaded.decode(range(loaded.size)), str) and loaded.tags is not None
