"""Phrases of the embedded corpus: their kinds, the weights of the kinds, and random phrases.

Phrases are independent of any language; `mmt.data.cldr.speaker` puts them into words. They use
small ranges and ranked vocabularies, so that a few hundred pairs show most month names and units of
a language. This is not a grammar: every phrase is a form that CLDR defines.
"""

import datetime
import random
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import NamedTuple

from babel.core import get_global

from mmt.data.cldr.speaker import Phrase, Speaker

# The number of phrases of each kind in a cycle of 50. Training has more single names, because the
# lists use their words.
WEIGHTS = {
    "date": 10,
    "unit": 9,
    "interval": 6,
    "relative": 6,
    "list": 5,
    "money": 4,
    "time": 3,
    "date_and_time": 3,
    "name": 2,
    "percent": 1,
    "duration": 1,
}
TRAIN_WEIGHTS = WEIGHTS | {"name": 9}


class Drawn(NamedTuple):
    """A phrase and its English text."""

    phrase: Phrase
    english: str


class Drawer:
    """Draws random phrases of a kind. Well-known names are drawn most often.

    >>> Drawer(Speaker("en_US")).draw("relative", random.Random("1"))
    Drawn(phrase=Phrase(form='relative', args=('week', 'past', 14)), english='14 weeks ago')
    """

    def __init__(self, english: Speaker) -> None:
        self._english = english
        self._names = {
            "territories": _ranked(_TERRITORIES, "[A-Z]{2}", english.lookup("territories")),
            "languages": _ranked(_LANGUAGES, "[a-z]{2}", english.lookup("languages")),
            "scripts": _SCRIPTS.split(),
            "currency_names": _ranked(
                _CURRENCIES, "|".join(_tender()), english.lookup("currency_names")
            ),
        }
        self._kinds: dict[str, Callable[[random.Random], Phrase]] = {
            "date": _date,
            "unit": _unit,
            "interval": _interval,
            "relative": _relative,
            "list": self._list,
            "money": self._money,
            "time": _time,
            "date_and_time": _date_and_time,
            "name": self._name,
            "percent": _percent,
            "duration": _duration,
        }

    def draw(self, kind: str, rng: random.Random) -> Drawn:
        """Returns a random phrase of a kind, a key of WEIGHTS."""
        phrase = self._kinds[kind](rng)
        return Drawn(phrase, self._english.say(phrase))

    def _some(self, table: str, count: int, rng: random.Random) -> list[Phrase]:
        """Returns distinct names of a table; names at the start of the ranking are the most
        frequent.
        """
        names = self._names[table]
        chosen: dict[str, None] = {}
        while len(chosen) < count:
            chosen[names[int(len(names) * rng.random() ** 4)]] = None
        return [Phrase("name", (table, code)) for code in chosen]

    def _name(self, rng: random.Random) -> Phrase:
        table = rng.choices(tuple(self._names), (9, 7, 2, 4))[0]
        if rng.random() < 0.75:
            return self._some(table, 1, rng)[0]
        where = rng.choices(("territories", "scripts"), (3, 1))[0]
        language, place = (self._some(t, 1, rng)[0].args[1] for t in ("languages", where))
        return Phrase("variety", (language, where, place))

    def _list(self, rng: random.Random) -> Phrase:
        about = rng.choices(
            ("territories", "languages", "currency_names", "weekday", "month"), (9, 6, 2, 4, 4)
        )[0]
        count = rng.choices((2, 3, 4), (4, 5, 1))[0]
        if about in self._names:
            items = self._some(about, count, rng)
        else:
            days = range(7) if about == "weekday" else range(1, 13)
            items = [Phrase(about, (day,)) for day in sorted(rng.sample(days, count))]
        return Phrase("listing", (rng.choices(("standard", "or"), (3, 1))[0], tuple(items)))

    def _money(self, rng: random.Random) -> Phrase:
        style = rng.choices(("name", "symbol"), (7, 3))[0]
        currency = self._some("currency_names", 1, rng)[0].args[1]
        currency = currency if style == "name" else rng.choice(_CURRENCIES.split()[:16])
        cents = rng.random() < 0.4 and currency not in ("JPY", "KRW")
        amount = Decimal(rng.randint(101, 9999)) / 100 if cents else _count(rng, large=0.4)
        return Phrase("money", (style, currency, amount))


def schedule(weights: dict[str, int]) -> Iterator[str]:
    """Yields kinds without end, each in proportion to its weight and evenly spread."""
    total = sum(weights.values())
    due = dict.fromkeys(weights, 0.0)
    while True:
        for kind, weight in weights.items():
            due[kind] += weight / total
        kind = max(due, key=lambda k: due[k])
        due[kind] -= 1
        yield kind


