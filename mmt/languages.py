"""Languages: `find` maps any code or name that people use to a row of `languages.tsv`.

Files, results and training data use a row's FLORES-200 code (`deu_Latn`); user input goes through
`find`. This module knows no corpora and no models. An ambiguous name is an error.
"""

import functools
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from mmt import suggest
from mmt.system.text_table import aligned

_RIGHT_TO_LEFT = frozenset("Adlm Arab Hebr Mand Nkoo Rohg Samr Syrc Thaa".split())

@dataclass(frozen=True)
class Language:
    """A language in one script.

    Attributes:
      code: the FLORES-200 code (`deu_Latn`, `swh_Latn`, `zho_Hans`); for languages outside
        FLORES-200, ISO 639-3 + '_' + ISO 15924. Unique.
      iso1: ISO 639-1 (`de`), for the usual member of a macrolanguage its code (`sw` for
        `swh_Latn`); '' if there is none.
      iso3: ISO 639-3 (`deu`), the first part of the code.
      bcp47: the shortest tag (`de`, `sr-Latn`); without a script, the usual script is meant.
        Unique.
      name: in English (`German`). Unique.
      native: the language's name for itself (`Deutsch`).
      script: in English (`Latin`, `Han (simplified)`).
      family: the top-level genealogical family (`Indo-European`, `Atlantic-Congo`, `Isolate`, ...).
      aliases: other codes and names in use (`ger`, `Farsi`, `cmn`).
    """

    code: str
    iso1: str
    iso3: str
    bcp47: str
    name: str
    native: str
    script: str
    family: str
    aliases: tuple[str, ...] = ()


def find(name: str) -> Language:
    """Returns the language of a FLORES or ISO 639 code, BCP-47 tag, English or native name, or
    alias.

    Case, accents (in names) and the choice of '-', '_' or ' ' do not matter. If a language has
    several scripts, its usual script is returned, or that of the region if one is given (as in
    CLDR).

    >>> [find(name).code for name in ("de", "DEU", "de-AT", "Deutsch", "Bokmal", "fa")]
    ['deu_Latn', 'deu_Latn', 'deu_Latn', 'deu_Latn', 'nob_Latn', 'pes_Arab']
    >>> [find(name).code for name in ("Chinese", "zh_TW", "sr", "sr-Latn")]
    ['zho_Hans', 'zho_Hant', 'srp_Cyrl', 'srp_Latn']

    Raises:
      ValueError: the name is unknown (the message has the nearest ones), or may mean several
        languages ('Norwegian', 'Kurdish'; 'Ga', which is also Irish's code).
    """
    index, tag, key = _index(), _tag_key(name), _name_key(name)
    named = index.names.get(key, [])
    tagged = index.tags.get(tag)
    if tagged and not (named and tagged not in named and _titled(name)):
        return tagged
    candidates = [*([tagged] if tagged else []), *named]
    if len({language.iso3 for language in candidates}) == 1:
        return min(candidates, key=lambda language: ("-" in language.bcp47, language.code))
    if candidates:
        raise ValueError(f"{name!r} may mean {_listed(candidates, ' or ')}; write the code")
    located = _without_region(tag, index.tags)
    if located:
        return located
    raise ValueError(
        f"unknown language {name!r}; {_nearest(key, index)}`mmt data languages` lists all"
    )


def nearest(language: Language, among: Iterable[str], count: int = 3) -> list[Language]:
    """Returns those of the codes `among` that are nearest to a language, the nearest first.

    The same language in another script comes first. Then come similar names, the same family and
    script, the same family, and the same script. Codes outside the table are omitted.

    >>> [near.name for near in nearest(find("bod_Tibt"), ["deu_Latn", "dzo_Tibt", "mya_Mymr"])]
    ['Dzongkha', 'Burmese', 'German']
    """
    codes = set(among)
    known = [other for other in all_languages() if other.code in codes]
    names = [other.name for other in known]
    spelled = suggest.closest_names(language.name, names, count, cutoff=0.8)

    def distance(other: Language) -> tuple[int, ...]:
        similar_name = other.name in spelled and other.name not in ("", language.name)
        same_family = other.family == language.family and other.family != "Isolate"
        same_script = other.script == language.script
        return (
            other.iso3 != language.iso3, not similar_name, not (same_family and same_script),
            not same_family, not same_script,
        )  # fmt: skip

    return sorted(known, key=distance)[:count]


def name_of(code: str) -> str:
    """Returns the English name of a FLORES code; the code itself if the table does not have it.

    >>> name_of("deu_Latn"), name_of("xxx_Latn")
    ('German', 'xxx_Latn')
    """
    language = _index().tags.get(_tag_key(code))
    return language.name if language and language.code == code else code


def right_to_left(code: str) -> bool:
    """Returns whether the script of a FLORES code runs from right to left.

    >>> right_to_left("arb_Arab"), right_to_left("uzn_Latn")
    (True, False)
    """
    return code.rpartition("_")[2] in _RIGHT_TO_LEFT


