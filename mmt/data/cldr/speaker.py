"""Words of a language for dates, amounts, lists and names, from CLDR by way of Babel's data.

A `Speaker` uses only the data of its language's own files, and raises `Missing` if they lack a word
or a pattern. `mmt.data.cldr.phrases` decides which phrases are generated. Babel's formatting
functions are not used, because they fill gaps silently from CLDR's root locale ("M03", "1,560
duration-minute", "+3 h").
"""

import datetime
import functools
import itertools
import pickle
import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from babel import Locale, localedata
from babel.core import get_global
from babel.dates import DateTimeFormat, DateTimePattern, get_period_id, parse_pattern
from babel.numbers import format_currency, format_decimal, format_percent


class Missing(LookupError):
    """The language's data lack a word or a pattern that a phrase needs."""


class Phrase(NamedTuple):
    """A phrase independent of any language: a method of `Speaker` and its arguments.

    Arguments may be phrases themselves. Phrase("listing", ("or", (Phrase("name", ("territories",
    "DE")), Phrase("weekday", (0,))))) is "Germany or Monday" in English and "Deutschland oder
    Montag" in German.
    """

    form: str
    args: tuple[Any, ...]


def plain(text: str) -> str:
    """Returns the text as people type it: plain single spaces, no invisible direction marks, NFC.

    Joiners (U+200C, U+200D) are part of the spelling in Persian and in Indic scripts and are kept.
    """
    return re.sub(r"\s+", " ", _INVISIBLE.sub("", unicodedata.normalize("NFC", text))).strip()