def _date(rng: random.Random) -> Phrase:
    day = _day(rng)
    width = rng.choices(
        (
            "full",
            "long",
            "medium",
            "short",
            "wide:MMMEd",
            "MMMMd",
            "yMMMM",
            "yQQQQ",
            "weekday",
            "month",
        ),
        (30, 16, 12, 6, 10, 8, 10, 3, 3, 2),
    )[0]
    if width == "weekday":
        return Phrase("weekday", (day.weekday(),))
    if width == "month":
        return Phrase("month", (day.month,))
    if width in ("full", "long", "medium", "short"):
        return Phrase("date", (width, day))
    return Phrase("part_of_date", (width, day))


def _time(rng: random.Random) -> Phrase:
    width = rng.choices(("short", "medium", "long", "full"), (12, 4, 2, 3))[0]
    moment = _moment(rng, seconds=width != "short")
    if width == "full":
        return Phrase("time", (width, moment, *rng.choice(_ZONES)))
    return Phrase("time", (width, moment))


def _date_and_time(rng: random.Random) -> Phrase:
    width = rng.choices(("full", "long", "medium", "short"), (5, 6, 5, 2))[0]
    return Phrase("date_and_time", (width, "short", _moment(rng)))


def _interval(rng: random.Random) -> Phrase:
    skeleton = rng.choices(
        (
            "wide:MMMEd",
            "wide:MMMd",
            "wide:yMMMd",
            "yMMMM",
            "yMMMd",
            "MMM",
            "time",
            "y",
            "full",
            "long",
            "medium",
        ),
        (8, 8, 6, 4, 5, 1, 6, 1, 3, 3, 3),
    )[0]
    start = _moment(rng)
    start = start.replace(day=min(start.day, 30)) if start.month == 12 else start
    if skeleton == "time":
        start = start.replace(hour=rng.randrange(18))
        end = start + datetime.timedelta(minutes=rng.choice(range(15, 360, 15)))
    elif skeleton in ("yMMMM", "MMM", "y"):
        start = start.replace(month=min(start.month, 11), day=1)
        later = {"y": rng.randint(1, 10), "yMMMM": rng.randint(0, 1), "MMM": 0}[skeleton]
        month = rng.randint(1, 12) if later else rng.randint(start.month + 1, 12)
        end = start.replace(year=start.year + later, month=month)
    else:
        end = start + datetime.timedelta(days=rng.choice((1, 2, 3, 4, 5, 6, 7, 10, 14, 30, 60, 90)))
        end = end if end.year == start.year else start.replace(month=12, day=31)
    return Phrase("interval", (skeleton, start, end))


def _relative(rng: random.Random) -> Phrase:
    field = rng.choices(
        ("second", "minute", "hour", "day", "week", "month", "quarter", "year"),
        (2, 4, 5, 6, 4, 5, 1, 5),
    )[0]
    return Phrase("relative", (field, rng.choice(("future", "past")), _count(rng)))


def _unit(rng: random.Random) -> Phrase:
    unit = _UNITS[int(len(_UNITS) * rng.random() ** 2)]
    number = Decimal(rng.randint(1, 500)) / 10 if rng.random() < 0.15 else _count(rng, large=0.15)
    return Phrase("unit", (unit, number))


def _duration(rng: random.Random) -> Phrase:
    """Returns quantities that people combine: "2 hours, 30 minutes", "5 feet, 11 inches"."""
    units = rng.choice(_TOGETHER)
    items = tuple(Phrase("unit", (unit, rng.randint(1, most))) for unit, most in units)
    return Phrase("listing", ("unit", items))


def _percent(rng: random.Random) -> Phrase:
    shares = [
        Decimal(rng.randint(1, 999)) / 10 if rng.random() < 0.7 else rng.randint(1, 100)
        for _ in range(rng.choices((1, 2, 3), (3, 3, 2))[0])
    ]
    items = tuple(Phrase("percent", (share,)) for share in dict.fromkeys(shares))
    return items[0] if len(items) == 1 else Phrase("listing", ("standard", items))


def _count(rng: random.Random, *, large: float = 0.0) -> int:
    """Returns a count: usually up to 30, sometimes up to 100, with probability `large` up to 9,999.
    """
    if rng.random() < large:
        return rng.randint(100, 9999)
    return rng.randint(1, 30) if rng.random() < 0.8 else rng.randint(31, 100)


def _day(rng: random.Random) -> datetime.datetime:
    return datetime.datetime(2000, 1, 1) + datetime.timedelta(days=rng.randrange(365 * 31))


