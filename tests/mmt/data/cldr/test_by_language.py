"""A speaker for each language of CLDR, also beyond the embedded corpus."""

import pytest

from mmt.data.cldr import speaker_of


@pytest.mark.parametrize(
    ("code", "monday"),
    [
        ("deu_Latn", "Montag"), ("srp_Latn", "ponedeljak"), ("srp_Cyrl", "понедељак"),
        ("pes_Arab", "دوشنبه"), ("cor_Latn", "dy Lun"),  # Cornish is not in the corpus
    ],
)  # fmt: skip
def test_weekdays_are_in_the_language_and_its_script(code, monday):
    assert speaker_of(code).weekday(0) == monday


def test_cldr_does_not_have_every_language():
    assert speaker_of("cbk_Latn") is None
