"""The formats of documents, by the suffix of a file's name."""

from collections.abc import Callable
from pathlib import PurePath

from mmt import suggest
from mmt.documents import docx, html, markdown, odt, text
from mmt.documents.catalogues import (
    android,
    bilingual,
    fluent,
    gettext,
    json_catalogues,
    key_values,
    string_catalogs,
    yaml_catalogues,
)
from mmt.documents.document import Document
from mmt.documents.named import UNKNOWN, Locales

Read = Callable[[str, bytes, Locales], Document]


def _alone(read: Callable[[str, bytes], Document]) -> Read:
    return lambda name, content, locales: read(name, content)


FORMATS: dict[str, Read] = {
    ".txt": _alone(text.read),
    ".srt": text.read_subtitles,
    ".vtt": text.read_subtitles,
    **dict.fromkeys((".md", ".markdown"), _alone(markdown.read)),
    **dict.fromkeys((".html", ".htm", ".xhtml"), html.read),
    ".docx": docx.read,
    ".odt": odt.read,
    **dict.fromkeys((".po", ".pot"), gettext.read),
    **dict.fromkeys((".xlf", ".xliff"), bilingual.read_xliff),
    ".tmx": bilingual.read_tmx,
    ".ts": bilingual.read_qt,
    **dict.fromkeys((".json", ".arb"), json_catalogues.read),
    ".xcstrings": string_catalogs.read,
    ".xml": android.read,
    ".properties": _alone(key_values.read_properties),
    ".strings": _alone(key_values.read_strings),
    **dict.fromkeys((".yml", ".yaml"), yaml_catalogues.read),
    ".ftl": fluent.read,
}
_REFUSED = {
    ".pdf": "a PDF has the places of letters, but no sentences; convert it to .docx, .odt or .html",
    ".doc": "convert it to .docx",
    ".rtf": "convert it to .docx or .odt",
    ".mo": "translate the .po file that it was made of",
}


def supported_suffixes() -> tuple[str, ...]:
    """Returns the suffixes of files that can be translated."""
    return tuple(FORMATS)


def read(name: str, content: bytes, locales: Locales = UNKNOWN) -> Document:
    """Returns a file's document, by the suffix of its name.

    Raises:
      ValueError: the format is unknown or refused, or the file is damaged or dangerous. The message
        begins with the name, and where possible the line.
    """
    suffix = PurePath(name).suffix.lower()
    if content.startswith(b"%PDF-"):
        suffix = ".pdf"
    if suffix in _REFUSED:
        raise ValueError(f"{name}: {suffix} files cannot be translated: {_REFUSED[suffix]}")
    if suffix not in FORMATS:
        raise ValueError(f"{name}: unknown format {suffix!r}; {suggest.choices(suffix, FORMATS)}")
    return FORMATS[suffix](name, content, locales)
