"""`LanguageIdentifier`: the file in a run directory, and the order of its answers."""

import numpy as np
import pytest

from mmt.identify import IdentifierConfig, LanguageIdentifier
from mmt.identify.training import train
from mmt.run import Run
from tests.mmt.identify.made_up import lines

TEXTS = [line for of_language in lines(5, 20).values() for line in of_language]


@pytest.fixture(scope="module")
def identifier():
    config = IdentifierConfig(buckets=2**10, dimensions=8, epochs=4)
    return train(lines(0, 100), lines(1, 20), config=config, corpus_hash="abc")


def test_it_is_the_same_after_saving_and_loading(identifier, tmp_path):
    identifier.save(tmp_path)
    loaded = LanguageIdentifier.load(tmp_path)
    assert loaded.codes == identifier.codes and loaded.corpus_hash == "abc"
    np.testing.assert_allclose(
        loaded.probabilities(TEXTS), identifier.probabilities(TEXTS), atol=1e-5
    )
    assert [path.name for path in tmp_path.iterdir()] == [Run(tmp_path).identifier.name]


def test_a_missing_or_broken_file_is_an_error(identifier, tmp_path, as_users_have_it):
    with pytest.raises(ValueError, match="has no language identifier.*mmt data identify"):
        LanguageIdentifier.load(tmp_path)
    file = Run(tmp_path).identifier
    for content in (b"", b"no zip"):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=f"{file} is no language identifier"):
            LanguageIdentifier.load(tmp_path)
    identifier.save(tmp_path)
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(ValueError, match="is no language identifier"):
        LanguageIdentifier.load(tmp_path)
    arrays = identifier.arrays()
    for changes in ({"version": np.int32(9)}, {"bias": np.zeros(2)}):
        with file.open("wb") as stream:
            np.savez(stream, **(arrays | changes))
        with pytest.raises(ValueError, match="is no language identifier"):
            LanguageIdentifier.load(tmp_path)


def test_ranks_are_sorted_probabilities(identifier):
    everything = len(identifier.codes)
    for ranking in identifier.rank(TEXTS, most=everything):
        probabilities = [probability for _, probability in ranking]
        assert probabilities == sorted(probabilities, reverse=True)
        assert np.isclose(sum(probabilities), 1, atol=1e-4)
        assert {code for code, _ in ranking} == set(identifier.codes)
    assert identifier.rank([]) == []


def test_a_line_does_not_depend_on_other_lines(identifier):
    together = identifier.probabilities(TEXTS)
    alone = np.concatenate([identifier.probabilities([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_any_text_has_an_answer(identifier):
    texts = ["\ud800", "a" * 100_000, "\x00\n\r\u2028", "e\u0301", "\U000e0041", "Ⅻ"]
    assert all(len(ranking) == 3 for ranking in identifier.rank(texts))
