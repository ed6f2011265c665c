"""Training: it tells languages apart, repeats itself, and its probabilities are calibrated."""

import numpy as np
import pytest

from mmt.identify import NONE, IdentifierConfig
from mmt.identify.training import train
from tests.mmt.identify.made_up import lines

SMALL = IdentifierConfig(buckets=2**12, dimensions=16, epochs=8)


@pytest.fixture(scope="module")
def identifier():
    return train(lines(0), lines(1, 60), config=SMALL, corpus_hash="abc")


def test_it_tells_languages_apart(identifier):
    held_out = lines(2, 100)
    for code, of_language in held_out.items():
        right = np.array([ranking[0][0] == code for ranking in identifier.rank(of_language)])
        long = np.array([len(line) > 15 for line in of_language])
        assert right.mean() > 0.9 and right[long].mean() > 0.97, code


def test_other_scripts_scrambled_letters_and_no_letters_are_none(identifier):
    texts = ["ကခဂ ကခ ဃငစ ကခ", "いろはにほへと ちりぬるを", "12 + 30 = 42", "", "😀"]
    assert [ranking[0][0] for ranking in identifier.rank(texts)] == [NONE] * len(texts)
    random = np.random.default_rng(0)
    letters = list("aeeinrstdhuläöykltno")
    noise = [" ".join("".join(random.choice(letters, 6)) for _ in range(8)) for _ in range(50)]
    found = [ranking[0][0] for ranking in identifier.rank(noise)]
    assert np.mean([code == NONE for code in found]) > 0.7


def test_probabilities_are_calibrated(identifier):
    """The mean probability of the best language is near the share of right ones."""
    held_out = lines(3, 200)
    texts = [line for of_language in held_out.values() for line in of_language]
    codes = np.repeat(list(held_out), 200)
    probabilities = identifier.probabilities(texts)
    right = np.array(identifier.codes)[probabilities.argmax(1)] == codes
    assert abs(probabilities.max(1).mean() - right.mean()) < 0.05


def test_it_repeats_itself_exactly_and_differs_by_seed(identifier):
    again = train(lines(0), lines(1, 60), config=SMALL, corpus_hash="abc").arrays()
    for name, array in identifier.arrays().items():
        np.testing.assert_array_equal(array, again[name])
    other = IdentifierConfig(buckets=2**12, dimensions=16, epochs=1, seed=1)
    changed = train(lines(0), lines(1, 60), config=other).arrays()
    assert (changed["embedding"] != again["embedding"]).any()


def test_errors_say_what_is_allowed():
    with pytest.raises(ValueError, match="text in 1 languages .deu_Latn.*at least two"):
        train({"deu_Latn": ["eins zwei", "eins"]}, {}, config=SMALL)
    with pytest.raises(ValueError, match="buckets: 5000; allowed: powers of two"):
        IdentifierConfig(buckets=5000)
    with pytest.raises(ValueError, match="epochs.*allowed.*1"):
        IdentifierConfig(epochs=0)
