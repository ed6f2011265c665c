"""Every property holds for the right translation of every case, and fails for plain faults."""

import pytest

from eval.behave import cases, material
from eval.behave.cases import BEHAVIOURS
from mmt.data import cldr

# Scripts, digits, languages with little data in CLDR.
CODES = (
    "deu_Latn arb_Arab hin_Deva jpn_Jpan tha_Thai mya_Mymr kat_Geor tur_Latn nqo_Nkoo ful_Adlm "
    "yor_Latn ell_Grek"
).split()
NAMES = list(BEHAVIOURS)


@pytest.mark.parametrize("code", CODES)
def test_right_translations_pass(code):
    made = cases.make(material.Material(code, "", (), cldr.speaker_of(code)), 6, NAMES)
    assert set(made) >= {"sentences", "words", "tiny", "links", "breaks"}
    assert ("capitals" in made) == (code[-4:] in ("Latn", "Grek", "Adlm"))
    for name, of_behaviour in made.items():
        for case in of_behaviour:
            assert not BEHAVIOURS[name].fault(case, case.right, case.right.lower()), (name, case)


def test_sentences_of_a_corpus_are_varied(german):
    made = cases.make(german, 4, NAMES)
    assert set(made) == set(NAMES) and made == cases.make(german, 4, NAMES)
    sentences = [case.source for case in made["sentences"]]
    assert "Der Hund schläft unter dem Tisch." in sentences and len(sentences) == 4
    assert not any(map(str.isdigit, "".join(sentences)))
    assert any(case.source.startswith("Sie hat 25 Schafe") for case in made["numbers"])
    assert [case.plain for case in made["capitals"]] == sentences
    for name, of_behaviour in made.items():
        for case in of_behaviour:
            assert not BEHAVIOURS[name].fault(case, case.right, case.right.lower()), (name, case)


def test_without_texts_there_are_no_cases():
    assert cases.make(material.Material("cbk_Latn", "", (), None), 4, NAMES) == {}


@pytest.mark.parametrize("output", ["", "la la la la la la la la la la la la la la la", "copy"])
def test_nonsense_passes_in_no_behaviour_of_content(german, output):
    for name, of_behaviour in cases.make(german, 4, NAMES).items():
        if name in ("tiny", "breaks", "repeats", "words"):  # of length, or of one word
            continue
        if name in ("numbers", "dates") and output == "copy":  # 3 Liter, 1. April
            continue
        for case in of_behaviour:
            text = case.source if output == "copy" else output
            assert BEHAVIOURS[name].fault(case, text, "The dog sleeps."), (name, case)
