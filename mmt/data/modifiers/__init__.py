"""Data augmentation: upper case, typos, tags and others, to make a model robust to such input.

A modifier changes an example with some probability (as in OpusTrainer, Barreau et al. 2023).
"""

from mmt.data.modifiers.changes import Change, Changes
from mmt.data.modifiers.rewriter import Ids, Rewriter
from mmt.data.modifiers.texts import CONTEXT, KINDS, SEPARATOR, TextSides

__all__ = [
    "CONTEXT", "KINDS", "SEPARATOR", "Change", "Changes", "Ids", "Rewriter", "TextSides",
]  # fmt: skip
