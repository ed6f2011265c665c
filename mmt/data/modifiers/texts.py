"""The modifiers: functions that change the texts of a pair."""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from mmt.data.modifiers import romanise

T = TypeVar("T")
Chance = Callable[[], float]  # returns a new number in [0, 1) every time

_SPACELESS = {  # first words of the Unicode names of letters in scripts without spaces
    "CJK", "HIRAGANA", "KATAKANA", "IDEOGRAPHIC", "FULLWIDTH", "THAI", "LAO", "KHMER", "MYANMAR",
    "TIBETAN",
}  # fmt: skip
_MARKUP = ("b", "i", "u", "em", "strong", "a", "span", "p")
_SIGNS = "★☆♥♪→←✓✗©®™§¶†‡•※♦☀☺😀😂👍🎉🔥🙏💡"
SEPARATOR = "|||"  # between lines of a document; ASCII, which every vocabulary can write
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz0123456789#@_-/"


class TextSides(NamedTuple):
    """A sentence without its tag, and its translation."""

    source: str
    target: str


def upper_case(texts: TextSides, chance: Chance) -> TextSides:
    """Converts both sides to UPPER CASE."""
    return TextSides(texts.source.upper(), texts.target.upper())


def title_case(texts: TextSides, chance: Chance) -> TextSides:
    """Capitalises Every Word Of Both Sides, As In A Headline."""
    return TextSides(*(re.sub(r"(?<!\S)\S", lambda m: m[0].title(), side) for side in texts))


def no_punctuation(texts: TextSides, chance: Chance) -> TextSides:
    """Removes the punctuation at the end of both sides."""
    return TextSides(*map(_strip_end, texts))


def typos(texts: TextSides, chance: Chance) -> TextSides:
    """Makes about one typing error in twenty letters of the source.

    An error swaps two letters, removes or doubles one, or replaces it by another letter of the
    sentence.
    """
    letters = list(texts.source)
    for _ in range(1 + len(letters) // 20):
        letter_positions = [i for i, letter in enumerate(letters) if letter.isalpha()]
        if len(letter_positions) < 3:
            break
        position, other_position = _pick(letter_positions, chance), _pick(letter_positions, chance)
        error = int(chance() * 4)
        if error == 0 and position + 1 < len(letters):
            letters[position], letters[position + 1] = letters[position + 1], letters[position]
        elif error == 1:
            del letters[position]
        elif error == 2:
            letters.insert(position, letters[position])
        else:
            letters[position] = letters[other_position]
    return TextSides("".join(letters), texts.target)


def noise(texts: TextSides, chance: Chance) -> TextSides:
    """Puts the same signs or made-up word before or after both sides; the model learns to copy."""
    characters = _SIGNS if chance() < 0.5 else _LETTERS
    length = 1 + int(chance() * (8 if characters is _LETTERS else 3))
    insertion = "".join(_pick(characters, chance) for _ in range(length))
    if chance() < 0.5:
        return TextSides(*(f"{insertion} {side}" for side in texts))
    return TextSides(*(f"{side} {insertion}" for side in texts))


def tags(texts: TextSides, chance: Chance) -> TextSides:
    """Puts both sides in the same markup, or the same placeholder at their ends."""
    if chance() < 0.25:
        number = int(chance() * 10)
        return TextSides(*(f"{side} {{{number}}}" for side in texts))
    name = _pick(_MARKUP, chance)
    return TextSides(*(f"<{name}>{side}</{name}>" for side in texts))


def numbers(texts: TextSides, chance: Chance) -> TextSides:
    """Replaces a number that is on both sides by another number.

    Numbers of one digit and the last two digits of long numbers stay, because in many languages the
    words around depend on them.
    """
    numbers_by_side = [set(re.findall(r"\d+", side)) for side in texts]
    common = sorted(numbers_by_side[0] & numbers_by_side[1])
    replacements = {number: _other_number(number, chance) for number in common}
    return TextSides(
        *(re.sub(r"\d+", lambda m: replacements.get(m[0], m[0]), side) for side in texts)
    )


def copied(texts: TextSides, chance: Chance) -> TextSides:
    """Uses the translation also as the source (Currey et al. 2017).

    A first stage of copies teaches a decoder to read its source faster than pairs do.
    """
    return TextSides(texts.target, texts.target)


def in_context(texts: TextSides, preceding: Sequence[TextSides]) -> TextSides:
    """Returns a line behind the lines before it, on both sides, with `SEPARATOR` between them.

    Texts that contain the separator stay alone (Tiedemann and Scherrer 2017).

    >>> in_context(TextSides("Sie lacht.", "She laughs."), [TextSides("Eva kam.", "Eva came.")])
    TextSides(source='Eva kam. ||| Sie lacht.', target='Eva came. ||| She laughs.')
    """
    lines = [*preceding, texts]
    if any(SEPARATOR in side for line in lines for side in line):
        return texts
    return TextSides(*map(f" {SEPARATOR} ".join, zip(*lines, strict=True)))


def joined(texts: TextSides, next_texts: TextSides) -> TextSides:
    """Returns two sentences as one text, with a space if their script has spaces."""

    def join(first: str, second: str) -> str:
        spaceless = _is_spaceless(first[-1:]) and _is_spaceless(second[:1])
        return f"{first}{'' if spaceless else ' '}{second}"

    return TextSides(*map(join, texts, next_texts))


def _is_spaceless(letter: str) -> bool:
    return bool(letter) and unicodedata.name(letter, "").split(" ")[0] in _SPACELESS


def _strip_end(text: str) -> str:
    end = len(text)
    while end and (text[end - 1].isspace() or unicodedata.category(text[end - 1]) == "Po"):
        end -= 1
    return text[:end]


def _other_number(number: str, chance: Chance) -> str:
    """Returns another number in the same script; the same number if no digit may change."""
    kept_digits = 1 if len(number) == 2 else 2
    if len(number) < 2 or (len(number) == 2 and unicodedata.digit(number[0]) < 2):
        return number
    zero = ord(number[0]) - unicodedata.digit(number[0])
    lowest = 2 if len(number) == 2 else 1
    digits = [lowest + int(chance() * (10 - lowest))]
    digits += [int(chance() * 10) for _ in range(len(number) - kept_digits - 1)]
    return "".join(chr(zero + digit) for digit in digits) + number[len(number) - kept_digits :]


def _pick(options: Sequence[T], chance: Chance) -> T:
    return options[int(chance() * len(options))]


def romanised(texts: TextSides, chance: Chance) -> TextSides:
    """Writes the source in Latin letters (Amrhein and Sennrich 2020); needs uroman."""
    return TextSides(romanise.latin(texts.source), texts.target)


BPE_DROPOUT = "bpe_dropout"
CONTEXT = "context"
ROMANISED = "romanised"
# In the order in which they are applied. `Rewriter` does `context` and `merged`, which need other
# pairs, and `bpe_dropout`, which changes pieces.
KINDS: Mapping[str, Callable[[TextSides, Chance], TextSides]] = {
    CONTEXT: lambda texts, chance: texts,
    "numbers": numbers,
    "merged": lambda texts, chance: texts,
    "copied": copied,
    ROMANISED: romanised,
    "no_punctuation": no_punctuation,
    "typos": typos,
    "title_case": title_case,
    "upper_case": upper_case,
    "noise": noise,
    "tags": tags,
    BPE_DROPOUT: lambda texts, chance: texts,
}
