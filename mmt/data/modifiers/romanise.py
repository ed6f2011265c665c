"""Sources in Latin letters, so that related languages of different scripts share pieces."""

import functools
import unicodedata
from typing import Any


def load() -> Any:
    """Returns the romaniser, loaded once; about 3 s. Raises ValueError if uroman is missing."""
    try:
        return _romaniser()
    except ImportError as error:
        raise ValueError(
            f"the modifier romanised needs the extra [romanise] (pip install 'mmt[romanise]'): "
            f"{error}"
        ) from error


def latin(text: str) -> str:
    """Returns the text in Latin letters, by uroman (Hermjakob et al. 2018); about 2 ms a sentence.

    A text with only Latin letters is unchanged, accents included.

    >>> latin("Прывітанне, свет!")    # doctest: +SKIP
    'Pryvitanne, svet!'
    """
    letters = [unicodedata.name(letter, "") for letter in text if letter.isalpha()]
    if all(name.startswith("LATIN") for name in letters):
        return text
    return load().romanize_string(text)


@functools.cache
def _romaniser() -> Any:
    import uroman

    return uroman.Uroman()
