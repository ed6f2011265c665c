"""Languages in requests and answers: BCP 47 codes and names outside, FLORES codes inside."""

import functools
from collections.abc import Iterable, Mapping

from mmt import documents, languages, suggest
from mmt.serve.errors import Refusal

AUTO = "auto"
_LIBRETRANSLATE_CODES = {"zt": "zh-Hant", "pb": "pt-BR"}


def code(language: str) -> str:
    """Returns the BCP 47 code that clients use: two letters if ISO 639-1 has them.

    >>> code("deu_Latn"), code("ckb_Arab"), code("zho_Hant")
    ('de', 'ckb', 'zh-Hant')
    """
    try:
        return languages.find(language).bcp47
    except ValueError:  # a language of a corpus that the table does not have
        return language


def document_region(language: str) -> str:
    """Returns the region that a client names, '' for none.

    >>> document_region("en-GB"), document_region("pb"), document_region("de")
    ('GB', 'BR', '')
    """
    return documents.region_of(_LIBRETRANSLATE_CODES.get(language, language))


def code_and_name(language: str) -> dict[str, str]:
    """Returns a language as `/languages` lists it: `{"code": "de", "name": "German"}`."""
    return {"code": code(language), "name": languages.name_of(language)}


def described(language: str) -> str:
    """Returns code and name for a message: 'de (German)'."""
    return f"{code(language)} ({languages.name_of(language)})"


def find(name: str, served: Iterable[str], side: str) -> str:
    """Returns the FLORES code of a served language, given by any code or name.

    Raises:
        Refusal: no served language has the name.
    """
    codes = tuple(served)
    if name in codes:
        return name
    casefolded = _casefolded(codes)
    if name.casefold() in casefolded:
        return casefolded[name.casefold()]
    try:
        language = languages.find(_LIBRETRANSLATE_CODES.get(name, name))
    except ValueError:
        spellings = _spellings(codes)
        hint = suggest.hint(name, spellings, 3, show=lambda key: described(spellings[key]))
        raise Refusal(
            400, f"{name[:40]!r} is not supported as a {side} language{hint}; see GET /languages"
        ) from None
    if language.code in codes:
        return language.code
    nearest = ", ".join(described(near.code) for near in languages.nearest(language, codes))
    raise Refusal(
        400,
        f"{code(language.code)} ({language.name}) is not supported as a {side} language; "
        f"nearest: {nearest}; see GET /languages",
    )


def _spellings(codes: tuple[str, ...]) -> Mapping[str, str]:
    """Returns the FLORES code of each name and each code; a code wins over an equal name."""
    spellings = {languages.name_of(flores): flores for flores in codes}
    return spellings | {code(flores): flores for flores in codes}


@functools.lru_cache(maxsize=512)
def _casefolded(codes: tuple[str, ...]) -> Mapping[str, str]:
    return {spelling.casefold(): flores for spelling, flores in _spellings(codes).items()}
