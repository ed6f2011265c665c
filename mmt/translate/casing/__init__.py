"""Sentences in capitals: translated in lower case, with translations in capitals."""

from mmt.translate.casing.capitals import (
    in_capitals,
    lower,
    lower_letters,
    sentence_case,
    upper,
)

__all__ = ["in_capitals", "lower", "lower_letters", "sentence_case", "upper"]
