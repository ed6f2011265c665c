"""The cases of the behaviour suite: texts to translate, and what a right translation of each has.

Each case has a right translation, made of the English of its parts. Its property holds for it, as
`benchmarks/translate/behave.py` shows for every language of CLDR.
"""

import functools
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from eval.behave import properties
from eval.behave.material import Material, TextPair, is_word
from mmt.translate import line_checks, placeholders
from mmt.translate.sentences import has_words

_SENTENCES_OF_LONG, _LONG = 12, 3
_EMOJI = ("😀", "👍", "❤️", "🎉", "👩‍💻", "🌍")
_URLS = (
    "https://example.org/a?b=1", "www.example.com", "info@example.org",
    "https://example.net/2021/05/x_y.html#top", "http://example.com/~ana/",
)  # fmt: skip
_PLACEHOLDERS = ("{name}", "%s", "{{user}}", "%(count)d", "$1", "{0}")
_LATIN_NAMES = ("Wikipedia", "Linux", "YouTube", "NASA", "iPhone", "Python")
# Names in other scripts with what a translation may make of them.
_FOREIGN_NAMES = (
    ("Москва", "Moscow", "Moskva"), ("東京", "Tokyo"), ("Αθήνα", "Athens", "Athena", "Athina"),
    ("القاهرة", "Cairo", "Kairo"), ("서울", "Seoul"), ("ירושלים", "Jerusalem", "Yerushalayim"),
)  # fmt: skip
_CASED = ("Latn", "Cyrl", "Grek", "Armn", "Adlm")  # capitals of Georgian are no common spelling
_MARKUP = re.compile(r"[*\[\]<>|_=\\/#@{}()]")
_OTHER_NUMBERS = re.compile(
    r"[^\W\d_]-\d|[A-Za-z_/]\d|\d[A-Za-z_/]|\d[-–:/.,'’٫٬،⹁]\s?\d|\d[ \u00a0\u202f]\d"
    r"|\d\s?[万萬億亿兆만억천千百]"
)
_SCALES = re.compile(r"thousand|million|billion|hundred|half|:\d|[ap]\.?m\b")
_TINY = ("", "   ", ".", "?", "7", "-", "…", "*", "9")
_BREAKS = ("{0}\n{1}", "{0}\n\n{1}", "\n{0}\n", "{0}\u2028{1}\n{0}", "{0}\t{1}\n \n{1}")
_TURKIC = {"tur_Latn", "azj_Latn", "crh_Latn"}  # i is the small letter of İ


class Case(NamedTuple):
    """A text to translate. right: a right translation; plain: the text that it is a variant of.

    keeps: of each tuple, a right translation has one text. day: (day, month, year) of a date.
    """

    source: str
    right: str
    plain: str = ""
    keeps: tuple[tuple[str, ...], ...] = ()
    day: tuple[int, int, int] | None = None


class Behaviour(NamedTuple):
    """A kind of case. make: the cases of a language; fault: what is wrong with a translation.

    fault gets the case, its translation, and that of `Case.plain`; it returns '' for a right one.
    """

    name: str
    make: Callable[["_Texts"], Iterator[Case]]
    fault: Callable[[Case, str, str], str]


class _Texts(NamedTuple):
    """What the cases of a language are made of.

    size: the number of cases of a behaviour. bases: sentences that cases vary, or phrases where
    there are too few. words: single words; those of CLDR keep their English.
    """

    material: Material
    size: int
    bases: Sequence[TextPair]
    words: Sequence[Case]


def _texts(material: Material, count: int) -> _Texts:
    sentences = list(itertools.islice(filter(is_base, material.sentences), count))
    sentences += material.phrases(count - len(sentences))
    words = [Case(*pair, keeps=((pair.english,),)) for pair in material.words(count)]
    more_words = itertools.islice(filter(_is_word, material.sentences), count - len(words))
    return _Texts(material, count, sentences, [*words, *(Case(*pair) for pair in more_words)])


