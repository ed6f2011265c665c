"""PO: entries with their forms, read again by polib, and broken files."""

import polib
import pytest

from mmt.documents import MarkedText
from mmt.documents.catalogues import gettext
from tests.helpers.documents import EXAMPLES


def test_entries_and_their_forms():
    document = gettext.read("a.po", EXAMPLES["a.po"])
    found = [(s.source.text, s.form, s.target and s.target.text) for s in document.segments]
    assert found == [
        ("Erste\n", "", "First\n"), ("Zweite", "", "Other"), ('Dritte "Öl" \\', "", None),
        ("%d Datei", "0", None), ("%d Dateien", "1", "%d files"),
    ]  # fmt: skip
    assert document.segments[-1].key == "Datei\x04%d Datei"


@pytest.mark.parametrize(
    "text", ["a", 'say "a" \\n', "one\ntwo\n", "\ttab", "word " * 40, "x" * 200, "语"]
)
def test_another_reader_reads_the_translation(text, tmp_path):
    document = gettext.read("a.po", EXAMPLES["a.po"])
    (tmp_path / "a.po").write_bytes(document.write([MarkedText(text)] * 5))
    entries = [entry for entry in polib.pofile(str(tmp_path / "a.po")) if not entry.obsolete]
    assert [entry.msgstr for entry in entries[:3]] == [text] * 3
    assert entries[3].msgstr_plural == {0: text, 1: text}
    assert [entry.msgid for entry in entries[:2]] == ["Erste\n", "Zweite"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'msgid "a\nmsgstr ""', r"a\.po:1: 'msgid \"a'; expected msgid or msgstr"),
        (b'msgid "a"\nmsgstr "b" c', r"a\.po:2: "),
        (b'"a"', r"a\.po:1: "),
        (b'msgid "a"\nmsgstr "b"\nmsgstr "c"', r"a\.po:3: msgstr is repeated"),
        (b"no catalogue", r"a\.po:1: 'no catalogue'"),
    ],
)
def test_faults_name_the_line(content, message):
    with pytest.raises(ValueError, match=message):
        gettext.read("a.po", content)
