"""Properties that a right translation into English has: each returns what is wrong, or ''.

They need no second model. They prefer misses to false alarms: a property that fails right
translations is worse than none. `benchmarks/translate/behave.py` measures how often they fail on
references.
"""

import re
import unicodedata
from typing import Protocol

import numpy as np

from eval import metrics
from eval.analyses import english
from mmt.translate import line_checks, placeholders
from mmt.translate.line_checks import normalised
from mmt.translate.sentences import has_words

_ALIKE = 20.0  # chrF++ of two translations of one line
_TIMES, _SLACK = 3, 20  # length: at most 3 times as many characters, and 20 more; see `_length`
_LESS_LONG = 3  # words that the translation of a word may have more than the reference
_FUNCTION_WORDS = frozenset("a an the of in on to it s".split())
_MONTHS = (
    "january february march april may june july august september october november december"
).split()
_CARDINALS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_ORDINALS = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth "
    "thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"
).split()
_WORDS: dict[str, tuple[str, ...]] = {
    **{str(n): (a, b) for n, (a, b) in enumerate(zip(_CARDINALS, _ORDINALS, strict=True))},
    **{str(10 * n): (word, word[:-1] + "ieth") for n, word in enumerate(_TENS, start=2)},
    **{f"{ten}{n}": (f"{_TENS[ten - 2]} {_CARDINALS[n]}", f"{_TENS[ten - 2]} {_ORDINALS[n]}")
       for ten in range(2, 10) for n in range(1, 10)},
    "100": ("hundred",), "1000": ("thousand",), "1000000": ("million",),
}  # fmt: skip
_WORDS["2"] += ("twice", "both", "half")
_WORDS["1"] += ("once", "a", "an")
_WORDS["12"] += ("dozen",)
# Digits with separators of thousands and decimals between them; spaces only before three digits.
_NUMBER = re.compile(r"\d+(?:[.,'’٫٬،⹁]\d+|[ \u00a0\u202f]\d{3}(?!\d))*")
_RUN = re.compile(r"\d+")


class HasRight(Protocol):
    """The part of a case that properties use; see `cases.Case`."""

    @property
    def source(self) -> str: ...
    @property
    def plain(self) -> str: ...
    @property
    def right(self) -> str: ...
    @property
    def keeps(self) -> tuple[tuple[str, ...], ...]: ...
    @property
    def day(self) -> tuple[int, int, int] | None: ...


def sentence(case: HasRight, output: str, plain: str) -> str:
    """English, no copy, no loop, and about as long as the reference."""
    return _untranslated(case, output) or _loop(case, output) or _length(case, output)


def word(case: HasRight, output: str, plain: str) -> str:
    """The right word, or at least one word, or some where that is usual; no copy.

    A word alone may have several meanings, so another word is no fault. A phrase without the right
    word is one. `case.keeps` has the right word where other translations have as many words.
    """
    words = normalised(output)
    right = [_plain(spelling) for spellings in case.keeps for spelling in spellings]
    named = any(spelling in _plain(output) for spelling in right)
    content = [each for each in words if each not in _FUNCTION_WORDS]
    if right and not named and len(content) > 1:
        return f"{len(content)} words without {case.right}"
    if len(words) > len(normalised(case.right)) + _LESS_LONG:
        return f"{len(words)} words for one"
    if line_checks.loops(output, words):
        return "repeats itself"
    return _empty(output) or _other_script(output) or _copy(case, output)


def kept(case: HasRight, output: str, plain: str) -> str:
    """One spelling of each text that is to be kept; and the rest is translated."""
    outputs = _plain(output)
    for spellings in case.keeps:
        if not any(_plain(spelling) in outputs for spelling in spellings):
            return f"lacks {' or '.join(spellings[:2])}"
    return _copy(case, output)


def numbers(case: HasRight, output: str, plain: str) -> str:
    """Each number of the source, in digits or as a word."""
    output_numbers = {_digits(token) for token in _NUMBER.findall(output)}
    runs = set(map(_digits, _RUN.findall(output)))
    words = f" {' '.join(re.findall(r'[a-z]+', output.casefold()))} "
    for token in _NUMBER.findall(case.source):
        parts = [_digits(run) for run in _RUN.findall(token)]
        joined = "".join(map(_ascii, _RUN.findall(token))).lstrip("0") or "0"
        in_parts = len(parts) > 1 and all(_is_there(part, runs, words) for part in parts)
        if not _is_there(joined, output_numbers, words) and not in_parts:
            return f"lacks the number {_ascii(token)}"
    return _copy(case, output)


