"""Cleaning rules of single pairs: they drop pairs or repair them.

A rule is `Pair -> Pair | Dropped`. A function makes it from a `RuleContext`; the keyword arguments
are the rule's settings in TOML, with their defaults. rulebook.py determines which rules apply;
rules over several pairs are in corpus_rules.py.
"""

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import ftfy
import regex
from ftfy.badness import is_bad

from mmt.data.pair import Pair


class Dropped(NamedTuple):
    """The reason for dropping a pair: `reason`, which the report counts, and `detail`."""

    reason: str
    detail: str = ""


class RuleContext(NamedTuple):
    """The context of a rule besides the pair.

    Attributes:
      language, target: FLORES codes of the sides.
      learnt: length ratios of the language (`corpus_rules.LengthRatios`).
      overlap: the test sets.
      seen: state of earlier pairs, shared by all entries of a language.
      pairs: the number of pairs that `seen` may have to hold.
    """

    language: str
    target: str
    learnt: Any = None
    overlap: Any = None
    seen: dict[str, Any] | None = None
    pairs: int = 0


Rule = Callable[[Pair], Pair | Dropped]

_CONTROL = regex.compile(r"[\p{Cc}\uFEFF--[\t\n\r\x0b\x0c\x85]]+", regex.VERSION1)
_ASCII_WORD = re.compile(r"\w+")
_WORD = regex.compile(r"[\w\p{M}]+")
_WRITTEN = regex.compile(r"[^\p{Script=Zyyy}\p{Script=Zinh}\p{Script=Zzzz}]+")
_SCRIPTS = {"Hans": "Hani", "Hant": "Hani", "Jpan": "Hani Hira Kana", "Kore": "Hang Hani",
            "Hang": "Hang Hani"}  # fmt: skip
UNSPACED = {"Hans": 2, "Hant": 2, "Jpan": 2, "Thai": 4, "Laoo": 4, "Khmr": 4, "Mymr": 4,
            "Tibt": 4}  # characters per word in scripts without spaces  # fmt: skip
_TAG = regex.compile(r"<(/?[A-Za-z][\w:-]*)(?:\s[^<>]*)?/?>")
# What follows a URL without a space: kana, wide punctuation, and letters of these scripts.
_AFTER_URL = (
    r"\u3000-\u30ff\uff00-\uffef"
    r"\p{Han}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
)
_DOMAIN_PART = rf"(?:[^\W{_AFTER_URL}]|-)+"
_URL = regex.compile(
    rf"(?:https?://|www\.)[^\s<>\"'\p{{Pi}}\p{{Pf}}{_AFTER_URL}]+"
    rf"|[A-Za-z0-9_.+-]+@{_DOMAIN_PART}(?:\.{_DOMAIN_PART})+"
)
_URL_END = regex.compile(r"[\p{P}--[/#&%_@*-]]+$", regex.VERSION1)
_FORMAT = r"%(?:\d+\$|\(\w+\))?[-+0]*\d*(?:\.\d+)?[sdifux@]"
_VARIABLE = r"\$?\{\{?\s*[\w.]*\s*\}?\}|\$\w+\$"
_PLACEHOLDERS = (
    regex.compile(rf"{_FORMAT}(?![\p{{Latin}}\d_])|{_VARIABLE}"),  # not in '100%ig'
    regex.compile(rf"{_FORMAT}|{_VARIABLE}"),  # '%sren', with a suffix
)
_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(r"\d+(?:[.,'\u2019\u066b\u066c\u00a0\u202f]\d+)*")


