"""The source language: detected for `auto`, and compared with the text where it is given."""

import warnings

import pytest

from mmt.identify import IdentifierConfig
from mmt.identify.training import train
from mmt.translate import AUTO
from mmt.translate.source_language import Detected, resolve
from tests.mmt.identify.made_up import lines

CODES = ("deu_Latn", "fin_Latn", "rus_Cyrl")


@pytest.fixture(scope="module")
def identifier():
    config = IdentifierConfig(buckets=2**12, dimensions=16, epochs=8)
    return train(lines(0), lines(1, 60), config=config)


def long_lines(code, seed=2):
    return [line for line in lines(seed, 60)[code] if len(line) > 30][:10]


def test_auto_is_detected_line_by_line(identifier):
    texts = [*long_lines("deu_Latn"), *long_lines("rus_Cyrl"), "12"]
    sources = [AUTO] * 19 + ["rus", AUTO]
    found, detected = resolve(identifier, texts, sources, CODES)
    assert found[:20] == ["deu_Latn"] * 10 + ["rus_Cyrl"] * 9 + ["rus"] and found[20] in CODES
    assert detected[0].language == "deu_Latn" and 0.9 < detected[0].probability <= 1
    assert detected[19] is None and detected[20] == Detected("und", 1.0)


def test_the_source_is_a_language_of_the_model_though_another_is_detected(identifier):
    found, detected = resolve(identifier, long_lines("eng_Latn"), [AUTO] * 10, CODES)
    assert {one.language for one in detected} == {"eng_Latn"} and set(found) <= set(CODES)
    found, detected = resolve(identifier, ["x"], [AUTO], ())  # an imported model
    assert found == [None] and detected[0]


def test_nothing_is_detected_without_auto(identifier):
    assert resolve(None, ["x", "y"], ["deu", None], CODES) == (["deu", None], [None, None])
    assert resolve(identifier, ["x"], [None], CODES) == ([None], [None])


def test_auto_without_an_identifier_of_the_model_is_an_error(identifier):
    with pytest.raises(ValueError, match="no language identifier.*mmt data identify"):
        resolve(None, ["x"], [AUTO], CODES)
    with pytest.raises(ValueError, match="knows none of the model's 1 languages"):
        resolve(identifier, ["x"], [AUTO], ("swh_Latn",))


def test_a_language_that_the_text_plainly_is_not_gives_a_warning(identifier):
    with pytest.warns(UserWarning, match=r"is German \(deu_Latn\), but .* Finnish \(fin_Latn\)"):
        resolve(identifier, long_lines("fin_Latn"), ["de"] * 10, CODES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve(identifier, long_lines("fin_Latn"), ["fin_Latn"] * 10, CODES)
        resolve(identifier, ["a b", "12", ""], ["de"] * 3, CODES)  # too short to tell
        resolve(identifier, long_lines("fin_Latn"), ["swh"] * 10, CODES)  # unknown to it
        mixed = long_lines("fin_Latn")[:4] + long_lines("deu_Latn")[:6]
        resolve(identifier, mixed, ["deu"] * 10, CODES)
