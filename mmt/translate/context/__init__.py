"""Translates sentences with the previous ones of their document as context."""

from mmt.translate.context.in_context import ContextTranslator, History, SentenceInContext
from mmt.translate.context.trained import check_trained_lines, trained_lines

__all__ = [
    "ContextTranslator", "History", "SentenceInContext", "check_trained_lines", "trained_lines",
]  # fmt: skip
