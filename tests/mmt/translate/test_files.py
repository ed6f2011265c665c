"""Files: lines in, lines out, and everything else as it was."""

import pytest

from mmt.documents import supported_suffixes as documents_suffixes
from mmt.translate import files
from tests.helpers.documents import EXAMPLES


def upper(lines):
    return [line.upper() for line in lines]


def translated(name: str, translate=upper, **options) -> bytes:
    return files.translate_file(name, EXAMPLES[name], translate, **options)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_translation_that_changes_nothing_changes_no_byte(name):
    bilingual = name.endswith((".po", ".xlf", ".xliff", ".tmx", ".ts", ".xcstrings"))
    same = translated(name, list, source="de", target="en")
    assert (same == EXAMPLES[name]) != bilingual


def test_each_line_is_translated_once_without_white_space():
    seen = []

    def translate(lines):
        seen.extend(lines)
        return upper(lines)

    page = b"<pre> a\r\n\n  b </pre><p>a</p>"
    assert files.translate_file("a.html", page, translate) == b"<pre> A\r\n\n  B </pre><p>A</p>"
    assert seen == ["a", "b"]


def test_filled_entries_are_left_alone_unless_asked():
    kept = translated("a.po").decode()
    assert 'msgstr "First\\n"' in kept and 'msgstr "Other"' in kept and '"%D DATEI"' in kept
    new = translated("a.po", overwrite=True).decode()
    assert 'msgstr "ERSTE\\n"' in new and "First" not in new


def test_a_missing_translation_is_an_error():
    with pytest.raises(ValueError, match="0 translations of 3 lines"):
        translated("a.txt", lambda lines: [])


def test_the_server_finds_the_suffixes_here():
    assert files.supported_suffixes() == documents_suffixes()
