"""Documents and catalogues: texts to translate, read from files and written back into place."""

from mmt.documents.document import Document, MarkedText, Segment, Tag
from mmt.documents.formats import read, supported_suffixes
from mmt.documents.inline import by_position
from mmt.documents.named import Locales, code_of, locales

__all__ = [
    "Document",
    "Locales",
    "MarkedText",
    "Segment",
    "Tag",
    "by_position",
    "code_of",
    "locales",
    "read",
    "supported_suffixes",
]
