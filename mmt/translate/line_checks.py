"""Rules on a line and its translation, which need no model: copies, loops, numbers that differ.

`mmt.translate.risk` uses them without a reference, `eval.analyses.output_checks` with one.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"\w+")
_THOUSANDS = "[.,'’٬ \u00a0\u202f]"
_NUMBER = re.compile(  # 1000, 1.000.000, 10 000, 12,34,567 (India)
    rf"(?<!\d)(?:\d{{1,3}}(?:{_THOUSANDS}\d{{3}})+|\d{{1,2}}(?:,\d\d)+,\d{{3}})(?!\d)|\d+"
)
_LONGEST_PHRASE = 100  # words, so that a line takes linear time
_SYLLABLE = re.compile(r"([^\W\d_]{1,4}?)\1{7,}")


def normalised(line: str) -> tuple[str, ...]:
    """Returns the words of a line, without case and punctuation."""
    return tuple(_WORD.findall(line.casefold()))


def is_copy(source: str, output: str) -> bool:
    """Returns whether a line is left untranslated, except case and punctuation.

    Names alone may stay, and so may a line without letters.

    >>> is_copy("Das ist es.", "das ist es"), is_copy("Sven Olson", "Sven Olson")
    (True, False)
    """
    words = normalised(output)
    return bool(words) and words == normalised(source) and not is_names(source)


def is_names(line: str) -> bool:
    """Returns whether a line consists of numbers and capitalised words only."""
    return all(word[0].isupper() for word in re.findall(r"[^\W\d_]+", line))


def loops(line: str, words: Sequence[str]) -> bool:
    """Returns whether a line repeats itself.

    It does if it has a word four times in a row, a phrase (of up to 100 words) three times, or a
    syllable eight times. A long line also does if under 40 % of its word pairs are distinct.
    """
    if _SYLLABLE.search(line.casefold()):
        return True
    for length in range(1, min(len(words) // 3, _LONGEST_PHRASE) + 1):
        run, min_run = 0, 3 if length == 1 else 2 * length
        for index in range(length, len(words)):
            run = run + 1 if words[index] == words[index - length] else 0
            if run >= min_run:
                return True
    pairs = list(zip(words, words[1:], strict=False))
    return len(pairs) >= 20 and len(set(pairs)) < 0.4 * len(pairs)


def different_numbers(source: str, output: str) -> float:
    """Returns the share of the numbers of both lines that only one of them has; 0 without numbers.

    Digits of all scripts are compared; separators of thousands and dates are ignored.

    >>> different_numbers("2. März 2021", "March 2, 2021"), different_numbers("3 und 4", "3 and 5")
    (0.0, 0.6666666666666667)
    >>> different_numbers("1000 Euro von 10 000", "1,000 euros of 10,000")
    0.0
    """
    source_numbers, output_numbers = _numbers(source), _numbers(output)
    union, common = source_numbers | output_numbers, source_numbers & output_numbers
    return 1 - common.total() / union.total() if union else 0.0


def _numbers(line: str) -> Counter[str]:
    """Returns the numbers of a line as ASCII digits, without leading zeros."""
    return Counter(
        "".join(str(unicodedata.decimal(c)) for c in number if c.isdecimal()).lstrip("0") or "0"
        for number in _NUMBER.findall(line)
    )
