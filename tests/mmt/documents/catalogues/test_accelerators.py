"""Accelerators: which texts have one, and where it stands in a translation."""

import pytest

from mmt.documents.catalogues import accelerators


@pytest.mark.parametrize(
    ("source", "visible", "translation", "written"),
    [
        ("&Datei öffnen", "Datei öffnen", "Open a file", "&Open a file"),
        ("Sp&eichern", "Speichern", "Keep everything", "Keep &everything"),
        ("B&eenden", "Beenden", "Quit here", "Quit h&ere"),
        ("&Datei", "Datei", "Файл", "&Файл"),
        ("&Datei:", "Datei:", "文件：", "文件(&D)："),
        ("&Файл", "Файл", "文件", "文件"),
        ("文件(&F)", "文件", "A file", "A &file"),
        ("&Suchen && ersetzen", "Suchen & ersetzen", "Find & search", "Find && &search"),
        ("Tom && Jerry", "Tom & Jerry", "Tom & Jerry", "Tom && Jerry"),
        ("&Datei", "Datei", "…", "…"),
    ],
)
def test_a_translation_has_the_accelerator_of_its_source(source, visible, translation, written):
    found = accelerators.without(source)
    assert found is not None
    assert found[0] == visible and found[1](translation) == written


@pytest.mark.parametrize(
    "text", ["Bilder & Videos", "AT&T", "R&D-Abteilung", "a &lt; b", "&Ein &Aus", "Salz", ""]
)
def test_other_ampersands_are_text(text):
    assert accelerators.without(text) is None
