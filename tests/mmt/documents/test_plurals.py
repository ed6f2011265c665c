"""Plural forms: those of CLDR, gettext and Qt."""

import gettext

import pytest
from babel import Locale

from mmt import languages
from mmt.documents import locales, plurals


def change(forms: str, source: str, target: str, **options) -> tuple[list[str], list[str]]:
    found = plurals.form_change(forms.split(), locales(source, target), **options)
    return sorted(found.dropped), list(found.added)


def test_forms_of_one_language_are_dropped_and_added():
    assert change("one few many other", "ru", "en") == (["few", "many"], [])
    assert change("one other", "en", "ru") == ([], ["few", "many"])
    assert change("one two few many zero other", "ar", "en") == (["few", "many", "two", "zero"], [])
    assert change("one other", "en", "ar") == ([], ["zero", "two", "few", "many"])
    assert change("other", "ja", "en") == ([], ["one"])
    assert change("one other", "de", "en") == ([], [])
    assert change("other", "de", "en", ordinal=True) == ([], ["one", "two", "few"])


def test_other_forms_stay():
    assert change("zero =1 one other", "en", "pl") == ([], ["few", "many"])
    assert change("one other", "es", "fr") == ([], [])  # both have "many", and the text has not
    assert change("few other one", "de", "en") == ([], [])
    assert change("other", "de", "ru") == ([], []) and change("one", "de", "ru") == ([], [])
    assert change("male female other", "de", "ru") == ([], [])
    unknown = next(x.code for x in languages.all_languages() if not plurals.categories(x.code))
    assert change("one other", "de", unknown) == ([], [])
    assert plurals.gettext_rule(unknown) is None


@pytest.mark.parametrize("code", "en fr pl ar cy sl ckb gd yo th sw".split())
def test_rules_of_gettext_are_read_by_python(code):
    rule = plurals.gettext_rule(languages.find(code).code)
    function = gettext.c2py(rule.expression)
    assert {function(number) for number in [*range(1000), 10**6]} == set(range(rule.forms))
    assert plurals.parsed_rule(str(rule)) == rule
    if rule.forms > 1:
        category = Locale.parse(code).plural_form
        assert function(1) == rule.singular() and category(1) == "one"


def test_rules_that_are_none():
    for text in ("nplurals=INTEGER; plural=EXPRESSION;", "", "nplurals=2; plural=n+;",
                 "nplurals=2; plural=1%0;"):  # fmt: skip
        assert plurals.parsed_rule(text) is None
    assert plurals.parsed_rule(" nplurals=2; plural=(n != 1);").singular() == 0


def test_numbers_of_forms_in_qt():
    codes = [languages.find(code).code for code in ("en", "ru", "ja", "ar", "lv", "hu")]
    assert [plurals.qt_forms(code) for code in codes] == [2, 3, 1, 6, 3, 1]
    assert plurals.qt_forms(languages.find("fil").code) == 2
    assert plurals.qt_forms("") == 0
