"""Plural forms: the categories of CLDR, the rules of gettext, and the numbers of forms in Qt."""

import functools
import gettext
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from mmt import languages
from mmt.documents.named import Locales

if TYPE_CHECKING:  # a machine that only trains has no Babel
    from babel import Locale

CATEGORIES = ("zero", "one", "two", "few", "many", "other")
_COUNTS = range(1000)  # that tell rules apart
_SIMPLE = ("0", "(n != 1)", "(n > 1)")
_RULE = re.compile(r"\s*nplurals\s*=\s*(\d+)\s*;\s*plural\s*=([^;]+);?\s*")
# Languages by the number of forms that Qt Linguist has for them.
_QT = {
    1: "bi my zh dz fj gn hu id ja jv ko ms na om fa su tt th bo tr vi yo za",
    2: "ab aa af sq am as ay az ba eu bn bg ca kw co da nl en eo et fo fi fur fy gl ka de el kl gu "
    "ha he hi ia ie is it kn ks kk km rw ky ku lo la ln lb mg ml mr mn ne nso nb nn oc or ps pt pa "
    "qu rm rn sn sd si so st es sw ss sv tg ta te to ts tn tk ug ur uz vo wo xh yi zu hy br fr tl "
    "ti wa",
    3: "lv dv iu ik ga gv mi se sm sa sk cs mk lt bs be hr ru sr uk pl ro",
    4: "gd sl mt",
    5: "cy",
    6: "ar",
}
_QT_FORMS = {code: number for number, codes in _QT.items() for code in codes.split()}


class FormChange(NamedTuple):
    """What becomes of the plural forms of a text in another language."""

    dropped: frozenset[str]
    added: tuple[str, ...]


class GettextRule(NamedTuple):
    """A rule of the header `Plural-Forms`: the number of forms, and which one a number has."""

    forms: int
    expression: str

    def __str__(self) -> str:
        return f"nplurals={self.forms}; plural={self.expression};"

    def singular(self) -> int:
        """Returns the form of the number 1; -1 if all numbers have one form.

        Raises:
          ValueError: the expression is broken.
        """
        return int(gettext.c2py(self.expression)(1)) if self.forms > 1 else -1


def form_change(forms: Collection[str], locales: Locales, *, ordinal: bool = False) -> FormChange:
    """Returns the categories that a text with some forms loses and gains in the target language.

    A category that both languages have stays, and stays out if the text has it not. Without `other`
    the forms are no plural forms, and nothing changes.
    """
    target_categories, source_categories = (
        categories(code, ordinal) for code in (locales.target, locales.source)
    )
    if not locales.differ or not target_categories or not source_categories or "other" not in forms:
        return FormChange(frozenset(), ())
    if not set(source_categories) - {"zero", "many"} <= set(
        forms
    ):  # such as a lone key `reason_other`
        return FormChange(frozenset(), ())
    return FormChange(
        frozenset(
            form for form in forms if form in source_categories and form not in target_categories
        ),
        tuple(
            form
            for form in target_categories
            if form not in source_categories and form not in forms
        ),
    )


@functools.lru_cache(maxsize=1 << 10)
def categories(code: str, ordinal: bool = False) -> tuple[str, ...]:
    """Returns the plural categories of a language in order; none if CLDR does not have it."""
    locale = _locale(code)
    if locale is None:
        return ()
    rule = locale.ordinal_form if ordinal else locale.plural_form
    return tuple(form for form in CATEGORIES if form in rule.tags or form == "other")


@functools.lru_cache(maxsize=1 << 10)
def gettext_rule(code: str) -> GettextRule | None:
    """Returns gettext's rule of a language, that of CLDR where it has none; None without either."""
    from babel.messages.plurals import PLURALS
    from babel.plural import PluralRule, to_gettext

    locale = _locale(code)
    if locale is None:
        return None
    if locale.language in PLURALS:
        return GettextRule(*PLURALS[locale.language])
    rule = locale.plural_form
    tags = {rule(number) for number in _COUNTS}
    cldr_rule = PluralRule({tag: text for tag, text in rule.rules.items() if tag in tags})
    match = _RULE.fullmatch(to_gettext(cldr_rule))
    assert match
    rule_of_header = GettextRule(int(match[1]), match[2])
    equal_rules = (
        e for e in _SIMPLE if rule_of_header.forms == (1 if e == "0" else 2) and _agree(e, match[2])
    )
    return rule_of_header._replace(expression=next(equal_rules, rule_of_header.expression))


def parsed_rule(text: str) -> GettextRule | None:
    """Returns the rule of a header; None for that of a template or another broken one."""
    match = _RULE.fullmatch(text)
    if match is None:
        return None
    rule = GettextRule(int(match[1]), match[2].strip())
    try:
        rule.singular()
    except (ValueError, RecursionError, ZeroDivisionError):
        return None
    return rule


def qt_forms(code: str) -> int:
    """Returns the number of forms that Qt has for a language; 0 for one that it does not know."""
    if not code:
        return 0
    language = languages.find(code)
    return _QT_FORMS.get(language.iso1 or language.iso3, 0)


def _agree(expression: str, rule: str) -> bool:
    first, second = gettext.c2py(expression), gettext.c2py(rule)
    return all(first(number) == second(number) for number in _COUNTS)


def _locale(code: str) -> "Locale | None":
    from babel import Locale, UnknownLocaleError

    if not code:
        return None
    try:
        return Locale.parse(languages.find(code).bcp47, sep="-")
    except (UnknownLocaleError, ValueError):
        return None
