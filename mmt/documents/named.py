"""The languages of a document, where the file holds several of them."""

import functools
from typing import NamedTuple

from mmt import languages


class Locales(NamedTuple):
    """FLORES codes of source and target; '' for an unknown one."""

    source: str = ""
    target: str = ""

    @property
    def target_tag(self) -> str:
        """Returns the target as a BCP-47 tag, which files use."""
        return languages.find(self.target).bcp47


def locales(source: str | None, target: str | None) -> Locales:
    """Returns the languages of any names. Raises ValueError for an unknown one."""
    return Locales(*(languages.find(name).code if name else "" for name in (source, target)))


@functools.lru_cache(maxsize=1 << 12)
def code_of(name: str) -> str:
    """Returns the FLORES code of a file's language name; '' for an unknown one."""
    try:
        return languages.find(name).code
    except ValueError:
        return ""
