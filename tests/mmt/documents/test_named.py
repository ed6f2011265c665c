"""Languages of a document: given by any name, written as tags in the style of the file."""

import pytest

from mmt.documents import named


def test_languages_have_any_name():
    locales = named.locales("German", "sr-Latn")
    assert locales[:2] == ("deu_Latn", "srp_Latn") and locales.target_tag == "sr-Latn"
    assert named.locales(None, None) == named.UNKNOWN
    assert named.locales("de", "en-gb").target_tag == "en-GB"
    assert named.code_of("de-AT") == "deu_Latn" and named.code_of("none") == ""
    assert named.code_of("sr@latin") == "srp_Latn"
    with pytest.raises(ValueError, match="unknown language"):
        named.locales("Klingonish", None)


@pytest.mark.parametrize(
    ("target", "name", "new"),
    [
        ("en", "de", "en"), ("en", "de-DE", "en-US"), ("en", "de_AT", "en_US"), ("en", "DE", "EN"),
        ("en", "de-de", "en-us"), ("en", "deu", "eng"), ("en", "deu_Latn", "eng_Latn"),
        ("en-GB", "de", "en-GB"), ("en_GB", "de-DE", "en-GB"), ("zh-Hant", "de-DE", "zh-Hant-TW"),
        ("sr-Latn", "de", "sr-Latn"), ("swh", "de", "sw"), ("ace", "deu", "ace"),
        ("en", "fr", "fr"), ("en", "German", "German"), ("en", "", ""), ("en", "none", "none"),
        ("de", "de-DE", "de-DE"),
    ],
)  # fmt: skip
def test_the_source_is_renamed_in_its_style_and_nothing_else(target, name, new):
    assert named.locales("de", target).renamed(name) == new
    assert named.Locales("deu_Latn").renamed(name) == named.Locales("", "eng_Latn").renamed(name)


@pytest.mark.parametrize(
    ("source", "target", "name", "new"),
    [
        ("de", "zh-Hant", "de", "zh_TW"), ("de", "zh", "de", "zh"), ("de", "zh", "de_DE", "zh_CN"),
        ("de", "sr-Latn", "de", "sr@latin"), ("sr-Latn", "de", "sr@latin", "de"),
        ("de", "pt-BR", "de", "pt_BR"),
    ],
)  # fmt: skip
def test_gettext_has_regions_and_modifiers_for_scripts(source, target, name, new):
    assert named.locales(source, target).renamed(name, separator="_", posix=True) == new


def test_a_file_names_its_source_if_nobody_else_does():
    unknown = named.locales(None, "en")
    assert unknown.or_source("de-AT").source == "deu_Latn" and not unknown.differ
    assert named.locales("fr", "en").or_source("de").source == "fra_Latn"


def test_a_file_names_its_source_better_than_a_detector():
    detected = named.locales(None, "en").with_detected("nob_Latn")
    assert detected.source == "nob_Latn" and detected.or_source("").source == "nob_Latn"
    assert detected.or_source("da").source == "dan_Latn"
    assert named.locales(None, "en").with_detected("und").source == ""
