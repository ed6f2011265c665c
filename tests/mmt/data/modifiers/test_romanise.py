"""Sources in Latin letters; the tests of uroman's output need the extra [romanise]."""

import sys

import pytest

from mmt.data.modifiers import TextSides, romanise, texts


@pytest.fixture
def uroman():
    return pytest.importorskip("uroman", reason="romanising needs the extra [romanise]")


def test_a_text_in_latin_letters_is_unchanged(monkeypatch):
    monkeypatch.setattr(romanise, "load", None)  # and needs no uroman
    for text in ("Füchsin, 12 œuvres!", "", "12 % …"):
        assert romanise.latin(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Прывітанне, свет!", "Pryvitanne, svet!"), ("你好，世界", "nihao, shijie"),
     ("Windows и Linux", "Windows i Linux")],
)  # fmt: skip
def test_other_scripts_are_romanised(uroman, text, expected):
    assert romanise.latin(text) == expected
    made = texts.KINDS["romanised"](TextSides(text, "Ελλάδα"), lambda: 0.0)
    assert made == TextSides(expected, "Ελλάδα")


def test_without_the_package_the_extra_is_named(monkeypatch):
    romanise._romaniser.cache_clear()
    monkeypatch.setitem(sys.modules, "uroman", None)
    with pytest.raises(ValueError, match=r"pip install 'mmt\[romanise\]'"):
        romanise.load()
