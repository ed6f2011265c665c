"""Files: lines in, lines out, and everything else as it was."""

import re

import pytest

from mmt import documents
from mmt.documents import supported_suffixes as documents_suffixes
from mmt.translate import files, markup
from tests.helpers.documents import EXAMPLES
from tests.helpers.tiny_translator import RandomTranslator


def upper(texts):
    return [documents.by_position(text, text.text.upper()) for text in texts]


def translated(name: str, translate=upper, **options) -> bytes:
    return files.translate_file(name, EXAMPLES[name], translate, **options)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_translation_that_changes_nothing_changes_no_byte(name):
    bilingual = name.endswith((".po", ".xlf", ".xliff", ".tmx", ".ts", ".xcstrings"))
    same = translated(name, list, source="de", target="en")
    assert (same == EXAMPLES[name]) != bilingual


def test_texts_have_their_tags_and_are_given_in_order():
    seen = []

    def translate(texts):
        seen.extend(texts)
        return upper(texts)

    page = b"<p>ein <b>Haus</b><pre> a\r\n\n  b </pre>"
    translated = files.translate_file("a.html", page, translate)
    assert translated == b"<p>EIN <b>HAUS</b><pre> A\r\n\n  B </pre>"
    assert [text.text for text in seen] == ["ein Haus", "a\r\n\n  b"]
    assert [tag.markup for tag in seen[0].tags] == ["<b>", "</b>"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_tag_of_a_file_is_lost_where_words_are_translated_at_random(name):
    """Any format can be read again, with the inline tags that it had."""

    def translate(texts):
        for text in texts:
            (translation,) = markup.translate(RandomTranslator(len(text.text)), [text], source="de")
            assert sorted(t[1:] for t in translation.tags) == sorted(t[1:] for t in text.tags)
            yield translation._replace(text=f"{translation.text}a")

    new = translated(name, translate, source="de", target="en", overwrite=True)
    locales = documents.locales("de", "en")
    before, after = (documents.read(name, content, locales) for content in (EXAMPLES[name], new))
    assert len(after.segments) == len(before.segments) and new != EXAMPLES[name]
    if name.endswith(".html"):
        names = re.compile(rb"</?\w+|<!.*?>")
        assert sorted(names.findall(new)) == sorted(names.findall(EXAMPLES[name]))


def test_filled_entries_are_left_alone_unless_asked():
    kept = translated("a.po").decode()
    assert 'msgstr "First\\n"' in kept and 'msgstr "Other"' in kept and '"%D DATEI"' in kept
    new = translated("a.po", overwrite=True).decode()
    assert 'msgstr "ERSTE\\n"' in new and "First" not in new


def test_a_missing_translation_is_an_error():
    with pytest.raises(ValueError, match="0 translations of 3 texts"):
        translated("a.txt", lambda lines: [])


def test_the_server_finds_the_suffixes_here():
    assert files.supported_suffixes() == documents_suffixes()


PO = """msgid ""
msgstr "Language: de\\n"

msgid "eins"
msgid_plural "zwei"
msgstr[0] ""
msgstr[1] ""
"""
TMX = """<tmx version="1.4"><header srclang="da"/><body>
<tu><tuv xml:lang="da"><seg>et</seg></tuv></tu></body></tmx>"""


@pytest.mark.parametrize(
    ("name", "content", "detected", "words"),
    [
        ("a.po", PO, "deu_Latn", ["Language: fr\\n", '"Plural-Forms: nplurals=']),
        ("a.json", '{"x_one": "a", "x_other": "b"}', "deu_Latn", ['"x_many": "B"']),
        ("a.html", "<html lang=de><p>a", "deu_Latn", ["lang=fr"]),
        ("a.html", "<html lang=da><p>a", "nob_Latn", ["lang=fr"]),
        ("a.html", "<html lang=da><p>a", "und", ["lang=fr"]),
        ("a.tmx", TMX, "nob_Latn", ['<tuv xml:lang="fr"><seg>ET</seg>']),
        ("a.xcstrings", EXAMPLES["a.xcstrings"].decode(), "nld_Latn", ['"fr" : {']),
        ("a.txt", "12", "fails", ["12"]),
    ],
)
def test_names_and_forms_are_those_of_a_detected_source(name, content, detected, words):
    seen = []

    def detect(text):
        seen.append(text)
        return detected

    options = {"target": "fr", "detect": detect}
    new = files.translate_file(name, content.encode(), upper, **options).decode()
    assert all(each in new for each in words) and len(seen) == (detected != "fails")
    if detected in ("deu_Latn", "und"):
        known = files.translate_file(name, content.encode(), upper, source="de", target="fr")
        assert (new.encode() == known) == (detected == "deu_Latn")


def test_a_language_is_detected_in_the_first_texts():
    seen = []
    content = "".join(f"Text {number}\n" for number in range(150)).encode()
    files.translate_file("a.txt", content, upper, detect=lambda text: seen.append(text) or "de")
    assert seen == [content[: content.index(b"\nText 100")].decode()]