def encoding(context: RuleContext) -> Rule:
    """Repairs wrongly decoded text ('Ã¼ber' becomes 'über') with ftfy.

    It drops text with U+FFFD, the replacement character. A repair that adds letters of other
    scripts than the language's is rejected: ftfy takes Chinantec's 'áˆ¡' for Ethiopic.
    """
    scripts = _script(context.language), _script(context.target)

    def repaired(text: str, script: Any) -> str:
        if text.isascii() or not is_bad(text):
            return text
        fixed = ftfy.fix_encoding(text)
        return fixed if len(script.sub("", fixed)) <= len(script.sub("", text)) else text

    def rule(pair: Pair) -> Pair | Dropped:
        source, target = map(repaired, pair[:2], scripts)
        if (source, target) != pair[:2]:
            pair = pair._replace(source=source, target=target)
        for side, text in _sides(pair):
            if "\ufffd" in text:
                return Dropped("encoding", f"the {side} has U+FFFD")
        return pair

    return rule


def normalise(context: RuleContext, *, form: Literal["NFC", "NFKC"] = "NFC") -> Rule:
    """Applies a Unicode normal form, removes control characters, and collapses white space."""
    if form not in ("NFC", "NFKC"):
        raise ValueError(f"form is {form!r}; allowed: NFC, NFKC")

    def normal(text: str) -> str:
        if not text.isascii():
            text = unicodedata.normalize(form, text)
        return " ".join(_CONTROL.sub("", text).split())

    return lambda pair: _map_sides(pair, normal)


def length(
    context: RuleContext, *, characters: tuple[int, int] = (1, 1000), words: int = 250
) -> Rule:
    """Drops a pair with a side outside the limits; words are separated by white space."""
    shortest, longest = characters
    if not 0 < shortest <= longest or words < 1:
        raise ValueError(
            f"characters are {shortest} to {longest}, words {words}; allowed: 1 and more"
        )

    def rule(pair: Pair) -> Pair | Dropped:
        for side, text in _sides(pair):
            if len(text) < shortest:
                return Dropped("length: short", f"the {side} has {len(text)} characters")
            if len(text) > longest:
                return Dropped("length: long", f"the {side} has {len(text)} characters")
            if len(text) > words and (count := len(text.split())) > words:
                return Dropped("length: long", f"the {side} has {count} words")
        return pair

    return rule


def script(context: RuleContext, *, least: float = 0.5, letters: int = 4) -> Rule:
    """Drops a pair with a side in another script.

    Fewer than `least` of the side's letters are in the language's script. Sides with fewer than
    `letters` letters, such as 'USB', are not judged.
    """
    _check_fraction("least", least)
    letters_of_script = {"source": _script(context.language), "target": _script(context.target)}

    def rule(pair: Pair) -> Pair | Dropped:
        for side, text in _sides(pair):
            if letters_of_script[side].fullmatch(text):
                continue
            script_letters = "".join(_WRITTEN.findall(text))
            inside = len(script_letters) - len(letters_of_script[side].sub("", script_letters))
            if len(script_letters) >= letters and inside < least * len(script_letters):
                code = context.language if side == "source" else context.target
                fraction = f"{inside} of {len(script_letters)} letters of the {side}"
                return Dropped("script", f"{fraction} are in the script of {code}")
        return pair

    return rule


def repeats(context: RuleContext, *, characters: int = 12, loops: bool = True) -> Rule:
    """Drops a pair with more than `characters` equal characters in a row, or with a loop (`loops`).

    A loop must be on one side only: if both sides repeat, it may be a song.
    """
    if characters < 1:
        raise ValueError(f"characters is {characters}; allowed: 1 and more")
    run = re.compile(rf"(\S)\1{{{characters},}}")  # faster at this than regex

    def rule(pair: Pair) -> Pair | Dropped:
        for side, text in _sides(pair):
            if match := run.search(text):
                detail = f"the {side} has {match[1]!r} {len(match[0])} times in a row"
                return Dropped("repeats: character", detail)
        if loops:
            looping = [side for side, text in _sides(pair) if looped(text)]
            if len(looping) == 1:
                return Dropped("repeats: loop", f"the {looping[0]} repeats itself")
        return pair

    return rule


