"""Text in capitals: whether a text is, its sentence case, and capitals again.

Models know few sentences in capitals. `mmt.translate.line_search` translates such a sentence in
sentence case, and puts its translation in capitals. This module knows no model.
"""

import unicodedata

from mmt.documents import words
from mmt.translate import placeholders

# Languages with i/İ and ı/I.
_DOTTED = frozenset(f"{code}_Latn" for code in ("azj", "crh", "gag", "kaa", "tat", "tur"))
_MIN_WORDS, _MIN_LETTERS = 2, 2


def in_capitals(text: str) -> bool:
    """Returns whether a text is in capitals, apart from its placeholders.

    It then has no letter in lower case and none of a script without case, and two words or more
    that have two capitals or more each. Letters whose capital is not one letter do not count, such
    as ß and º.

    >>> [in_capitals(text) for text in ("DAS IST GROß, {name}!", "NATO", "A B C", "EU の IT")]
    [True, False, False, False]
    """
    parts = placeholders.surroundings(text)
    if any(_is_other_letter(character) for part in parts for character in part):
        return False
    capitalised = (
        sum(map(str.isupper, part[start:end])) >= _MIN_LETTERS
        for part in parts
        for start, end in words.spans(part)
    )
    return sum(capitalised) >= _MIN_WORDS


def lower(text: str, language: str = "") -> str:
    """Returns a text in lower case, apart from its placeholders; its length stays.

    The arguments are those of `lower_letters`.

    >>> lower("KIRMIZI {Name}", "tur_Latn"), lower("INDIA"), lower("DİKKAT, KIRMIZI")
    ('kırmızı {Name}', 'india', 'dikkat, kırmızı')
    """
    lowered = lower_letters(text, language)
    for start, end in [*placeholders.spans(text), *placeholders.spans(lowered)]:
        lowered = lowered[:start] + text[start:end] + lowered[end:]
    return lowered


def lower_letters(text: str, language: str = "") -> str:
    """Returns a text with all letters in lower case; its length stays.

    language: FLORES code, or ''. It decides whether I becomes i or ı. Where it is unknown, I
    becomes ı in a text with İ.
    """
    dotted = language in _DOTTED if language else "İ" in text
    lowered = text.replace("I", "ı") if dotted else text
    return lowered.replace("İ", "i").lower()  # str.lower makes two characters of İ


def sentence_case(text: str, language: str = "") -> str:
    """Returns a text in lower case with its first letter in capital; its length stays.

    The arguments are those of `lower`. A first letter in a placeholder does not count.

    >>> sentence_case("¡NO TENGO TIEMPO!"), sentence_case("%s İÇİN", "tur_Latn")
    ('¡No tengo tiempo!', '%s İçin')
    """
    lowered = lower(text, language)
    inside = {i for start, end in placeholders.spans(text) for i in range(start, end)}
    letters = (i for i, letter in enumerate(text) if letter.isalpha() and i not in inside)
    first = next(letters, len(text))
    return lowered[:first] + _initial(text[first:][:1]) + lowered[first + 1 :]


def upper(text: str, language: str = "") -> str:
    """Returns a text in capitals, apart from its placeholders. ß becomes SS.

    language: FLORES code, or ''. It decides whether i becomes I or İ. Georgian stays as it is.

    >>> upper("Hi {name}, see https://mmt.org"), upper("iki", "tur_Latn")
    ('HI {name}, SEE https://mmt.org', 'İKİ')
    """
    kept = [text[start:end] for start, end in placeholders.spans(text)]
    parts = [_upper(part, language) for part in placeholders.surroundings(text)]
    return "".join(part + each for part, each in zip(parts, [*kept, ""], strict=True))


def _is_other_letter(letter: str) -> bool:
    """Returns whether a letter is in lower case, or of a script without case."""
    capital = letter.upper()
    if letter.islower():
        return capital != letter and len(capital) == 1
    return unicodedata.category(letter) == "Lo"


def _upper(part: str, language: str) -> str:
    """Returns a text in capitals, without letters that have none at the start of a sentence.

    These are the letters of Georgian, whose capitals few fonts have.
    """
    part = part.replace("i", "İ") if language in _DOTTED else part
    return "".join(letter if letter == letter.title() else letter.upper() for letter in part)


def _initial(letter: str) -> str:
    """Returns a capital as it begins a sentence: Ǆ becomes ǅ, and a letter of Georgian small.

    ſ and the sign of Kelvin stay: as S and K they would join a URL behind them.
    """
    initial = letter.lower().title()
    return initial if len(initial) == 1 and initial.isascii() == letter.isascii() else letter
