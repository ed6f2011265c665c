"""The texts from which cases are made: sentences of the run's corpus, and phrases of CLDR.

Every text has an English translation, from which a case knows what a correct output contains.
"""

import dataclasses
import datetime
import functools
import hashlib
import random
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from eval import testsets
from eval.testsets import TestSet
from mmt import config
from mmt.data import cldr, recipe
from mmt.data.cldr.speaker import Missing, Phrase, Speaker
from mmt.run import Run

_ENGLISH = "eng_Latn"
_DRAWS = 20  # tries per phrase: CLDR does not have every unit in every language
# Territories with one usual English name.
TERRITORIES = (
    "DE FR IT ES JP CN IN BR CA MX EG KE NG AU RU AR PE CU IR IQ IL ID VN PK PL NO SE GR UA CL FI "
    "HU DK AT BE SY LB SD UG TZ GH AF NP KZ UZ AM PH MY CO EC"
).split()
_UNITS = (
    "length-kilometer", "length-meter", "length-centimeter", "mass-kilogram", "mass-gram",
    "duration-hour", "duration-minute", "duration-second", "duration-day", "duration-week",
    "duration-month", "duration-year", "volume-liter",
)  # fmt: skip
_FIELDS = ("year", "month", "week", "day", "hour", "minute")
_NATIVE_ZEROS = {
    "arab": "\u0660", "arabext": "\u06f0", "beng": "\u09e6", "deva": "\u0966", "mymr": "\u1040",
    "nkoo": "\u07c0", "tibt": "\u0f20", "adlm": "\U0001e950", "cakm": "\U00011136",
    "olck": "\u1c50",
}  # fmt: skip


class TextPair(NamedTuple):
    """A text and its English."""

    source: str
    english: str


def is_word(text: str) -> bool:
    """Returns whether a text is letters, with their marks and joiners, without a space."""
    return text != "" and all(
        unicodedata.category(letter)[0] in "LM" or letter in "\u200c\u200d" for letter in text
    )


@dataclasses.dataclass(frozen=True)
class Material:
    """The texts of one language.

    Attributes:
        code: FLORES code.
        origin: the sources of the texts, for reports.
        sentences: of the run's corpus, in an order that does not depend on the file.
        speaker: makes the phrases of CLDR; None if CLDR does not have the language.
    """

    code: str
    origin: str
    sentences: tuple[TextPair, ...]
    speaker: Speaker | None

    def words(self, count: int) -> list[TextPair]:
        """Returns months, weekdays and languages of one word."""
        names = [Phrase("month", (month,)) for month in range(1, 13)]
        names += [Phrase("weekday", (day,)) for day in range(7)]
        names += [Phrase("name", ("languages", code)) for code in ("de", "fr", "es", "ja", "ar")]
        return [
            pair
            for pair in self._phrase_pairs(self._shuffled(names, "words"), len(names))
            if is_word(pair.source) and pair.english.isalpha()
        ][:count]

    def names(self, count: int) -> list[TextPair]:
        """Returns names of well-known territories."""
        phrases = [Phrase("name", ("territories", code)) for code in TERRITORIES]
        return self._phrase_pairs(self._shuffled(phrases, "names"), count)

    def numbers(self, count: int) -> list[TextPair]:
        """Returns quantities and periods; half have the digits of the language, if it has its own.

        All numbers are 3 or more: "2 days ago" may be "the day before yesterday".
        """

        def draw(rng: random.Random) -> Phrase:
            amount = rng.randint(3, 99) if rng.random() < 0.7 else rng.randint(101, 9999)
            if rng.random() < 0.5:
                return Phrase("unit", (rng.choice(_UNITS), amount))
            direction = rng.choice(("past", "future"))
            return Phrase("relative", (rng.choice(_FIELDS), direction, rng.randint(3, 99)))

        pairs = self._draw_pairs(draw, "numbers", count)
        return [TextPair(self._native(pair.source), pair.english) if i % 2 else pair
                for i, pair in enumerate(pairs)]  # fmt: skip

    def dates(self, count: int) -> list[tuple[TextPair, datetime.date]]:
        """Returns dates with the month in words, each with its value."""
        rng, dates = self._random("dates"), dict[str, tuple[TextPair, datetime.date]]()
        for _ in range(count * _DRAWS):
            day = datetime.datetime(1950, 1, 1) + datetime.timedelta(rng.randrange(365 * 80))
            for source, english in self._phrase_pairs([Phrase("date", ("long", day))], 1):
                if any(map(str.isalpha, source)):
                    dates.setdefault(source, (TextPair(source, english), day.date()))
            if len(dates) == count or self.speaker is None:
                break
        return list(dates.values())

    def phrases(self, count: int) -> list[TextPair]:
        """Returns phrases of several words, for a language without sentences."""
        if count < 1:
            return []
        mixed: list[TextPair] = []
        dates = [pair for pair, _ in self.dates(count)]
        numbers, names = self.numbers(count), self.names(3 * count)
        for i in range(count):
            mixed += dates[i : i + 1]
            mixed += numbers[i : i + 1]
            triple = names[3 * i : 3 * i + 3]
            if len(triple) == 3:
                mixed.append(TextPair(*(", ".join(side) for side in zip(*triple, strict=True))))
        return mixed[:count]

    def _random(self, purpose: str) -> random.Random:
        return random.Random(f"{purpose} {self.code}")

    def _shuffled(self, phrases: list[Phrase], purpose: str) -> list[Phrase]:
        self._random(purpose).shuffle(phrases)
        return phrases

    def _draw_pairs(
        self, draw: Callable[[random.Random], Phrase], purpose: str, count: int
    ) -> list[TextPair]:
        rng = self._random(purpose)
        return self._phrase_pairs((draw(rng) for _ in range(count * _DRAWS)), count)

    def _phrase_pairs(
        self, phrases: Sequence[Phrase] | Iterator[Phrase], count: int
    ) -> list[TextPair]:
        """Returns the first `count` phrases that CLDR has in the language, each once."""
        if self.speaker is None:
            return []
        english, pairs = _english(), dict[str, TextPair]()
        for phrase in phrases:
            if len(pairs) == count:
                break
            try:
                pair = TextPair(self.speaker.say(phrase), english.say(phrase))
            except Missing:
                continue
            if pair.source.casefold() != pair.english.casefold():
                pairs.setdefault(pair.source, pair)
        return list(pairs.values())

    def _native(self, text: str) -> str:
        """Returns the text with the digits that CLDR names as the language's own."""
        system = self.speaker.locale.default_numbering_system if self.speaker else ""
        if not (zero := _NATIVE_ZEROS.get(system)):
            return text
        return text.translate({ord("0") + n: ord(zero) + n for n in range(10)})