def copies(context: RuleContext, *, words: int = 2) -> Rule:
    """Drops a pair whose target equals its source, ignoring case and punctuation.

    The source must have at least `words` words, one of them in lower case: names and numbers may be
    equal. In scripts without case, which do not tell names, it must have twice as many. There, in
    scripts without spaces, a word has two or four letters, as in `overlap`.
    """
    unit = UNSPACED.get(context.language[-4:], 0)

    def rule(pair: Pair) -> Pair | Dropped:
        words_of_source = normalised(pair.source)
        if words_of_source != normalised(pair.target):
            return pair
        has_lower = any(word[0].islower() for word in _WORD.findall(pair.source))
        is_sentence = has_lower and len(words_of_source) >= words
        if is_sentence or _count_uncased(pair.source, unit) >= 2 * words:
            return Dropped("copies", "the target equals the source")
        return pair

    return rule


def tags(context: RuleContext) -> Rule:
    """Drops a pair whose sides differ in HTML or XML tags, ignoring attributes."""
    return _equal("tags", lambda text: _TAG.findall(text.lower()) if "<" in text else ())


def urls(context: RuleContext) -> Rule:
    """Drops a pair whose sides differ in web or mail addresses."""

    def addresses(text: str) -> Iterator[str]:
        if "www." in text or "://" in text or "@" in text:
            for url in _URL.findall(text):
                yield _URL_END.sub("", url.lower())

    return _equal("urls", addresses)


def placeholders(context: RuleContext) -> Rule:
    """Drops a pair whose sides differ in placeholders: `%s`, `%1$d`, `%(name)s`, `{name}`.

    `%i` before a Latin letter is a placeholder with a suffix, or none, as in '100%ig'. The pair is
    kept if the sides are equal in either reading.
    """

    def placeholders_of(pattern: Any, text: str) -> Iterator[str]:
        if "%" in text or "{" in text or "$" in text:
            for match in pattern.findall(text):
                yield regex.sub(r"\s", "", match)

    readings = (functools.partial(placeholders_of, pattern) for pattern in _PLACEHOLDERS)
    return _equal("placeholders", *readings)


def numbers(context: RuleContext, *, least: float = 0.5) -> Rule:
    """Drops a pair whose sides share fewer than `least` of their numbers.

    Digits of all scripts are equal; separators are ignored ('1.000' is '1000') or split numbers
    ('02.03.' is '2/3'). Only pairs with digits on both sides are judged, since 'two' is a number
    too.
    """
    _check_fraction("least", least)

    def rule(pair: Pair) -> Pair | Dropped:
        if not _DIGITS.search(pair.source) or not _DIGITS.search(pair.target):
            return pair
        for pattern in (_DIGITS, _NUMBER):
            source, target = _numbers(pattern, pair.source), _numbers(pattern, pair.target)
            if 2 * (source & target).total() >= least * (source.total() + target.total()):
                return pair
        listed = " / ".join(" ".join(side.elements()) for side in (source, target))
        return Dropped("numbers", f"the sides have the numbers {listed}")

    return rule


def langid(
    context: RuleContext, *, model: str = "", least: float = 0.1, words: int = 5, letters: int = 20
) -> Rule:
    """Drops a pair with a side whose language has a probability below `least`.

    The language identifier is py3langid (97 languages), or `model`, a fastText file such as
    lid.176, NLLB's or GlotLID. Languages that it does not know, and sides with fewer `words` (in
    scripts with spaces) or `letters`, are not judged.
    """
    from mmt.data.cleaning import language_identification

    _check_fraction("least", least)
    identifier = language_identification.identifier(model)
    sides = {"source": context.language, "target": context.target}
    known_sides = {side: code for side, code in sides.items() if identifier.knows(code)}

    def rule(pair: Pair) -> Pair | Dropped:
        for side, text in _sides(pair):
            if side not in known_sides or sum(map(str.isalpha, text)) < letters:
                continue
            if " " in text and len(text.split()) < words:
                continue
            probability, best = identifier.judge(text, known_sides[side])
            if probability < least:
                detail = f"the {side} is {known_sides[side]} with {probability:.3f}, rather {best}"
                return Dropped("langid", detail)
        return pair

    return rule