def all_languages() -> tuple[Language, ...]:
    """Returns every language of the table, sorted by code."""
    return _index().languages


def rows() -> list[dict[str, str | list[str]]]:
    """Returns the rows of `mmt data languages --json`: a dictionary per language, keys as in
    `Language`.
    """
    return [{**asdict(language), "aliases": list(language.aliases)} for language in all_languages()]


def table() -> str:
    """Returns the languages as text: a line per language, columns aligned, the native name last."""
    columns = ("code", "bcp47", "name", "script", "family", "native")
    values = (tuple(getattr(x, column) for column in columns) for x in all_languages())
    return "\n".join(aligned([columns, *values]))


class _Index(NamedTuple):
    languages: tuple[Language, ...]
    tags: dict[str, Language]  # by _tag_key
    names: dict[str, list[Language]]  # by _name_key


_TAG = re.compile(r"[a-z]{2,3}([_-]\w+)*")  # codes among the aliases
# ISO 3166-1 and CLDR's additions. 'de-en' is a language pair and must not mean German.
_REGIONS = frozenset(
    """
    AC AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ
    BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CP CQ CR CU CV CW CX CY CZ DE DG DJ
    DK DM DO DZ EA EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ
    GR GS GT GU GW GY HK HM HN HR HT HU IC ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI
    KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP
    MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM
    PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX
    SY SZ TA TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN
    VU WF WS XK YE YT ZA ZM ZW
    """.lower().split()
)
_LOCATED = re.compile(  # language, script, region, variants
    r"([a-z]{2,3})(-[a-z]{4})?(?:-([a-z]{2}|\d{3}))?"
    r"((?:-(?:valencia|tarask|polyton|posix|[a-z]*\d\w*))*)"
)


@functools.cache
def _index() -> _Index:
    text = Path(__file__).with_name("languages.tsv").read_text("utf-8")
    languages = tuple(map(_parse, text.rstrip("\n").split("\n")[1:]))
    tags: dict[str, Language] = {}
    by_code: dict[str, list[Language]] = {}  # a bare code -> its scripts
    names: dict[str, list[Language]] = {}
    for language in languages:
        bare = {language.iso1, language.iso3, language.bcp47.partition("-")[0]} - {""}
        tags[_tag_key(language.code)] = tags[_tag_key(language.bcp47)] = language
        for alias in language.aliases:
            if not _TAG.fullmatch(alias):
                _add(names, _name_key(alias), language)
            elif len(alias) <= 3:
                bare.add(alias)
            else:
                tags[_tag_key(alias)] = language
        for code in bare:
            by_code.setdefault(code, []).append(language)
            tags.setdefault(f"{code}-{language.code[-4:].lower()}", language)
        _add(names, _name_key(language.name), language)
        _add(names, _name_key(language.native), language)
    for code, group in by_code.items():
        tags.setdefault(code, next((x for x in group if "-" not in x.bcp47), group[0]))
    return _Index(languages, tags, names)


def _parse(line: str) -> Language:
    code, iso1, iso3, bcp47, name, native, script, family, aliases = line.split("\t")
    alias_names = tuple(aliases.split("; ")) if aliases else ()
    return Language(code, iso1, iso3, bcp47, name, native, script, family, alias_names)


def _add(names: dict[str, list[Language]], key: str, language: Language) -> None:
    known = names.setdefault(key, [])
    if language not in known:
        known.append(language)


def _tag_key(name: str) -> str:
    return re.sub(r"[\s_-]+", "-", name.strip().casefold())


def _name_key(name: str) -> str:
    """Returns a key that is equal for "Mi'kmaq" and 'miʼkmaq', and for 'Māori' and 'maori'."""
    folded = re.sub("[ʻʼʾ’‘`´]", "'", name)
    if not folded.isascii():
        folded = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", folded))
    return _tag_key(folded)


def _titled(name: str) -> bool:
    """Returns whether the text is written as a name ('Ga', 'Ho') and not as a code ('ga', 'GA')."""
    return not (name.islower() or name.isupper())


def _without_region(tag: str, tags: dict[str, Language]) -> Language | None:
    """Returns the language of 'de-at', 'zh-hant-tw', 'ca-es-valencia'; 'zho-tw' by way of 'zh-tw'.
    """
    match = _LOCATED.fullmatch(tag)
    if not match or not (match[3] or match[4]):
        return None
    code, script, region, _ = match.groups("")
    if region and not region.isdigit() and region not in _REGIONS:
        return None
    language = tags.get(code + script)
    if language and region and not script:
        return tags.get(f"{language.bcp47.partition('-')[0]}-{region}", language)
    return language


def _nearest(key: str, index: _Index) -> str:
    near: dict[str, Language] = {}
    for match in suggest.closest_names(key, [*index.names, *index.tags], 6):
        for language in index.names.get(match) or [index.tags[match]]:
            near[language.code] = language
    return f"nearest: {_listed(list(near.values())[:3], ', ')}; " if near else ""


def _listed(languages: Iterable[Language], separator: str) -> str:
    return separator.join(f"{language.name} ({language.code})" for language in languages)
