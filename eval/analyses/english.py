"""Whether a line is English, by a light language identification.

It is asked about whole test sets of system outputs, and its answer is a share: it would rather let
a line pass than blame one that is English.
"""

import functools
import re
import unicodedata

from mmt.data.cleaning import language_identification

_WORDS = re.compile(r"[^\W\d_]+")
_LEAST_WORDS = 5  # in small letters; what a name is, no identifier knows
_LEAST_LETTERS = 20
_LIKELY = 0.1


def is_other(line: str) -> bool:
    """Whether a line is surely in another language than English.

    Lines mostly in another script than Latin are. Of the others only those are judged that have at
    least 5 words in small letters (names have none) and 20 letters; these are where py3langid
    gives English a probability under 0.1.

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
