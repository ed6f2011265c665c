"""Settings of a search: which values are errors."""

import pytest

from mmt.decoding.settings import BeamSettings


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"beams": 0}, "beam size 0"),
        ({"beams": 4, "nbest": 5}, "5-best of beam size 4; allowed: 1 to 4"),
        ({"nbest": 0}, "0-best"),
        ({"alpha": -0.1}, "alpha -0.1"),
        ({"alpha": float("nan")}, "alpha nan"),
        ({"max_length": 0}, "maximum length 0"),
        ({"penalty": "wu"}, "penalty 'wu'; allowed: gnmt, length"),
        ({"search_style": "fairseq"}, "search_style 'fairseq'; allowed: t5x, hf"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram -1"),
        ({"repetition_penalty": 0.0}, "repetition_penalty 0.0"),
        ({"beams": 1, "temperature": 0.0}, "temperature 0.0; allowed: above 0"),
        ({"beams": 1, "temperature": -1.0}, "temperature -1.0"),
        ({"beams": 1, "temperature": 1.0, "top_p": 0.0}, "top_p 0.0"),
        ({"beams": 1, "temperature": 1.0, "top_p": 1.5}, "top_p 1.5"),
        ({"beams": 1, "temperature": 1.0, "top_k": -1}, "top_k -1"),
        ({"beams": 1, "top_k": 5}, "set a temperature"),
        ({"temperature": 1.0}, "beam must be 1, not 4"),
    ],
)
def test_impossible_settings_are_errors(wrong, message):
    with pytest.raises(ValueError, match=message):
        BeamSettings(**{"max_length": 8, **wrong})
