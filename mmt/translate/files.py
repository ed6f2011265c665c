"""Translates files: the texts of a document, with everything else as it is.

`mmt.documents` reads and writes the formats. The caller gives a function that translates texts with
inline markup, so nothing here knows a model.
"""

from collections.abc import Callable, Iterable

from mmt import documents
from mmt.documents import Document, Locales, MarkedText, supported_suffixes

Translate = Callable[[list[MarkedText]], Iterable[MarkedText]]
Detect = Callable[[str], str]  # returns the language of a text
_SAMPLE = 100  # texts of a file in which its language is detected

__all__ = ["read", "supported_suffixes", "translate_document", "translate_file"]


def read(name: str, content: bytes, locales: Locales, detect: Detect | None = None) -> Document:
    """Returns a file's document, as `mmt.documents.read` does.

    With `detect`, the source is the language of its first texts, unless the file names another one.
    """
    document = documents.read(name, content, locales)
    if detect is None or not document.segments:
        return document
    sample = "\n".join(segment.source.text for segment in document.segments[:_SAMPLE])
    return documents.read(name, content, locales.with_detected(detect(sample)))


def translate_file(
    name: str,
    content: bytes,
    translate: Translate,
    *,
    source: str | None = None,
    target: str | None = None,
    overwrite: bool = False,
    detect: Detect | None = None,
) -> bytes:
    """Returns a file with its texts translated; the suffix of its name is the format.

    Args:
      name: the name of the file, for its suffix and for errors.
      content: the file's bytes.
      translate: returns the translation of each text with its tags, in order, as
        `mmt.translate.markup.translate` does.
      source: language of the file, for formats that hold several, names of the language and plural
        forms.
      target: language of the translation, for the same.
      overwrite: whether entries of a catalogue that are translated already are translated again.
      detect: detects the language of the file, if `source` is None.

    Raises:
      ValueError: the format is unknown or refused, or the file is damaged or dangerous.

    >>> def shout(texts):
    ...     return [text._replace(text=text.text.upper()) for text in texts]
    >>> translate_file("a.html", b"<p>ein <b>Haus</b>", shout)
    b'<p>EIN <b>HAUS</b>'
    """
    document = read(name, content, documents.locales(source, target), detect)
    return translate_document(document, translate, overwrite=overwrite)


def translate_document(
    document: Document, translate: Translate, *, overwrite: bool = False
) -> bytes:
    """Returns a document's file with its texts translated; see `translate_file`."""
    chosen = [overwrite or segment.target is None for segment in document.segments]
    texts = [s.source for s, is_chosen in zip(document.segments, chosen, strict=True) if is_chosen]
    translations = list(translate(texts))
    if len(translations) != len(texts):
        raise ValueError(f"{len(translations)} translations of {len(texts)} texts")
    remaining = iter(translations)
    return document.write([next(remaining) if is_chosen else None for is_chosen in chosen])
