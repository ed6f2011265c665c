"""Translates texts with inline tags, sentence by sentence, and places the tags.

A sentence is translated without its tags, and aligned with its translation. An element then spans
the words that are aligned with its source words. No tag is lost, and the nesting is kept.
Documents, the server and `translate` use this package.
"""

from mmt.translate.markup.segments import aligned, translate
from mmt.translate.markup.tag_placement import place_tags
from mmt.translate.markup.tags import joined, parse, write
from mmt.translate.markup.units import Unit, cut

__all__ = ["Unit", "aligned", "cut", "joined", "parse", "place_tags", "translate", "write"]
