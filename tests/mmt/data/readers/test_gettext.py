"""PO and MO catalogues: what is translated, in either direction."""

import pytest
from babel.messages import catalog, mofile, pofile

from mmt.data import readers
from mmt.data.readers.files import Files

PO = r'''msgid ""
msgstr ""
"Language: de_AT\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#: a.c:3
msgid "one\n"
msgstr "eins\n"

#, fuzzy
msgid "two"
msgstr "drei"

msgid "four"
msgstr ""

#~ msgid "old"
#~ msgstr "alt"

msgctxt "file"
msgid "%d file"
msgid_plural "%d "
"files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"
'''
FOUND = [(8, "eins", "one"), (22, "%d Datei", "%d file"), (22, "%d Dateien", "%d files")]


def pairs(path, *languages, **options):
    files = Files(path, languages=languages, **options)
    read = [sides[:3] for sides in readers.read(files)]
    assert readers.count(files) == len(read)
    return read


def test_po_is_read_in_either_direction(tmp_path):
    path = tmp_path / "a.po"
    path.write_text(PO, "utf-8")
    assert pairs(path, "deu_Latn", "eng_Latn") == FOUND
    assert pairs(path, "eng_Latn", "deu_Latn") == [(n, b, a) for n, a, b in FOUND]
    columns = ("msgstr", "msgid")
    assert pairs(path, "nds_Latn", "eng_Latn", columns=columns) == FOUND
    path.write_text(PO, "utf-8-sig")  # as Windows writes it
    assert pairs(path, "deu_Latn", "eng_Latn") == FOUND


def test_mo_is_read_as_its_po(tmp_path):
    made = catalog.Catalog("de")
    for source, other in (("two", "zwei"), ("one", "eins"), (("day", "days"), ("Tag", "Tage"))):
        made.add(source, other)
    with open(tmp_path / "a.mo", "wb") as mo, open(tmp_path / "a.po", "wb") as po:
        mofile.write_mo(mo, made)
        pofile.write_po(po, made)
    of_mo = pairs(tmp_path / "a.mo", "deu_Latn", "eng_Latn")
    assert [line for line, *_ in of_mo] == [1, 1, 2, 3]
    of_po = pairs(tmp_path / "a.po", "deu_Latn", "eng_Latn")
    assert {both[1:] for both in of_mo} == {both[1:] for both in of_po}
    assert ("Tage", "days") in {both[1:] for both in of_mo}


def test_a_language_with_one_form_has_the_plural_alone(tmp_path):
    text = PO.replace("de_AT", "ja").replace("nplurals=2; plural=(n != 1)", "nplurals=1; plural=0")
    text = text.replace('msgstr[1] "%d Dateien"\n', "")
    (tmp_path / "a.po").write_text(text, "utf-8")
    assert pairs(tmp_path / "a.po", "jpn_Jpan", "eng_Latn")[1:] == [(22, "%d Datei", "%d files")]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("de_AT", "fr", r"a\.po: its Language is fr; expected one of deu_Latn and eng_Latn"),
        ('"Language: de_AT\\n"\n', "", r"a\.po: its Language is not given.*columns"),
        ('msgid "four"', 'msgdi "four"', r"a\.po:15: no gettext catalogue"),
        ("UTF-8", "no-such", r"a\.po: no gettext catalogue"),
        ('msgid ""\nmsgstr', "msgid", r"a\.po:1: no gettext catalogue"),
        ('"eins\\n"', '"eins', r'a\.po:9: no gettext .*not between two quotes: msgstr "eins'),
        ('"one\\n"', '"one\\"', r"a\.po:8: no gettext catalogue: .*not between two quotes"),
        ('"files"', 'files"', r"a\.po:24: no gettext catalogue: .*not between two quotes"),
        ('"eins\\n"', '"ei"ns"', r"a\.po:9: no gettext catalogue: .*not between two quotes"),
        ('msgid "four"', 'msgid "one\\n"', r"a\.po:15: no gettext .*repeated: one"),
    ],
)
def test_faults_are_named(tmp_path, old, new, message):
    (tmp_path / "a.po").write_text(PO.replace(old, new, 1), "utf-8")
    with pytest.raises(ValueError, match=message):
        pairs(tmp_path / "a.po", "deu_Latn", "eng_Latn")


def test_a_message_may_recur_in_another_context(tmp_path):
    (tmp_path / "a.po").write_text(PO + 'msgid "%d file"\nmsgstr "eine \\"Datei\\""\n', "utf-8")
    read = pairs(tmp_path / "a.po", "deu_Latn", "eng_Latn")
    assert read == [*FOUND, (27, 'eine "Datei"', "%d file")]


def test_a_catalogue_without_translations_has_no_pairs(tmp_path):
    (tmp_path / "a.po").write_text(PO.split("#:")[0] + 'msgid "four"\nmsgstr ""\n', "utf-8")
    with pytest.raises(ValueError, match=r"a\.po: no pairs"):
        pairs(tmp_path / "a.po", "deu_Latn", "eng_Latn")


def test_a_broken_mo_is_named(tmp_path):
    for content in (b"no catalogue", b"\xde\x12\x04\x95" + bytes(20) + b"\xff" * 40, b""):
        (tmp_path / "a.mo").write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.mo: "):
            pairs(tmp_path / "a.mo", "deu_Latn", "eng_Latn")
