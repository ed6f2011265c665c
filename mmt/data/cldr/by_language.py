"""Speakers by language: also of languages that the embedded corpus omits."""

import functools

from mmt import languages
from mmt.data.cldr.corpus import LOCALES
from mmt.data.cldr.speaker import Missing, Speaker


def speaker_of(code: str) -> Speaker | None:
    """Returns the speaker of a language by its FLORES code; None if CLDR does not have it.

    CLDR has more languages than the embedded corpus: a speaker may raise `Missing` for most
    phrases.

    >>> speaker_of("deu_Latn").weekday(0), speaker_of("cbk_Latn") is None
    ('Montag', True)
    """
    locale = _locales().get(code, languages.find(code).bcp47.replace("-", "_"))
    try:
        return Speaker(locale, script=code[-4:])
    except Missing:
        return None


@functools.cache
def _locales() -> dict[str, str]:
    """Returns the locales of the embedded corpus by FLORES code."""
    return {languages.find(locale.replace("_", "-")).code: locale for locale in LOCALES}
