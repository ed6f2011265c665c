"""Words of a text, for scripts with spaces between them; in other scripts, characters."""

import unicodedata

# Thai to Tibetan, Burmese, Hangul, Khmer, kana, Han: words without spaces, or with endings.
_UNSPACED = (
    (0x0E00, 0x109F), (0x1100, 0x11FF), (0x1780, 0x17FF), (0x3040, 0x9FFF), (0xA960, 0xA97F),
    (0xAC00, 0xD7FF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip
_JOINER = "\u200d"


def is_unspaced(character: str) -> bool:
    """Returns whether a character belongs to a script without spaces between words."""
    return any(low <= ord(character) <= high for low, high in _UNSPACED)


def in_word(character: str) -> bool:
    """Returns whether a character belongs to words of a script that has spaces between them."""
    if not (character.isalnum() or unicodedata.category(character or " ")[0] == "M"):
        return False
    return not is_unspaced(character)


def goes_on(text: str, place: int) -> bool:
    """Returns whether the characters before and at a place belong to one word, or one letter."""
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    joined = _JOINER in (before, after) or unicodedata.category(after)[0] == "M"
    return joined or (in_word(before) and in_word(after))


def spans(text: str) -> list[tuple[int, int]]:
    """Returns start and end of each word, punctuation mark, or character of an unspaced script.

    >>> [text[start:end] for text in ("It's 3 三月",) for start, end in spans(text)]
    ['It', "'", 's', '3', '三', '月']
    """
    starts = [i for i, c in enumerate(text) if not c.isspace() and not goes_on(text, i)]
    return [
        (start, start + len(text[start:end].rstrip()))
        for start, end in zip(starts, [*starts[1:], len(text)], strict=False)
    ]
