"""Documents and catalogues: texts to translate, read from files and written back into place."""

from mmt.documents.document import Document, MarkedText, Segment, Tag, TextDocument
from mmt.documents.formats import read, supported_suffixes
from mmt.documents.html import read_text as read_html
from mmt.documents.named import Locales, code_of, locales, main_region, region_of
from mmt.documents.places import by_attention, by_position

__all__ = [
    "Document",
    "Locales",
    "MarkedText",
    "Segment",
    "Tag",
    "TextDocument",
    "by_attention",
    "by_position",
    "code_of",
    "locales",
    "main_region",
    "read",
    "read_html",
    "region_of",
    "supported_suffixes",
]