def is_base(pair: TextPair) -> bool:
    """Returns whether a pair is an ordinary sentence, without numbers and placeholders."""
    return (
        15 <= len(pair.english) <= 160
        and has_words(pair.source)
        and pair.source.isprintable()
        and not _MARKUP.search(pair.source)
        and not any(map(str.isdigit, pair.source + pair.english))
        and not placeholders.counts(pair.source)
        and not line_checks.is_copy(pair.source, pair.english)
        and not line_checks.is_names(pair.english)
        and not properties.sentence(Case(pair.source, pair.english), pair.english, "")
    )


def _is_word(pair: TextPair) -> bool:
    """Returns whether both sides are one word, and differ."""
    short = len(pair.source) <= 20 and is_word(pair.source) and pair.english.isalpha()
    return short and pair.source.casefold() != pair.english.casefold()


def has_numbers(pair: TextPair) -> bool:
    """Returns whether a pair has whole numbers that every translation writes alike.

    Times, decimals, types such as A-25, and 25 thousand, which may be 25,000, are none.
    """
    numbers = re.findall(r"\d+", pair.source)
    return (
        len(pair.english) <= 160
        and pair.source.isprintable()
        and bool(numbers)
        and all(3 <= int(number) <= 9999 for number in numbers)
        and not _OTHER_NUMBERS.search(pair.source)
        and not _SCALES.search(pair.english.casefold())
        and not placeholders.counts(pair.source)
        and not line_checks.is_copy(pair.source, pair.english)
        and not properties.numbers(Case(*pair), pair.english, "")
    )


def _varied(
    pair: TextPair, change: Callable[[str], str], keeps: tuple[tuple[str, ...], ...] = ()
) -> Case:
    return Case(change(pair.source), change(pair.english), keeps=keeps)


def _combined(pairs: Sequence[TextPair], change: Callable[[Sequence[str]], str]) -> Case:
    return Case(change([pair.source for pair in pairs]), change([pair.english for pair in pairs]))


def _sentences(texts: _Texts) -> Iterator[Case]:
    return (Case(*pair) for pair in texts.bases)


def _words(texts: _Texts) -> Iterator[Case]:
    return iter(texts.words)


def _names(texts: _Texts) -> Iterator[Case]:
    names = texts.material.names(texts.size)
    return (Case(*pair, keeps=((pair.english,),)) for pair in names)


