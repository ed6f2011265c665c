"""A speaker's phrases against CLDR's known forms and Babel's functions, and the missing ones."""

import datetime
import random
from decimal import Decimal

import pytest
from babel import dates, lists, localedata, numbers, units

from mmt.data.cldr.phrases import WEIGHTS, Drawer
from mmt.data.cldr.speaker import Missing, Phrase, Speaker, plain


def test_the_phrases_people_expect() -> None:
    german, english = Speaker("de"), Speaker("en_US")
    start, end = datetime.datetime(2021, 3, 1), datetime.datetime(2021, 3, 5)
    names = tuple(Phrase("name", ("territories", code)) for code in ("DE", "JP", "BR"))
    for phrase, source, target in (
        (
            Phrase("date", ("full", datetime.datetime(2021, 3, 2))),
            "Dienstag, 2. März 2021",
            "Tuesday, March 2, 2021",
        ),
        (Phrase("unit", ("duration-hour", 3)), "3 Stunden", "3 hours"),
        (Phrase("relative", ("day", "past", 2)), "vor 2 Tagen", "2 days ago"),
        (
            Phrase("interval", ("wide:MMMEd", start, end)),
            "Montag, 1. – Freitag, 5. März",
            "Monday, March 1 – Friday, March 5",
        ),
        (
            Phrase("listing", ("standard", names)),
            "Deutschland, Japan und Brasilien",
            "Germany, Japan, and Brazil",
        ),
        (Phrase("money", ("name", "EUR", Decimal("12.50"))), "12,50 Euro", "12.50 euros"),
    ):
        assert (german.say(phrase), english.say(phrase)) == (source, target)


def test_words_that_babel_borrows_are_missing() -> None:
    march = datetime.datetime(2021, 3, 2)
    borrowed = units.format_unit(1560, "duration-minute", "long", locale="mt")
    assert borrowed in ("1,560 duration-minute", "1,560 min")  # Babel to 2.18, and from 2.19
    with pytest.raises(Missing):
        Speaker("mt").say(Phrase("unit", ("duration-minute", 1560)))
    assert "M03" in dates.format_date(march, "long", locale="lrc_IQ") or "M03" in dates.format_date(
        march, "long", locale="vai_Latn"
    )
    with pytest.raises(Missing):
        Speaker("vai_Latn").say(Phrase("date", ("long", march)))
    with pytest.raises(Missing, match="no data"):
        Speaker("xx")
    rng, drawer = random.Random(0), Drawer(Speaker("en_US"))
    for locale in ("io", "wa", "arn"):  # all but their own name is the root's
        speaker = Speaker(locale)
        for kind in set(WEIGHTS) - {"money", "percent", "name", "list"}:
            with pytest.raises(Missing):
                speaker.say(drawer.draw(kind, rng).phrase)


@pytest.mark.parametrize("locale", ["de", "ru", "ar", "hi", "sw", "zh_Hant", "fa", "pl", "ti"])
def test_a_speaker_equals_babel_if_no_word_is_missing(locale: str) -> None:
    speaker = Speaker(locale)
    units_of_data = localedata.LocaleDataDict(localedata.load(locale))["unit_patterns"]
    moment = datetime.datetime(2024, 7, 9, 15, 45, 7)
    for width in ("full", "long", "medium", "short"):
        assert speaker.say(Phrase("date", (width, moment))) == plain(
            dates.format_date(moment, width, locale=locale)
        )
    assert speaker.say(Phrase("time", ("short", moment))) == plain(
        dates.format_time(moment, "short", locale=locale)
    )
    assert speaker.say(Phrase("interval", ("yMMMd", moment, moment.replace(day=12)))) == plain(
        dates.format_interval(moment, moment.replace(day=12), "yMMMd", locale=locale)
    )
    for count in (1, 2, 5, 11, 21, Decimal("1.5")):
        assert speaker.say(Phrase("money", ("name", "USD", count))) == plain(
            numbers.format_currency(
                count,
                "USD",
                locale=locale,
                format_type="name",
                currency_digits=count == Decimal("1.5"),
            )
        )
        if "other" in units_of_data["duration-day"].get("long", {}):
            assert speaker.say(Phrase("unit", ("duration-day", count))) == plain(
                units.format_unit(count, "duration-day", "long", locale=locale)
            )
    for count in (2, 3, 4):
        items = tuple(Phrase("weekday", (day,)) for day in range(count))
        texts = [speaker.say(item) for item in items]
        assert speaker.say(Phrase("listing", ("or", items))) == plain(
            lists.format_list(texts, "or", locale=locale)
        )
    future = Phrase("relative", ("day", "future", 5))
    assert speaker.say(future) == plain(
        dates.format_timedelta(
            datetime.timedelta(days=5), "day", threshold=99, add_direction=True, locale=locale
        )
    )
