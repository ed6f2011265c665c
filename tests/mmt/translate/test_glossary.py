"""Glossaries: their files, which terms a line has, and that translations contain them."""

import re
import unicodedata

import pytest

from mmt.decoding import Decoding
from mmt.translate import Glossary, glossary
from tests.helpers.tiny_translator import make, train_vocabulary

TERMS = "# made up\n\ndrei\tTuesday\nfünf sechs\tfive|six of them\tde\nEins\t\n"


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    return make(train_vocabulary(tmp_path_factory.mktemp("vocabulary")))


def sources(parsed, text, language=""):
    return [term.source for term in parsed.terms_of(text, language)]


def test_a_file_has_terms_alternatives_languages_and_comments(tmp_path):
    file = tmp_path / "terms.tsv"
    file.write_bytes(b"\xef\xbb\xbf" + TERMS.replace("\n", "\r\n").encode())
    parsed = Glossary.read(file)
    assert parsed == Glossary.parse(TERMS)
    assert parsed.terms == (
        glossary.Term("drei", ("Tuesday",)),
        glossary.Term("fünf sechs", ("five", "six of them"), "deu_Latn"),
        glossary.Term("Eins", ("Eins",)),
    )


def test_only_line_breaks_end_a_line():
    (term,) = Glossary.parse("eins\tone\u2028two\r\n").terms
    assert term.targets == ("one\u2028two",)


