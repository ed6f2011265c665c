"""The embedded corpus: phrases of 129 languages from CLDR."""

from mmt.data.cldr.corpus import LOCALES, ensure, split_of

__all__ = [
    "LOCALES",
    "ensure",
    "split_of",
]
