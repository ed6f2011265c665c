"""Searches for translations: beam search and sampling over any step function."""

from mmt.decoding.options import USUAL, Decoding

__all__ = [
    "Decoding",
    "USUAL",
]
