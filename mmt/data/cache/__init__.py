"""The tokenised cache: records, manifest and vocabularies in one directory."""

from mmt.data.cache.builder import Examples, Piece, Tokens, build
from mmt.data.cache.cache import Cache, check_fresh, open_cache

__all__ = [
    "Cache",
    "Examples",
    "Piece",
    "Tokens",
    "build",
    "check_fresh",
    "open_cache",
]
