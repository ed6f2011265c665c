"""Text in capitals: which text is, in which letters it is read, and what stays as it is."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mmt.translate import casing, placeholders

CAPITALS = [
    "ICH HABE HEUTE KEINE ZEIT.", "GROßE STRAßE", "1ª EDIÇÃO DO LIVRO", "Я НЕ ЗНАЮ, ГДЕ ОН.",
    "ΔΕΝ ΕΧΩ ΧΡΟΝΟ", "ԲԱՐԵՎ ՁԵԶ", "IT'S OK, {name}: %s", "SEE HTTP://A.ORG/x AND `ls -l`",
    "E\u0301TE\u0301 A\u0300 LA MER", "ᲒᲐᲛᲐᲠᲯᲝᲑᲐ ᲗᲥᲕᲔᲜ", "ʻO WAU NŌ ʻOE",
]  # fmt: skip
OTHERS = [
    "", "* * *", "12 34", "NATO", "NATO!", "USA, 12", "A B C", "I AM", "Das IST ES",
    "McDONALD ODER", "EU の IT", "三月 AB CD", "გამარჯობა თქვენ", "{NAME} {ZWEI}",
    "WWW.A.ORG/B X@YZ.ORG",
]  # fmt: skip


@pytest.mark.parametrize("text", CAPITALS)
def test_text_in_capitals(text):
    assert casing.in_capitals(text)
    assert not casing.in_capitals(casing.sentence_case(text))


@pytest.mark.parametrize("text", OTHERS)
def test_acronyms_and_scripts_without_case_are_not_in_capitals(text):
    assert not casing.in_capitals(text)


@pytest.mark.parametrize(
    ("text", "language", "read"),
    [
        ("ICH BIN HIER. DU AUCH.", "deu_Latn", "Ich bin hier. du auch."),
        ("ISLAK KIRMIZI İP", "tur_Latn", "Islak kırmızı ip"),
        ("İYİ ISI", "azj_Latn", "İyi ısı"),
        ("İYİ ISI", "", "İyi ısı"),  # only languages with ı have İ
        ("İYİ ISI", "deu_Latn", "İyi isi"),
        ("KIRIM IN", "azj_Cyrl", "Kirim in"),
        ("ΤΕΛΟΣ ΚΑΙ ΑΡΧΗ", "ell_Grek", "Τελος και αρχη"),  # final sigma
        ("ǄEM I ǈUBAV", "", "ǅem i ǉubav"),
        ("ᲒᲐᲛᲐᲠᲯᲝᲑᲐ ᲗᲥᲕᲔᲜ", "kat_Geor", "გამარჯობა თქვენ"),  # Georgian has no sentence case
        ("«NOCH EINS»", "", "«Noch eins»"),
        ("{Name} HAT 3 E-MAILS AN X.Y@A.ORG", "", "{Name} Hat 3 e-mails an X.Y@A.ORG"),
        ("HTTPS://A.ORG/B UND `X Y` %D", "", "HTTPS://A.ORG/B Und `X Y` %D"),
    ],
)
def test_the_sentence_case_of_a_text(text, language, read):
    assert casing.sentence_case(text, language) == read


@pytest.mark.parametrize(
    ("text", "language", "capitals"),
    [
        ("Große Straße für {name}.", "", "GROSSE STRASSE FÜR {name}."),
        ("iki ılık", "tur_Latn", "İKİ ILIK"),
        ("iki", "eng_Latn", "IKI"),
        ("See https://a.org/b?c and `ls`, a@b.org", "", "SEE https://a.org/b?c AND `ls`, a@b.org"),
        ("გამარჯობა, John", "kat_Geor", "გამარჯობა, JOHN"),
    ],
)
def test_a_text_in_capitals_again(text, language, capitals):
    assert casing.upper(text, language) == capitals


LETTERS = st.text(st.characters(categories=["Lu", "Lt", "Ll", "Lo", "Mn", "Zs"]), max_size=6)
PIECES = st.sampled_from(["{Name}", "%S", "%s", "HTTPS://A.ORG/B", "`X`", "X@Y.ORG", "İ", " ", "%"])


@example("ſHTTPS://A.ORG/B", "")
@example("\N{KELVIN SIGN}HTTPS://A.ORG/B", "")
@given(st.lists(LETTERS | PIECES, max_size=6).map("".join), st.sampled_from(["", "tur_Latn"]))
def test_lengths_and_placeholders_stay(text, language):
    for change in (casing.lower, casing.sentence_case):
        changed = change(text, language)
        assert len(changed) == len(text)
        assert placeholders.counts(changed) == placeholders.counts(text)


def test_no_character_changes_the_length():
    letters = "".join(filter(str.isalpha, map(chr, range(0x20000))))
    assert len(casing.lower(letters)) == len(letters)
    for letter in letters:
        assert len(casing.sentence_case(f"{letter} A")) == 3