def date(case: HasRight, output: str, plain: str) -> str:
    """The day, the month by name or number, and the year."""
    assert case.day
    day, month, year = case.day
    runs = set(map(_digits, _RUN.findall(output)))
    words = f" {' '.join(re.findall(r'[a-z]+', output.casefold()))} "
    if not _is_there(str(day), runs, words):
        return f"lacks the day {day}"
    if str(year) not in runs and str(year % 100) not in runs:
        return f"lacks the year {year}"
    name = _MONTHS[month - 1]
    named = any(word in words.split() for word in (name, name[:3], name[:4]))
    numeric = sum(_digits(run) == str(month) for run in _RUN.findall(output)) > (day == month)
    other_months = any(
        month_name in words.split() for month_name in _MONTHS if month_name not in (name, "may")
    )
    return "" if named or (numeric and not other_months) else f"lacks the month {name.capitalize()}"


def alike(case: HasRight, output: str, plain: str) -> str:
    """Like the translation of the plain line but for case; no copy."""
    score = _chrf(output.casefold(), plain.casefold())
    if has_words(plain) and score < _ALIKE:
        return f"chrF++ {score:.0f} with the translation of the plain line"
    return _empty(output) or _copy(case, output, plain=case.plain)


def tiny(case: HasRight, output: str, plain: str) -> str:
    """Empty for empty, the same digit for a digit, no letters for a mark, short for a letter."""
    source = case.source.strip()
    if not source:
        return "text for an empty line" if output.strip() else ""
    if source.isdigit():
        return numbers(case, output, plain) or ("" if len(output) <= 10 else "long for a digit")
    if not has_words(source):
        return "words for a mark" if has_words(output) else ""
    if len(output) > _SLACK or len(output.split()) > 2:
        return "long for a letter"
    return "" if output.strip() else "empty"


def copied(case: HasRight, output: str, plain: str) -> str:
    """Exactly the placeholders and URLs of the source; and the rest is translated."""
    expected, present = placeholders.counts(case.source), placeholders.counts(output)
    if missing := expected - present:
        return f"lacks {' '.join(missing)}"
    if added := present - expected:
        return f"adds {' '.join(added)}"
    return _copy(case, output)


def bounded(case: HasRight, output: str, plain: str) -> str:
    """At most about twice as long as the reference, and not empty."""
    right, length = len(case.right), len(output)
    if length > 2 * right + _SLACK:
        return f"{length} characters; the reference has {right}"
    return _empty(output)


def lines(case: HasRight, output: str, plain: str) -> str:
    """As many lines as the source, empty where those are."""
    ours, theirs = case.source.split("\n"), output.split("\n")
    if any(len(line.splitlines()) > 1 for line in theirs) or len(ours) != len(theirs):
        return f"{len(output.splitlines())} lines of {len(ours)}"
    for number, (source, line) in enumerate(zip(ours, theirs, strict=True), start=1):
        if has_words(source) != has_words(line):
            return f"line {number} is {'empty' if has_words(source) else 'not empty'}"
    return ""


def _untranslated(case: HasRight, output: str) -> str:
    if fault := _empty(output) or _copy(case, output):
        return fault
    return "not English" if english.is_other(output) and not english.is_other(case.right) else ""


def _empty(output: str) -> str:
    return "" if has_words(output) else "empty"


def _copy(case: HasRight, output: str, plain: str = "") -> str:
    """plain: the source without capitals, by which names are known."""
    is_copied = line_checks.is_copy(plain or case.source, output)
    return (
        "copy of the source" if is_copied and normalised(output) != normalised(case.right) else ""
    )


def _other_script(output: str) -> str:
    letters = [letter for letter in output if letter.isalpha()]
    latin = sum("LATIN" in unicodedata.name(letter, "") for letter in letters)
    return "" if latin >= len(letters) / 2 else "not in Latin letters"


def _loop(case: HasRight, output: str) -> str:
    loops = [line_checks.loops(text, normalised(text)) for text in (output, case.right)]
    return "repeats itself" if loops[0] and not loops[1] else ""


def _length(case: HasRight, output: str) -> str:
    """Two translations of one line differ by a factor of 3 only if they are short."""
    right, length = len(case.right), len(output)
    if length > _TIMES * right + _SLACK or right > _TIMES * length + _SLACK:
        return f"{length} characters; the reference has {right}"
    return ""


def _plain(text: str) -> str:
    """Returns a text without case, accents, and the selectors of emoji."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in decomposed if unicodedata.category(letter) != "Mn")


def _ascii(digits: str) -> str:
    return "".join(
        str(unicodedata.decimal(digit)) if digit.isdecimal() else digit for digit in digits
    )


def _digits(number: str) -> str:
    """Returns the digits of a number as ASCII, without separators and leading zeros."""
    return "".join(filter(str.isdigit, _ascii(number))).lstrip("0") or "0"


def _is_there(number: str, numbers: set[str], words: str) -> bool:
    return number in numbers or any(f" {word} " in words for word in _WORDS.get(number, ()))


def _chrf(output: str, reference: str) -> float:
    counts = metrics.References([reference]).statistics([output]).chrf
    return float(np.asarray(metrics.chrf(counts))[0])
