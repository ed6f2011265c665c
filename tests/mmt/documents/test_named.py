"""Languages of a document: given by any name, written as tags."""

import pytest

from mmt.documents import named


def test_languages_have_any_name():
    locales = named.locales("German", "sr-Latn")
    assert locales == ("deu_Latn", "srp_Latn") and locales.target_tag == "sr-Latn"
    assert named.locales(None, None) == ("", "")
    assert named.code_of("de-AT") == "deu_Latn" and named.code_of("none") == ""
    with pytest.raises(ValueError, match="unknown language"):
        named.locales("Klingonish", None)