@functools.cache
def _english() -> Speaker:
    return Speaker("en_US")


def corpus_of(corpus: str, directory: str | Path) -> TestSet | None:
    """Returns the test split of a corpus, else its validation split.

    corpus: '' is the corpus in the configuration of the run in `directory`. If it is not on this
    machine, or has no such split, a message is printed on stderr and None is returned.

    Raises ValueError if a named corpus cannot be read, or the target is not English.
    """
    name = corpus or _corpus_named(Run(directory).config)
    try:
        if not name:
            raise ValueError(f"{Run(directory).config} names no corpus")
        testset = _loaded(name)
    except ValueError as error:
        if corpus:
            raise
        print(
            f"no sentences of the run's corpus, only phrases of CLDR: {error} "
            "(--gin.Suite.corpus=DIR names one)", file=sys.stderr,
        )  # fmt: skip
        return None
    if testset.target != _ENGLISH:
        raise ValueError(f"{name}: its target is {testset.target}; the suite needs {_ENGLISH}")
    return testset


def _corpus_named(file: Path) -> str:
    """Returns the corpus that a configuration names, or ''."""
    with config.isolated(file):
        name = config.value(recipe.CacheConfig, "corpus") or config.macro("CORPUS")
    return name if isinstance(name, str) else ""


def _loaded(name: str) -> TestSet:
    try:
        return testsets.load(name, split="test")
    except ValueError as error:
        if "has no test split" not in str(error):
            raise
        return testsets.load(name, split="validation")


def materials(codes: Sequence[str], testset: TestSet | None) -> list[Material]:
    """Returns the material of each language; languages without any are named on stderr.

    codes: FLORES codes. testset: sentences with English, see `corpus_of`.

    Raises ValueError if no language has any.
    """
    result, missing = [], []
    for code in codes:
        pairs = testset.languages.get(code) if testset else None
        sentences = {TextPair(*pair) for pair in zip(pairs.sources, pairs.references, strict=True)
                     } if pairs else set[TextPair]()  # fmt: skip
        speaker = cldr.speaker_of(code)
        material = Material(code, "", tuple(sorted(sentences, key=_sort_key)), speaker)
        has_phrases = bool(material.words(1) or material.phrases(1))
        origin = [testset.name] * bool(sentences) if testset else []
        origin += ["CLDR"] * has_phrases
        if origin:
            result.append(dataclasses.replace(material, origin=" and ".join(origin)))
        else:
            missing.append(code)
    sources = f"neither CLDR nor {testset.name} has" if testset else "CLDR does not have"
    if not result:
        raise ValueError(f"no cases: {sources} {', '.join(missing)}")
    if missing:
        print(f"not tested: {sources} {', '.join(missing)}", file=sys.stderr)
    return result


def _sort_key(pair: TextPair) -> tuple[bytes, str]:
    """Returns a hash and the English, which sort texts in a random but fixed order."""
    return hashlib.blake2b(pair.source.encode(), digest_size=8).digest(), pair.english
