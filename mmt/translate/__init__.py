"""Translates lines of text with a trained model."""

from mmt.translate.translator import (
    USUAL,
    Decoding,
    Hypothesis,
    Translation,
    Translator,
    arriving_lines,
    format_text,
    to_json,
)

__all__ = [
    "Decoding",
    "Hypothesis",
    "Translation",
    "Translator",
    "USUAL",
    "arriving_lines",
    "format_text",
    "to_json",
]
