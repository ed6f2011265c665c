"""Files and Sides: which language of a file is which side, and texts of one line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmt.data.readers.files import Files, code_of, one_line, sides_of


@given(st.text())
def test_text_of_one_line_keeps_its_words(text):
    made = one_line(text)
    assert not set("\n\r\t") & set(made)
    assert made.split() == text.split()
    assert one_line(made) == made
    if not set("\n\r\t") & set(text):
        assert made == text


def test_sides_are_found_by_any_name_of_their_language():
    files = Files(Path("a.tmx"), languages=("pes_Arab", "eng_Latn"))
    for persian, english in (("fa", "EN"), ("fas", "en_US"), ("pes-Arab", "English")):
        assert sides_of({english: 1, "xx": 3, persian: 2}, files, "a") == (2, 1)
    for names in (("de-AT", "de", "en-US", "en-GB"), ("de", "de-AT", "en-US", "en-GB", "eng-GB")):
        german = files._replace(languages=("deu_Latn", "eng_Latn"))
        assert sides_of({name: name for name in names}, german, "a") == ("de", "en-US")
    with pytest.raises(ValueError, match=r"^a:3: no pes_Arab and no eng_Latn; available: xx"):
        sides_of({"xx": 1}, files, "a:3")
    with pytest.raises(ValueError, match="available: none"):
        sides_of({}, files, "a")


def test_sides_that_the_entry_names_are_taken_as_written():
    files = Files(Path("a.tmx"), languages=("nno_Latn", "eng_Latn"), columns=("no", "en-GB"))
    assert code_of("no") == "nob_Latn"
    assert sides_of({"en": 0, "no": 1, "en-GB": 2}, files, "a") == (1, 2)
    with pytest.raises(ValueError, match="no en-GB; available"):
        sides_of({"en": 0, "no": 1}, files, "a")