class Speaker:
    """Formats phrases in one language, only with words of that language's data.

    locale: Babel's identifier, such as "de" or "sr_Latn".
    script: ISO 15924 code of the language's script. In a script other than Latin, a word in ASCII
        letters counts as missing, since it is not translated.

    Patterns of placeholders and punctuation alone may come from the root locale, because CLDR omits
    from a language's file all entries equal to the root's ("{0} {1}", "#,##0%", "{0}, {1}").
    Patterns of dates may not. Numbers have Babel's default digits, 0-9, in all languages, with the
    language's separators.
    """

    def __init__(self, locale: str, *, script: str = "Latn") -> None:
        if not localedata.exists(locale):
            raise Missing(f"{locale}: no data")
        self.locale = Locale.parse(locale)
        self._data = localedata.LocaleDataDict(_language_data(locale))
        self._root = localedata.LocaleDataDict(_read("root"))
        self._ascii_is_foreign = script != "Latn"

    def say(self, phrase: Phrase) -> str:
        """Returns the text of the phrase in this language. Raises Missing if its data do not
        suffice.
        """
        return plain(getattr(self, phrase.form)(*phrase.args))

    def lookup(self, *path: str | int | None) -> Any:
        """Returns the entry under a path of keys in the language's own data; Missing if there is
        none.
        """
        node: Any = self._data
        for key in path:
            try:
                node = node[key]
            except (KeyError, TypeError):
                raise Missing(f"{self.locale}: {path}") from None
        if node is None or node == "↑↑↑":  # CLDR's mark for "not inherited"
            raise Missing(f"{self.locale}: {path}")
        return node

    def word(self, *path: str | int | None) -> str:
        """Returns a name or a pattern from the language's own data, in the language's own script.
        """
        text: str = self.lookup(*path)
        letters = re.sub(r"[\W\d_]|\{\d\}", "", text)
        if _PLACEHOLDER.fullmatch(text) or self._ascii_is_foreign and letters and letters.isascii():
            raise Missing(f"{self.locale}: {path} is {text!r}")
        return text

    # The forms of phrases

    def name(self, kind: str, code: str) -> str:
        """Returns a name. kind: "territories", "languages", "scripts" or "currency_names"; code:
        such as "DE" or "EUR".
        """
        return self.word(kind, code)

    def variety(self, language: str, kind: str, code: str) -> str:
        """Returns a language of a place or in a script, such as "German (Austria)"."""
        return f"{self.name('languages', language)} ({self.name(kind, code)})"

    def weekday(self, day: int) -> str:
        """Returns the name of a weekday; 0 is Monday."""
        return self.word("days", "stand-alone", "wide", day)

    def month(self, month: int) -> str:
        return self.word("months", "stand-alone", "wide", month)

    def date(self, width: str, day: datetime.datetime) -> str:
        """Returns a date. width: "full", "long", "medium" or "short"."""
        return self._apply(self.lookup("date_formats", width), day)

    def part_of_date(self, skeleton: str, day: datetime.datetime) -> str:
        """Returns the fields of a date that `skeleton` names.

        skeleton: a key of CLDR's availableFormats; "wide:MMMEd" spells out names (`_widen`).
        """
        pattern = str(self.lookup("datetime_skeletons", skeleton.removeprefix("wide:")))
        wide = skeleton.startswith("wide:")
        return self._apply(_pattern(_widen(pattern) if wide else pattern), day)

    def time(
        self, width: str, moment: datetime.datetime, zone: str = "", season: str = "standard"
    ) -> str:
        """Returns a time of day.

        zone: a CLDR metazone such as "Europe_Central", for the width "full"; the width "long" is in
            UTC.
        """
        spelled = self.word("meta_zones", zone, "long", season) if zone else "UTC"
        return self._apply(self.lookup("time_formats", width), moment, spelled)

    def date_and_time(self, date_width: str, time_width: str, moment: datetime.datetime) -> str:
        pattern = self._word_or_root("datetime_formats", date_width).replace("'", "")
        return pattern.format(self.time(time_width, moment), self.date(date_width, moment))

    def interval(self, skeleton: str, start: datetime.datetime, end: datetime.datetime) -> str:
        """Returns a period between two moments.

        skeleton: a key of CLDR's intervalFormats, with "wide:" as in `part_of_date`; "time" for the
            language's usual clock; or a width of `date` for CLDR's fallback, two complete dates.
        """
        if skeleton in ("full", "long", "medium"):
            dates = self.date(skeleton, start), self.date(skeleton, end)
            return self._word_or_root("interval_formats", None).format(*dates)
        wide = skeleton.startswith("wide:")
        if skeleton == "time":
            skeleton = "hm" if "a" in self.lookup("time_formats", "short").format else "Hm"
        patterns = self.lookup("interval_formats", skeleton.removeprefix("wide:"))
        field = next(
            (f for f in "yMdahHm" if f in patterns and _field(start, f) != _field(end, f)), None
        )
        if field is None or field in "hm" and _field(start, "a") != _field(end, "a"):
            raise Missing(f"{self.locale}: interval {skeleton} from {start} to {end}")
        if len(patterns[field]) != 2:
            raise Missing(f"{self.locale}: the second half of interval {skeleton}")
        first, second = (_pattern(_widen(p) if wide else p) for p in patterns[field])
        return self._apply(first, start) + self._apply(second, end)

    def relative(self, field: str, direction: str, count: int) -> str:
        """Returns "in 3 days" (direction "future") or "3 days ago" ("past"). field: "year" to
        "second".
        """
        return self._plural(count, "date_fields", field, direction).format(self.number(count))

    def unit(self, unit: str, count: int | Decimal) -> str:
        """Returns a quantity. unit: CLDR's, such as "duration-hour".

        CLDR has no long form if it equals the short form.
        """
        try:
            pattern = self._plural(count, "unit_patterns", unit, "long")
        except Missing:
            pattern = self._plural(count, "unit_patterns", unit, "short")
        return pattern.format(self.number(count))

    def money(self, style: str, currency: str, amount: int | Decimal) -> str:
        """Returns an amount. style: "symbol" ("€12.50") or "name" ("12.50 euros"); an int has no
        cents.
        """
        if style == "symbol":
            return format_currency(amount, currency, locale=self.locale)
        try:
            name = self._plural(amount, "currency_names_plural", currency)
        except Missing:
            name = self.word("currency_names", currency)
        number = format_decimal(
            amount, "#,##0.00" if isinstance(amount, Decimal) else None, self.locale
        )
        plural = self.locale.plural_form(amount)
        pattern = self._word_or_root("currency_unit_patterns", plural, "other")
        return pattern.format(number, name)

    def half_of_day(self, width: str, half: str) -> str:
        """Returns the language's "am" or "pm", or the root's AM and PM, which many languages use.
        """
        for key in (width, "wide"):
            if self._has("day_periods", "format", key, half):
                return str(self.lookup("day_periods", "format", key, half))
        return str(self._root["day_periods"]["format"]["abbreviated"][half])

    def number(self, value: int | Decimal) -> str:
        return format_decimal(value, locale=self.locale)

    def percent(self, value: int | Decimal) -> str:
        return format_percent(Decimal(value) / 100, locale=self.locale, decimal_quantization=False)

    def listing(self, style: str, items: Sequence[Phrase]) -> str:
        """Returns a list of two or more items. style: "standard", "or" or "unit"."""
        styles = ("unit", "unit-short", "standard") if style == "unit" else (style,)
        words = [self.say(item) for item in items]
        if len(words) == 2:
            return self._list_pattern(styles, "2").format(*words)
        text = self._list_pattern(styles, "start").format(*words[:2])
        for item in words[2:-1]:
            text = self._list_pattern(styles, "middle").format(text, item)
        return self._list_pattern(styles, "end").format(text, words[-1])

    # Patterns

    def _apply(self, pattern: DateTimePattern, moment: datetime.datetime, zone: str = "") -> str:
        return pattern % _LanguageFields(moment, self, zone)

    def _plural(self, count: int | Decimal, *path: str | int) -> str:
        plural = self.locale.plural_form(count)
        try:
            return self.word(*path, plural)
        except Missing:  # CLDR omits a form that equals "other"
            return self.word(*path, "other")

    def _word_or_root(self, table: str, *keys: str | None) -> str:
        for key in keys:
            try:
                return self.word(table, key)
            except Missing:
                pass
        pattern: str = self._root[table][keys[-1]]
        assert not re.search(r"[^\W\d_]", pattern), (table, keys, pattern)
        return pattern

    def _list_pattern(self, styles: Sequence[str], key: str) -> str:
        for style in styles:
            try:
                return self.word("list_patterns", style, key)
            except Missing:
                pass
        if styles[-1] == "or" and key in ("end", "2"):
            raise Missing(f"{self.locale}: list {styles}, {key}")
        if not any(self._has("list_patterns", *keys) for keys in _LISTS):
            raise Missing(f"{self.locale}: lists")
        return "{0}, {1}"  # the root's pattern; CLDR does not repeat it for a language

    def _has(self, *path: str | int | None) -> bool:
        try:
            return bool(self.lookup(*path))
        except Missing:
            return False