@pytest.mark.parametrize("of_terms", ["NFC", "NFD"])
@pytest.mark.parametrize("of_text", ["NFC", "NFD"])
def test_accents_match_in_one_character_and_in_two(of_terms, of_text):
    terms, text = "Gerät\tdevice\ncafé\t\n", "Gerät und Café, Gerät"
    parsed = Glossary.parse(unicodedata.normalize(of_terms, terms))
    found = parsed.terms_of(unicodedata.normalize(of_text, text))
    assert {term.targets: times for term, times in found.items()} == {("device",): 2, ("café",): 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\nalone", "line 2: 'alone'; expected source<TAB>target"),
        ("\tb", "line 1: .*expected source"),
        ("a\tb\tde\tx", "line 1: .*expected source"),
        ("a\tb||c", "line 1: the target 'b||c' has an empty alternative".replace("|", "[|]")),
        ("a\tb\tGermn", "line 1: unknown language 'Germn'.*German"),
        ("a\tb\n\na\tc", "line 3: 'a' is also in line 1"),
        ("a\t" + "b|" * 16 + "b", "line 1: 'a' has 17 alternatives; allowed: at most 16"),
    ],
)
def test_a_bad_line_is_an_error_with_its_number(text, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        Glossary.parse(text)
    (tmp_path / "x.tsv").write_text(text)
    with pytest.raises(ValueError, match=f"x.tsv, {message}"):
        Glossary.read(tmp_path / "x.tsv")
    with pytest.raises(ValueError, match="y.tsv: no such file; nearest: x.tsv"):
        Glossary.read(tmp_path / "y.tsv")
    (tmp_path / "x.tsv").write_bytes(b"\xff\tb")
    with pytest.raises(ValueError, match="x.tsv: not UTF-8"):
        Glossary.read(tmp_path / "x.tsv")


@pytest.mark.parametrize("terms", ["us\tnous\nUS\tUSA\n", "US\tUSA\nus\tnous\n"])
def test_of_terms_that_differ_in_case_the_one_in_the_case_of_the_text_counts(terms):
    parsed = Glossary.parse(terms)
    assert sources(parsed, "us, US, Us") == ["us", "US"]
    assert parsed.terms_of("us, US, Us")[glossary.Term("us", ("nous",))] == 2
    of_language = Glossary.parse(f"{terms}us\twe\ten\n")
    assert sources(of_language, "US", "English") == ["US"]
    assert list(of_language.terms_of("us", "English"))[0].targets == ("we",)


def test_terms_are_whole_words_in_their_case():
    parsed = Glossary.parse(TERMS)
    counts = parsed.terms_of("Drei eins Eins dreißig, (DREI)")
    assert {term.source: times for term, times in counts.items()} == {"drei": 2, "Eins": 1}
    assert sources(parsed, "Fünf sechs", "German") == ["fünf sechs"]
    assert sources(parsed, "fünf sechs") == sources(parsed, "fünf sechs", "fr") == []
    assert sources(parsed, "see https://drei.de and `drei`") == []


def test_terms_in_any_case():
    parsed = Glossary.parse(f"{TERMS}İzmir\tIzmir\n")
    found = parsed.terms_of("DREI EINS, Eins eins izmir İZMİR", any_case=True)
    assert [(t.source, times) for t, times in found.items()] == [
        ("drei", 1), ("Eins", 3), ("İzmir", 2)
    ]  # fmt: skip


def test_the_language_of_the_line_decides_the_lower_case_of_i():
    parsed = Glossary.parse("ışık\tlight\nilik\tmarrow\nPIN\tcode\n")
    assert sources(parsed, "Işık söndü, İlik, ILIK, Pin", "Turkish") == ["ışık", "ilik"]
    assert sources(parsed, "IŞIK. ILIK SU", "az") == ["ışık"]
    assert sources(parsed, "Işık, ILIK, PIN", "English") == ["ilik", "PIN"]
    for text, language in (("pın", "tr"), ("pin", "en"), ("pin", "")):
        assert not parsed.terms_of(text, language)
        assert list(parsed.terms_of(text, language, any_case=True)) == [parsed.terms[2]]
    assert not parsed.terms_of("pin", "tr", any_case=True)
    assert sources(Glossary.parse("İzmir ışık\t\n"), "İzmir ışık") == ["İzmir ışık"]


def test_the_longest_of_overlapping_terms_counts_and_that_of_the_language():
    parsed = Glossary.parse("rote\tred\nrote Karte\tred card\nKarte\tmap\nrote\tgang\tde\n")
    assert sources(parsed, "rote Karte") == ["rote Karte"]
    assert sources(parsed, "Karte, rote") == ["Karte", "rote"]
    assert [term.targets for term in parsed.terms_of("rote", "de")] == [("gang",)]
    assert [term.targets for term in parsed.terms_of("rote", "en")] == [("red",)]


def test_scripts_without_spaces_have_no_word_boundaries():
    parsed = Glossary.parse("文件\tfile\nไฟล์\tfile\nकल\tyesterday\n")
    assert sources(parsed, "打开文件吧") == ["文件"]
    assert sources(parsed, "เปิดไฟล์นี้") == ["ไฟล์"]
    assert sources(parsed, "कला") == [] and sources(parsed, "कल") == ["कल"]


@pytest.mark.parametrize("beam", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_translations_contain_the_terms_of_their_lines_only(translator, beam):
    parsed = Glossary.parse("drei\tTuesday|three\nvier\tzehn Montag\n")
    lines = ["eins zwei", "drei eins", "vier drei", "", "vier", "drei, drei"]
    decoding = Decoding(beam=beam, nbest=min(beam, 2))
    free = list(translator.translate(lines, decoding=decoding))
    constrained = list(translator.translate(lines, decoding=decoding, glossary=parsed))
    for number in (0, 3):
        assert constrained[number] == free[number]
    for number, wanted in ((1, ["Tuesday", "three"]), (2, ["Tuesday", "three"])):
        for hypothesis in constrained[number].hypotheses:
            words = re.findall(r"\w+", hypothesis.text)
            assert any(word in words or word.capitalize() in words for word in wanted)
    for hypothesis in constrained[5].hypotheses:  # as often as in the line
        assert len(re.findall(r"\b(?:[Tt]uesday|[Tt]hree)\b", hypothesis.text)) >= 2
    for number in (2, 4):
        for hypothesis in constrained[number].hypotheses:
            assert "zehn montag" in hypothesis.text.lower()
    for number in (1, 2, 4, 5):  # alone as together
        (alone,) = translator.translate([lines[number]], decoding=decoding, glossary=parsed)
        assert alone.hypotheses == constrained[number].hypotheses


def test_a_sample_and_impossible_options_are_errors(translator):
    parsed = Glossary.parse("drei\tzehn zehn zehn zehn zehn zehn\n")
    with pytest.raises(ValueError, match="temperature 0.5 and a glossary"):
        list(translator.translate(["drei"], decoding=Decoding(1, temperature=0.5), glossary=parsed))
    with pytest.raises(ValueError, match="no translation of 'drei' has the terms .*ngram:2"):
        list(translator.translate(["drei"], decoding=Decoding(no_repeat_ngram=2), glossary=parsed))


@pytest.mark.parametrize(
    ("target", "line", "message"),
    [
        ("zehn " * 99, "drei", "the translation 'zehn zehn .*…' has [0-9]+ tokens; .* at most 64"),
        ("zehn " * 30, "drei " * 30, "terms of 'drei drei .*…' have [0-9]+ tokens; .* at most 512"),
    ],
)
def test_terms_that_no_search_can_contain_are_errors(target, line, message, translator):
    parsed = Glossary.parse(f"drei\t{target}\n")
    decoding = Decoding(split="long")
    with pytest.raises(ValueError, match=message):
        list(translator.translate([line], decoding=decoding, glossary=parsed))
    assert parsed.phrases_of(translator.vocabularies["target"], "vier") == ()


def test_a_sentence_has_at_most_64_terms(translator):
    words = [f"wort{number}" for number in range(65)]
    parsed = Glossary.parse("".join(f"{word}\teins\n" for word in words))
    vocabulary = translator.vocabularies["target"]
    assert len(parsed.phrases_of(vocabulary, " ".join(words[1:]))) == 64
    with pytest.raises(ValueError, match="'wort0 wort1 .*…' has 65 terms; allowed: at most 64"):
        parsed.phrases_of(vocabulary, " ".join(words))
