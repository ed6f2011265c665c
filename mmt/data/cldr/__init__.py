"""The embedded corpus: phrases of 129 languages from CLDR."""

from mmt.data.cldr.by_language import speaker_of
from mmt.data.cldr.corpus import LOCALES, ensure, split_of

__all__ = [
    "LOCALES",
    "ensure",
    "speaker_of",
    "split_of",
]