def _numbers(texts: _Texts) -> Iterator[Case]:
    """Yields sentences with numbers that the English has too, and phrases."""
    numbered = filter(has_numbers, texts.material.sentences)
    sentences = list(itertools.islice(numbered, texts.size // 2))
    phrases = texts.material.numbers(texts.size - len(sentences))
    return (Case(*pair) for pair in [*sentences, *phrases])


def _dates(texts: _Texts) -> Iterator[Case]:
    for pair, day in texts.material.dates(texts.size):
        yield Case(*pair, day=(day.day, day.month, day.year))


def _capitals(texts: _Texts) -> Iterator[Case]:
    for source, english in texts.bases:
        dotted = source.replace("i", "İ") if texts.material.code in _TURKIC else source
        capitals = unicodedata.normalize("NFC", dotted.upper())
        if texts.material.code.endswith(_CASED) and source != capitals:
            yield Case(capitals, english.upper(), plain=source)


def _emoji(texts: _Texts) -> Iterator[Case]:
    for pair, emoji in zip(texts.bases, itertools.cycle(_EMOJI), strict=False):
        yield _varied(pair, f"{{}} {emoji}".format, keeps=((emoji,),))


def _tiny(texts: _Texts) -> Iterator[Case]:
    """Yields lines without a word and of one character, in turn with letters of the language."""
    letters = dict.fromkeys(filter(str.isalpha, "".join(pair.source for pair in texts.bases)))
    tiny = [text for text_pair in zip(_TINY, letters, strict=False) for text in text_pair]
    return (Case(text, text) for text in tiny[: texts.size])


def _long(texts: _Texts) -> Iterator[Case]:
    """Yields lines of a dozen sentences, the second one without marks between them."""
    for i in range(min(_LONG, len(texts.bases))):
        ends = texts.bases[:i], texts.bases[i:]
        cycle = itertools.cycle([*ends[1], *ends[0]])
        parts = list(itertools.islice(cycle, _SENTENCES_OF_LONG))
        if i == 1:
            yield _combined(parts, lambda side: ", ".join(map(_unmarked, side)))
        else:
            yield _combined(parts, " ".join)


def _unmarked(text: str) -> str:
    """Returns a text without the punctuation at its end."""
    while text and unicodedata.category(text[-1])[0] == "P":
        text = text[:-1]
    return text


def _filled(form: str, holder: str, text: str) -> str:
    return form.format(text, holder)


def _mixed(texts: _Texts) -> Iterator[Case]:
    """Yields a name in another script in brackets: in Latin, or for Latin script in others."""
    in_latin = texts.material.code.endswith("_Latn")
    names = _FOREIGN_NAMES if in_latin else [(name,) for name in _LATIN_NAMES]
    for pair, spellings in zip(texts.bases, itertools.cycle(names), strict=False):
        yield _varied(pair, f"{{}} ({spellings[0]})".format, keeps=(spellings,))


def _links(texts: _Texts) -> Iterator[Case]:
    for pair, url in zip(texts.bases, itertools.cycle(_URLS), strict=False):
        yield _varied(TextPair(*map(_unmarked, pair)), f"{{}}: {url}".format)


def _placeholders(texts: _Texts) -> Iterator[Case]:
    each = zip(texts.bases, itertools.cycle(_PLACEHOLDERS), strict=False)
    for i, (pair, holder) in enumerate(each):
        form = "{1}: {0}" if i % 2 else "{0} ({1})"
        yield _varied(pair, functools.partial(_filled, form, holder))


def _six_times(text: str) -> str:
    return " ".join([text] * 6)


def _repeats(texts: _Texts) -> Iterator[Case]:
    """Yields a word six times, a sentence three times, and a sentence with a row of marks."""
    for i, pair in enumerate(texts.bases):
        if i % 3 == 0:
            for word in texts.words[i : i + 1]:
                yield _varied(TextPair(word.source, word.right), _six_times)
        elif i % 3 == 1:
            yield _varied(pair, lambda text: " ".join([text] * 3))
        else:
            yield _varied(pair, lambda text: _unmarked(text) + "!" * 20)


def _laid_out(form: str, two: Sequence[str]) -> str:
    return form.format(*two)


def _breaks(texts: _Texts) -> Iterator[Case]:
    """Yields texts of several lines, some empty, some with separators that end no line."""
    for i, form in zip(range(len(texts.bases)), itertools.cycle(_BREAKS), strict=False):
        two = texts.bases[i], texts.bases[i - 1]
        case = _combined(two, functools.partial(_laid_out, form))
        yield case._replace(right=case.right.replace("\u2028", " ").replace("\t", " "))


BEHAVIOURS = {
    behaviour.name: behaviour
    for behaviour in (
        Behaviour("sentences", _sentences, properties.sentence),
        Behaviour("words", _words, properties.word),
        Behaviour("names", _names, properties.kept),
        Behaviour("numbers", _numbers, properties.numbers),
        Behaviour("dates", _dates, properties.date),
        Behaviour("capitals", _capitals, properties.alike),
        Behaviour("emoji", _emoji, properties.kept),
        Behaviour("tiny", _tiny, properties.tiny),
        Behaviour("long", _long, properties.sentence),
        Behaviour("mixed", _mixed, properties.kept),
        Behaviour("links", _links, properties.copied),
        Behaviour("placeholders", _placeholders, properties.copied),
        Behaviour("repeats", _repeats, properties.bounded),
        Behaviour("breaks", _breaks, properties.lines),
    )
}


def make(material: Material, count: int, behaviours: Sequence[str]) -> dict[str, list[Case]]:
    """Returns up to `count` cases of each behaviour that the material suffices for.

    Equal material gives equal cases. Names are those of `BEHAVIOURS`.
    """
    texts = _texts(material, count)
    cases_by_behaviour = {
        name: list(dict.fromkeys(BEHAVIOURS[name].make(texts))) for name in behaviours
    }
    return {name: cases for name, cases in cases_by_behaviour.items() if cases}
