"""Searches for translations: beam search and sampling over any step function.

This package knows no model. `mmt.translate.model_search` connects it to a `Transformer`.
"""

from mmt.decoding.options import DEFAULT, Decoding

__all__ = [
    "DEFAULT",
    "Decoding",
]