class _LanguageFields(DateTimeFormat):
    """Babel's fields of a date, with names from the language's own data, without the root's."""

    def __init__(self, moment: datetime.datetime, speaker: Speaker, zone: str) -> None:
        super().__init__(moment, speaker.locale)
        self.moment, self.speaker, self.zone = moment, speaker, zone

    def __getitem__(self, name: str) -> str:
        field, width = name[0], _WIDTHS.get(len(name), "abbreviated")
        context = "stand-alone" if field in "Lcq" else "format"
        if field in "ML" and len(name) > 2:
            return self.speaker.word("months", context, width, self.moment.month)
        if field in "qQ" and len(name) > 2:
            return self.speaker.word("quarters", context, width, (self.moment.month + 2) // 3)
        if field == "E" or field in "ec" and len(name) > 2:
            return self.speaker.word("days", context, width, self.moment.weekday())
        if field == "a":
            return self.speaker.half_of_day(width, "am" if self.moment.hour < 12 else "pm")
        if field == "B":  # "in the morning"
            period = get_period_id(self.moment, locale=self.locale)
            return self.speaker.word("day_periods", "format", width, period)
        if field == "G":
            return self.speaker.word("eras", "wide" if len(name) == 4 else "abbreviated", 1)
        if field == "z":
            return self.zone
        if field not in "yMLdecHhKkmsS":
            raise Missing(f"{self.speaker.locale}: field {name!r}")
        return super().__getitem__(name)


_WIDTHS = {4: "wide", 5: "narrow", 6: "short"}
_LISTS = tuple(itertools.product(("standard", "or", "unit", "unit-short"), ("2", "end")))
# A month without a name, or the root's "+{0} h" with at most a translated unit
_PLACEHOLDER = re.compile(r"[MQ]?\d+|(.* )?[-+]\{0\}.*")
_INVISIBLE = re.compile("[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
_pattern = functools.cache(parse_pattern)


@functools.cache
def _widen(pattern: str) -> str:
    """Spells out abbreviated months and weekdays: "EEE, MMM d" becomes "EEEE, MMMM d".

    CLDR derives the pattern of "MMMMEEEEd" from that of "MMMEd" in the same way (UTS 35, Dates,
    Matching Skeletons).
    """
    parts = pattern.split("'")  # odd parts are quoted text
    for short in ("(?<!M)MMM(?!M)", "(?<!L)LLL(?!L)", "(?<!E)E{1,3}(?!E)", "(?<!c)ccc(?!c)"):
        parts[::2] = [re.sub(short, lambda match: match[0][0] * 4, part) for part in parts[::2]]
    return "'".join(parts)


def _field(moment: datetime.datetime, field: str) -> int:
    hours = {"a": moment.hour // 12, "h": moment.hour % 12, "H": moment.hour, "m": moment.minute}
    return {"y": moment.year, "M": moment.month, "d": moment.day, **hours}[field]


def _language_data(locale: str) -> dict[Any, Any]:
    """Returns the locale's own entries, over aliases of the root alone ("abbreviated months: see
    wide").
    """
    data = _aliases(_read("root"))
    chain, name = [locale], locale
    while parent := get_global("parent_exceptions").get(name) or re.sub(r"_?[^_]*$", "", name):
        chain, name = [parent, *chain], parent
    if re.fullmatch("[a-z]+_[A-Z][a-z]{3}", locale):  # a second script inherits only from the root
        chain = [locale]
    for name in chain:
        localedata.merge(data, _read(name))
    return data


def _aliases(tree: dict[Any, Any]) -> dict[Any, Any]:
    return {
        key: _aliases(value) if isinstance(value, dict) else value
        for key, value in tree.items()
        if isinstance(value, dict | localedata.Alias)
    }


def _read(name: str) -> dict[Any, Any]:
    with open(localedata.resolve_locale_filename(name), "rb") as file:
        data: dict[Any, Any] = pickle.load(file)
    return data
