"""Detects lines that are not English, by a light language identifier.

The result is used as a share over whole test sets. In doubt, a line counts as English.
"""

import functools
import re
import unicodedata

from mmt.data.cleaning import language_identification

_WORDS = re.compile(r"[^\W\d_]+")
_LEAST_WORDS = 5  # in lowercase; identifiers fail on names
_LEAST_LETTERS = 20
_LIKELY = 0.1


def is_other(line: str) -> bool:
    """Returns whether a line is certainly in another language than English.

    It is if most of its letters are not Latin. Otherwise, py3langid must give English a probability
    below 0.1, and the line must have at least 5 lowercase words (names have none) and 20 letters.

    >>> [is_other(line) for line in ("Er sah nicht, was auf dem Weg lag.", "Jakob, Isaak")]
    [True, False]
    >>> [is_other(line) for line in ("на берегу моря", "It is not the way to the house.", "42")]
    [True, False, False]
    """
    letters = [letter for letter in line if letter.isalpha()]
    latin = sum(map(_is_latin, letters))
    if len(letters) > 3 and latin < len(letters) / 2:
        return True
    words = [word for word in _WORDS.findall(line) if word[0].islower()]
    if len(words) < _LEAST_WORDS or len(letters) < _LEAST_LETTERS:
        return False
    identifier = language_identification.py3langid()
    return identifier.classify(line)[0] != "en" and dict(identifier.rank(line))["en"] < _LIKELY


@functools.lru_cache(maxsize=4096)
def _is_latin(letter: str) -> bool:
    return letter.isascii() or unicodedata.name(letter, "").startswith("LATIN")
