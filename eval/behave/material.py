"""What the cases of a language are made of: sentences of the run's corpus, and phrases of CLDR.

Every text has its English, so that a case can say what a right translation has.
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
    """The texts of one language. code: FLORES code; origin: where they are from.

    sentences: of the run's corpus, in an order that does not depend on the file. A language has a
    speaker if CLDR has it.
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
            for pair in self._said(self._shuffled(names, "words"), len(names))
            if is_word(pair.source) and pair.english.isalpha()
        ][:count]

    def names(self, count: int) -> list[TextPair]:
        """Returns names of well-known territories."""
        phrases = [Phrase("name", ("territories", code)) for code in TERRITORIES]
        return self._said(self._shuffled(phrases, "names"), count)

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

        pairs = self._drawn(draw, "numbers", count)
        return [TextPair(self._native(pair.source), pair.english) if place % 2 else pair
                for place, pair in enumerate(pairs)]  # fmt: skip

    def dates(self, count: int) -> list[tuple[TextPair, datetime.date]]:
        """Returns days with month and year in words and digits, and what day each is."""
        rng, found = self._random("dates"), dict[str, tuple[TextPair, datetime.date]]()
        for _ in range(count * _DRAWS):
            day = datetime.datetime(1950, 1, 1) + datetime.timedelta(rng.randrange(365 * 80))
            for source, english in self._said([Phrase("date", ("long", day))], 1):
                if any(map(str.isalpha, source)):
                    found.setdefault(source, (TextPair(source, english), day.date()))
            if len(found) == count or self.speaker is None:
                break
        return list(found.values())

    def phrases(self, count: int) -> list[TextPair]:
        """Returns phrases of several words, for a language without sentences."""
        if count < 1:
            return []
        mixed: list[TextPair] = []
        dates = [pair for pair, _ in self.dates(count)]
        numbers, names = self.numbers(count), self.names(3 * count)
        for place in range(count):
            mixed += dates[place : place + 1]
            mixed += numbers[place : place + 1]
            listed = names[3 * place : 3 * place + 3]
            if len(listed) == 3:
                mixed.append(TextPair(*(", ".join(side) for side in zip(*listed, strict=True))))
        return mixed[:count]

    def _random(self, purpose: str) -> random.Random:
        return random.Random(f"{purpose} {self.code}")

    def _shuffled(self, phrases: list[Phrase], purpose: str) -> list[Phrase]:
        self._random(purpose).shuffle(phrases)
        return phrases

    def _drawn(
        self, draw: Callable[[random.Random], Phrase], purpose: str, count: int
    ) -> list[TextPair]:
        rng = self._random(purpose)
        return self._said((draw(rng) for _ in range(count * _DRAWS)), count)

    def _said(self, phrases: Sequence[Phrase] | Iterator[Phrase], count: int) -> list[TextPair]:
        """Returns the first `count` phrases that CLDR has in the language, each once."""
        if self.speaker is None:
            return []
        english, found = _english(), dict[str, TextPair]()
        for phrase in phrases:
            if len(found) == count:
                break
            try:
                pair = TextPair(self.speaker.say(phrase), english.say(phrase))
            except Missing:
                continue
            if pair.source.casefold() != pair.english.casefold():
                found.setdefault(pair.source, pair)
        return list(found.values())

    def _native(self, text: str) -> str:
        """Returns the text with the digits that CLDR names as the language's own."""
        system = self.speaker.locale.default_numbering_system if self.speaker else ""
        if not (zero := _NATIVE_ZEROS.get(system)):
            return text
        return text.translate({ord("0") + n: ord(zero) + n for n in range(10)})


@functools.cache
def _english() -> Speaker:
    return Speaker("en_US")


def corpus_of(given: str, directory: str | Path) -> TestSet | None:
    """Returns the test split of a corpus, else its validation split.

    given: the corpus; '' is the one that the configuration of the run in `directory` names. If that
    is not on this machine, or has no such split, this is said on stderr, and None is returned.

    Raises ValueError for a given corpus that cannot be read, and a corpus into another language.
    """
    name = given or _corpus_named(Run(directory).config)
    try:
        if not name:
            raise ValueError(f"{Run(directory).config} names no corpus")
        testset = _loaded(name)
    except ValueError as error:
        if given:
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
    """Returns the material of each language that has any; the others are named on stderr.

    codes: FLORES codes. testset: sentences with English, see `corpus_of`.

    Raises ValueError if no language has any.
    """
    made, without = [], []
    for code in codes:
        pairs = testset.languages.get(code) if testset else None
        sentences = {TextPair(*pair) for pair in zip(pairs.sources, pairs.references, strict=True)
                     } if pairs else set[TextPair]()  # fmt: skip
        speaker = cldr.speaker_of(code)
        material = Material(code, "", tuple(sorted(sentences, key=_place)), speaker)
        has_phrases = bool(material.words(1) or material.phrases(1))
        origin = [testset.name] * bool(sentences) if testset else []
        origin += ["CLDR"] * has_phrases
        if origin:
            made.append(dataclasses.replace(material, origin=" and ".join(origin)))
        else:
            without.append(code)
    sources = f"neither CLDR nor {testset.name} has" if testset else "CLDR does not have"
    if not made:
        raise ValueError(f"no cases: {sources} {', '.join(without)}")
    if without:
        print(f"not tested: {sources} {', '.join(without)}", file=sys.stderr)
    return made


def _place(pair: TextPair) -> bytes:
    """Returns a key that sorts texts in an order of chance."""
    return hashlib.blake2b(pair.source.encode(), digest_size=8).digest()
