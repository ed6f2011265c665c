"""Documents that are a zip of XML parts, as Word's and OpenDocument's.

Parts without a changed text keep their content. Zip bombs and damaged zips are refused.
"""

import copy
import io
import itertools
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence

from mmt.documents.document import FileChange, MarkedText, Segment, TextDocument
from mmt.documents.encoding import LARGEST
from mmt.documents.named import Locales
from mmt.documents.tokens import Markup, xml

RATIO, FREE = 200, 1 << 24  # a zip may unpack to RATIO times its size, a small one to FREE bytes
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OSError, ValueError
)  # fmt: skip


class Archive:
    """A zip with texts in some of its parts."""

    def __init__(self, content: bytes, parts: dict[str, TextDocument]) -> None:
        self.content, self.parts = content, parts
        self.segments: list[Segment] = [s for part in parts.values() for s in part.segments]

    def write(self, translations: Sequence[MarkedText | None]) -> bytes:
        """Returns the zip with translations; without a changed text, its own bytes."""
        remaining = iter(translations)
        by_part = {name: list(itertools.islice(remaining, len(part.segments)))
               for name, part in self.parts.items()}  # fmt: skip
        if not any(part.edits(by_part[name]) for name, part in self.parts.items()):
            return self.content
        written = {name: part.changed(by_part[name]) for name, part in self.parts.items()}
        return _replaced(
            self.content,
            {name: data for name, data in written.items()
             if data != self.parts[name].encoding.encode(self.parts[name].text)},
        )  # fmt: skip


def read(
    name: str,
    content: bytes,
    wanted: re.Pattern[str],
    read_part: Callable[[Markup], TextDocument],
    others: re.Pattern[str] | None = None,
) -> Archive:
    """Returns the texts of the parts whose names match; `others` name the language at most.

    Raises:
      ValueError: the zip is damaged or dangerous, or has no such part.
    """
    if len(content) > LARGEST:
        raise ValueError(f"{name}: {len(content):,} bytes; allowed: {LARGEST >> 20} MiB")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            fault = _fault(archive, len(content))
            names = [] if fault else [n for n in archive.namelist() if wanted.fullmatch(n)]
            if names and others:
                names += [n for n in archive.namelist() if others.fullmatch(n)]
            parts = {part: archive.read(part) for part in names}
            broken = None if fault else archive.testzip()
    except _DAMAGE as error:
        raise ValueError(f"{name}: damaged: {error}") from None
    if broken is not None:
        raise ValueError(f"{name}: damaged: its part {broken or 'without a name'}")
    if not parts:
        raise ValueError(f"{name}: {fault or f'it has no part {wanted.pattern}'}")
    return Archive(
        content, {part: read_part(xml(f"{name}: {part}", data)) for part, data in parts.items()}
    )


def named(markup: Markup, locales: Locales) -> Iterator[FileChange]:
    """Yields the change of a document's language in its Dublin Core data."""
    for index in markup.elements("language"):
        start, end = markup.tokens[index].end, markup.tokens[markup.tokens[index].partner].start
        name = markup.text[start:end]
        if (new := locales.renamed(name)) != name:
            yield FileChange(start, end, new)


def _fault(archive: zipfile.ZipFile, size: int) -> str:
    """Returns why a zip is refused, '' for none."""
    infos = archive.infolist()
    total = sum(info.file_size for info in infos)  # zipfile reads no more than these
    if total > max(FREE, RATIO * size) or total > 4 * LARGEST:
        return f"refused: it expands to {total:,} bytes, like a bomb"
    names = [info.filename for info in infos]
    if len(set(names)) < len(names):
        return f"refused: its part {max(names, key=names.count)!r} is repeated"
    encrypted = any(info.flag_bits & 1 for info in infos)
    return "it is encrypted; save it without a password" if encrypted else ""


def _replaced(content: bytes, changed: dict[str, bytes]) -> bytes:
    """Returns a zip with new contents of some parts, all in the same order."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w") as new:
        new.comment = old.comment
        for info in old.infolist():
            data = changed[info.filename] if info.filename in changed else old.read(info)
            new.writestr(copy.copy(info), data)
    return buffer.getvalue()
