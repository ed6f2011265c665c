"""Rules of cleaning: what makes a pair of sentences unfit to learn from, and what is mended in one.

A rule is `Pair -> Pair | Dropped`. A function here makes one from what it may know (`About`); its
keyword arguments are the rule's settings in TOML, their defaults its own. Which rules hold for what
is for rulebook.py; rules that look at more than a pair are in rules_between.py.
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
    """Why a pair is left out. reason: what the report counts; detail: what made it so."""

    reason: str
    detail: str = ""


class About(NamedTuple):
    """What a rule may know beside the pair.

    language, target: FLORES codes of the sides. learnt: lengths, from the corpus (see
    rules_between.py). overlap: the test sets. seen: of earlier pairs, shared by all corpora of a
    language; pairs: how many it may have to hold.
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
_TAG = regex.compile(r"<(/?[A-Za-z][\w:-]*)(?:\s[^<>]*)?/?>")
_URL = regex.compile(r"(?:https?://|www\.)[^\s<>\"'\p{Pi}\p{Pf}]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_URL_END = regex.compile(r"[\p{P}--[/#&%_@*-]]+$", regex.VERSION1)
_PLACEHOLDER = regex.compile(
    r"%(?:\d+\$|\(\w+\))?[-+0]*\d*(?:\.\d+)?[sdifux@](?!\w)|\$?\{\{?\s*[\w.]*\s*\}?\}|\$\w+\$"
)
_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(r"\d+(?:[.,'\u2019\u066b\u066c\u00a0\u202f]\d+)*")


def encoding(about: About) -> Rule:
    """Mends text that was decoded wrongly ('Ã¼ber' becomes 'über'), by ftfy; drops what holds
    U+FFFD, the sign for what could not be decoded.

    What would bring letters of other scripts than the language's is no repair: 'áˆ¡', as Chinantec
    writes, is Ethiopic to ftfy.
    """
    scripts = _script(about.language), _script(about.target)

    def mended(text: str, script: Any) -> str:
        if text.isascii() or not is_bad(text):
            return text
        fixed = ftfy.fix_encoding(text)
        return fixed if len(script.sub("", fixed)) <= len(script.sub("", text)) else text

    def rule(pair: Pair) -> Pair | Dropped:
        source, target = map(mended, pair[:2], scripts)
        if (source, target) != pair[:2]:
            pair = pair._replace(source=source, target=target)
        for side, text in _sides(pair):
            if "\ufffd" in text:
                return Dropped("encoding", f"the {side} has U+FFFD")
        return pair

    return rule


def normalise(about: About, *, form: Literal["NFC", "NFKC"] = "NFC") -> Rule:
    """Unicode's normal form, no control characters, and one space where there was white space."""
    if form not in ("NFC", "NFKC"):
        raise ValueError(f"form is {form!r}; allowed: NFC, NFKC")

    def normal(text: str) -> str:
        if not text.isascii():
            text = unicodedata.normalize(form, text)
        return " ".join(_CONTROL.sub("", text).split())

    return lambda pair: _both(pair, normal)


def length(about: About, *, characters: tuple[int, int] = (1, 1000), words: int = 250) -> Rule:
    """Drops what is shorter or longer, on either side; words are what white space divides."""
    least, most = characters
    if not 0 < least <= most or words < 1:
        raise ValueError(f"characters are {least} to {most}, words {words}; allowed: 1 and more")

    def rule(pair: Pair) -> Pair | Dropped:
        for side, text in _sides(pair):
            if len(text) < least:
                return Dropped("length: short", f"the {side} has {len(text)} characters")
            if len(text) > most:
                return Dropped("length: long", f"the {side} has {len(text)} characters")
            if len(text) > words and (number := len(text.split())) > words:
                return Dropped("length: long", f"the {side} has {number} words")
        return pair

    return rule


def script(about: About, *, least: float = 0.5, letters: int = 4) -> Rule:
    """Drops a side with under this share of its letters in its language's own script, by Unicode;
    sides of fewer letters, as 'USB', are not judged.
    """
    _share("least", least)
    letters_of_script = {"source": _script(about.language), "target": _script(about.target)}

    def rule(pair: Pair) -> Pair | Dropped:
        for side, text in _sides(pair):
            if letters_of_script[side].fullmatch(text):
                continue
            written = "".join(_WRITTEN.findall(text))
            inside = len(written) - len(letters_of_script[side].sub("", written))
            if len(written) >= letters and inside < least * len(written):
                code = about.language if side == "source" else about.target
                share = f"{inside} of {len(written)} letters of the {side}"
                return Dropped("script", f"{share} are in the script of {code}")
        return pair

    return rule


def repeats(about: About, *, characters: int = 12, loops: bool = True) -> Rule:
    """Drops a character more often in a row than this, and a loop (`loops`) on one side only: what
    both sides repeat is a song.
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
                return Dropped("repeats: loop", f"the {looping[0]} says the same over and over")
        return pair

    return rule


def copies(about: About, *, words: int = 2) -> Rule:
    """Drops a target that is its source again but for case and punctuation, of at least so many
    words with a small letter among them: names and numbers may stay as they are.
    """

    def rule(pair: Pair) -> Pair | Dropped:
        same = normalised(pair.source)
        if len(same) >= words and same == normalised(pair.target) and not _is_names(pair.source):
            return Dropped("copies", "the target is the source again")
        return pair

    return rule


def tags(about: About) -> Rule:
    """Drops a pair whose sides have other HTML or XML tags, whatever their attributes."""
    return _equal("tags", lambda text: _TAG.findall(text.lower()) if "<" in text else ())


def urls(about: About) -> Rule:
    """Drops a pair whose sides have other addresses of the web or of mail."""

    def addresses(text: str) -> Iterator[str]:
        if "www." in text or "://" in text or "@" in text:
            for url in _URL.findall(text):
                yield _URL_END.sub("", url.lower())

    return _equal("urls", addresses)


def placeholders(about: About) -> Rule:
    """Drops a pair whose sides have other places to fill: `%s`, `%1$d`, `%(name)s`, `{name}`."""

    def placeholders_of(text: str) -> Iterator[str]:
        if "%" in text or "{" in text or "$" in text:
            for match in _PLACEHOLDER.findall(text):
                yield regex.sub(r"\s", "", match)

    return _equal("placeholders", placeholders_of)


def numbers(about: About, *, least: float = 0.5) -> Rule:
    """Drops a pair with under this share of its numbers on both sides, by their digits in any
    script, with ('1.000' is '1000') or without what separates them ('02.03.' is '2/3'); judged
    where both sides have digits, for 'two' is a number too.
    """
    _share("least", least)

    def rule(pair: Pair) -> Pair | Dropped:
        if not _DIGITS.search(pair.source) or not _DIGITS.search(pair.target):
            return pair
        for pattern in (_DIGITS, _NUMBER):
            source, target = _numbers(pattern, pair.source), _numbers(pattern, pair.target)
            if 2 * (source & target).total() >= least * (source.total() + target.total()):
                return pair
        shown = " / ".join(" ".join(side.elements()) for side in (source, target))
        return Dropped("numbers", f"the sides have the numbers {shown}")

    return rule


def langid(
    about: About, *, model: str = "", least: float = 0.1, words: int = 5, letters: int = 20
) -> Rule:
    """Drops a side whose own language a language identifier finds this improbable.

    The identifier is py3langid (97 languages), or the `model` at hand, a fastText file such as
    lid.176, NLLB's or GlotLID. A language that it does not know, and sides with fewer words (in
    scripts with spaces) or letters, are not judged.
    """
    from mmt.data.cleaning import language_identification

    _share("least", least)
    identifier = language_identification.identifier(model)
    sides = {"source": about.language, "target": about.target}
    known = {side: code for side, code in sides.items() if identifier.knows(code)}

    def rule(pair: Pair) -> Pair | Dropped:
        for side, text in _sides(pair):
            if side not in known or sum(map(str.isalpha, text)) < letters:
                continue
            if " " in text and len(text.split()) < words:
                continue
            probability, other = identifier.judge(text, known[side])
            if probability < least:
                detail = f"the {side} is {known[side]} with {probability:.3f}, rather {other}"
                return Dropped("langid", detail)
        return pair

    return rule


@functools.lru_cache(maxsize=8)  # several rules ask for the two sides of one pair
def normalised(line: str) -> tuple[str, ...]:
    """The words of a line without case, punctuation and forms of compatibility."""
    if line.isascii():
        return tuple(_ASCII_WORD.findall(line.lower()))
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", line).casefold()))


def looped(line: str) -> bool:
    """Whether a word stands four times in a row, a phrase three times, a syllable of up to four
    letters eight times; or, where words are not spaced, three letters or more three times.

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
    """Whether some `size` units stand `times(size)` times in a row."""
    count = len(units)
    spare = count - len(set(units))  # so many units of such a row are there already
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


def _both(pair: Pair, function: Callable[[str], str]) -> Pair:
    source, target = function(pair.source), function(pair.target)
    if source == pair.source and target == pair.target:
        return pair
    return pair._replace(source=source, target=target)


def _sides(pair: Pair) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("source", pair.source), ("target", pair.target)


def _equal(reason: str, items_of: Callable[[str], Any]) -> Rule:
    """Makes the rule that `items_of` gives the same for both sides, in any order."""

    def rule(pair: Pair) -> Pair | Dropped:
        source, target = sorted(items_of(pair.source)), sorted(items_of(pair.target))
        if source != target:
            detail = f"the source has {_listed(source)}, the target {_listed(target)}"
            return Dropped(reason, detail)
        return pair

    return rule


def _listed(words: list[str]) -> str:
    return " ".join(words) or "none"


def _share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}; allowed: 0 to 1")


@functools.cache
def _script(code: str) -> Any:
    """Letters of a language's own script, and all that belongs to no script."""
    iso = code[-4:]
    scripts = "".join(rf"\p{{Script={name}}}" for name in _SCRIPTS.get(iso, iso).split())
    return regex.compile(rf"[{scripts}\p{{Script=Zyyy}}\p{{Script=Zinh}}]+")


def _numbers(pattern: re.Pattern[str], text: str) -> Counter[str]:
    def digits(number: str) -> str:
        decimals = (str(unicodedata.decimal(sign)) for sign in number if sign.isdecimal())
        return "".join(decimals).lstrip("0") or "0"

    return Counter(map(digits, pattern.findall(text)))


def _is_names(line: str) -> bool:
    return not any(word[0].islower() for word in _WORD.findall(line))
