"""Translates lines of text with a trained model."""

from mmt.decoding import DEFAULT, Decoding
from mmt.translate.glossary import Glossary
from mmt.translate.placement import layout_of
from mmt.translate.sentences import arriving_lines
from mmt.translate.source_language import AUTO, Detected
from mmt.translate.translation import Hypothesis, Translation, format_text, to_json
from mmt.translate.translator import Translator

__all__ = [
    "AUTO",
    "DEFAULT",
    "Decoding",
    "Glossary",
    "Detected",
    "Hypothesis",
    "Translation",
    "Translator",
    "arriving_lines",
    "format_text",
    "layout_of",
    "to_json",
]