@functools.lru_cache(maxsize=8)  # several rules need the two sides of one pair
def normalised(line: str) -> tuple[str, ...]:
    """Returns the words of a line without case, punctuation and compatibility forms."""
    if line.isascii():
        return tuple(_ASCII_WORD.findall(line.lower()))
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", line).casefold()))


def looped(line: str) -> bool:
    """Returns whether a text repeats a part several times in a row.

    The limits are four times for a word, three for a phrase, and eight for a syllable of up to four
    letters; without spaces between words, three for three letters or more.

    >>> [looped(line) for line in ("salad salad salad salad", "a lot of this, a lot of that")]
    [True, False]
    """
    words = normalised(line)
    if _periodic(words, lambda size: 4 if size == 1 else 3):
        return True
    for word in words:
        if len(word) > 7 and len(word) - len(set(word)) > 5:
            unspaced = len(word) >= 20
            if _periodic(word, lambda size: 3 if unspaced and size > 2 else 8):  # noqa: B023
                return True
    return False


def _periodic(units: Sequence[str], times: Callable[[int], int]) -> bool:
    """Returns whether `size` units occur `times(size)` times in a row, for any size."""
    count = len(units)
    spare = count - len(set(units))  # the number of units that repeat earlier ones
    for size in range(1, min(count // 3, spare // 2) + 1):
        needed = size * (times(size) - 1)
        if needed > spare:
            continue
        for start in range(0, count - 2 * size + 1, size):  # a row covers one of these
            if units[start : start + size] == units[start + size : start + 2 * size]:
                begin, end = start, start + size
                while begin and units[begin - 1] == units[begin - 1 + size]:
                    begin -= 1
                while end + size < count and units[end] == units[end + size]:
                    end += 1
                if end - begin >= needed:
                    return True
    return False


def _map_sides(pair: Pair, function: Callable[[str], str]) -> Pair:
    source, target = function(pair.source), function(pair.target)
    if source == pair.source and target == pair.target:
        return pair
    return pair._replace(source=source, target=target)


def _sides(pair: Pair) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("source", pair.source), ("target", pair.target)


def _equal(reason: str, *readings: Callable[[str], Any]) -> Rule:
    """Makes the rule that a reading gives the same items for both sides, in any order."""

    def rule(pair: Pair) -> Pair | Dropped:
        for items_of in readings:
            source, target = sorted(items_of(pair.source)), sorted(items_of(pair.target))
            if source == target:
                return pair
        detail = f"the source has {_join_or_none(source)}, the target {_join_or_none(target)}"
        return Dropped(reason, detail)

    return rule


def _join_or_none(items: list[str]) -> str:
    return " ".join(items) or "none"


def _check_fraction(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}; allowed: 0 to 1")


@functools.cache
def _script(code: str) -> Any:
    """Returns a pattern of letters of a language's script, and of characters without a script."""
    iso = code[-4:]
    scripts = "".join(rf"\p{{Script={name}}}" for name in _SCRIPTS.get(iso, iso).split())
    return regex.compile(rf"[{scripts}\p{{Script=Zyyy}}\p{{Script=Zinh}}]+")


def _numbers(pattern: re.Pattern[str], text: str) -> Counter[str]:
    def digits(number: str) -> str:
        decimals = (str(unicodedata.decimal(sign)) for sign in number if sign.isdecimal())
        return "".join(decimals).lstrip("0") or "0"

    return Counter(map(digits, pattern.findall(text)))


def _count_uncased(line: str, unit: int) -> float:
    """Returns the number of words without case; a word has `unit` letters if that is not 0."""
    starts = line if unit else [word[0] for word in _WORD.findall(line)]
    return sum(unicodedata.category(letter) == "Lo" for letter in starts) / (unit or 1)