def _moment(rng: random.Random, *, seconds: bool = False) -> datetime.datetime:
    minutes = 5 * rng.randrange(24 * 12)
    return _day(rng) + datetime.timedelta(minutes=minutes, seconds=seconds * rng.randrange(60))


def _ranked(first: str, others: str, names: Iterable[str]) -> list[str]:
    """Returns the codes of `first`, then, alphabetically, those of `names` that match `others`."""
    rest = {code for code in names if re.fullmatch(others, code)}.difference(
        first.split(), _NO_NAMES
    )
    return [code for code in first.split() if code in names] + sorted(rest)


def _tender() -> set[str]:
    """Returns the currencies that are legal tender somewhere today."""
    history = get_global("territory_currencies")  # territory -> (code, from, to, is tender)
    return {
        code
        for uses in history.values()
        for code, _, until, tender in uses
        if tender and until is None
    }


_NO_NAMES = {"ZZ", "XA", "XB", "QO", "EZ", "UN", "XXX", "XTS"}
_ZONES = (
    ("Europe_Central", "standard"),
    ("Europe_Central", "daylight"),
    ("America_Eastern", "standard"),
    ("America_Eastern", "daylight"),
    ("GMT", "standard"),
    ("Moscow", "standard"),
    ("China", "standard"),
    ("Japan", "standard"),
    ("India", "standard"),
    ("Brasilia", "standard"),
)
# By prominence: earlier entries are drawn more often.
_TERRITORIES = """
    US CN IN DE JP FR GB BR RU IT ES MX CA TR KR AU ID EG NG ZA PL UA AR NL SE CH GR PT IR IQ IL
    SA PK BD VN TH KE ET MA DZ CO CL PE VE CU BE AT NO FI DK IE CZ HU RO BG RS HR SK SI LT LV EE
    IS AL GE AM AZ KZ UZ AF SY LB JO YE AE QA NP LK MM KH LA MY SG PH NZ MN TZ UG GH SN ML CM CD
    AO MZ ZW ZM SD SO LY TN RW MG 001 150 002 019 142 003 005 009"""
_LANGUAGES = """
    en zh es ar fr ru de pt hi ja it ko tr nl pl id vi th sv uk fa el he cs hu ro bn ur sw fi da
    no ta te mr gu pa ms bg hr sr sk sl lt lv et is ga cy eu ca gl sq mk ka hy az kk uz mn ne si
    my km lo am ha yo zu xh so la eo sa"""
_SCRIPTS = """
    Latn Arab Cyrl Grek Hebr Deva Hans Hant Thai Hang Jpan Beng Taml Telu Geor Armn Ethi Khmr
    Laoo Mymr Tibt Gujr Guru Knda Mlym Orya Sinh Hira Kana Bopo Mong Cher Cans Tfng Syrc Thaa
    Copt Goth Brai Zsym"""
_CURRENCIES = """
    USD EUR GBP JPY CNY INR RUB BRL CHF CAD AUD MXN KRW TRY SEK NOK DKK PLN CZK HUF RON UAH ILS
    ZAR EGP NGN KES SAR AED THB VND IDR PHP PKR ARS CLP COP NZD SGD HKD"""
_UNITS = """
    duration-hour duration-minute duration-day length-kilometer duration-year length-meter
    mass-kilogram duration-week duration-month duration-second mass-gram volume-liter
    length-centimeter temperature-celsius speed-kilometer-per-hour length-mile area-square-kilometer
    length-millimeter area-square-meter digital-megabyte area-hectare mass-tonne length-foot
    length-inch mass-pound energy-kilowatt-hour power-watt digital-byte volume-cubic-meter
    volume-milliliter power-kilowatt speed-meter-per-second temperature-fahrenheit energy-joule
    digital-gigabyte frequency-hertz electric-volt speed-mile-per-hour angle-degree length-yard
    mass-ounce energy-kilocalorie duration-century duration-decade duration-millisecond
    volume-gallon area-acre digital-kilobyte volume-cup frequency-megahertz power-horsepower
    digital-bit electric-ampere mass-milligram length-light-year
    area-square-mile electric-ohm mass-carat length-nautical-mile""".split()
_TOGETHER = (
    (("duration-hour", 23), ("duration-minute", 59)),
    (("duration-minute", 59), ("duration-second", 59)),
    (("duration-day", 30), ("duration-hour", 23)),
    (("duration-year", 40), ("duration-month", 11)),
    (("duration-week", 12), ("duration-day", 6)),
    (("duration-hour", 23), ("duration-minute", 59), ("duration-second", 59)),
    (("mass-kilogram", 90), ("mass-gram", 900)),
    (("length-kilometer", 90), ("length-meter", 900)),
    (("length-meter", 90), ("length-centimeter", 99)),
)
