"""Pairs from XML: TMX (1.1 to 1.4) and XLIFF (1.2 and 2.x), streamed unit by unit.

Native code inside `ph`, `bpt`, `ept`, `it`, `ut` is removed, and the text inside `hi`, `g`, `pc`
and `mrk` is kept. The parser is Python's expat. As in defusedxml, documents that declare an entity,
or name an undeclared one, are refused; no DTD or other file is ever fetched.
"""

from collections.abc import Iterator, Mapping
from typing import NoReturn
from xml.parsers import expat

from mmt.data.readers.files import Files, Sides, catalogue_text, code_of, sides_of
from mmt.system import compression

LONGEST = 1 << 20  # characters of a text
TAG = 1 << 24  # bytes of a tag or comment

_CODES = frozenset("ph bpt ept it ut".split())
# states of an XLIFF 1.2 `target` that is not translated
_UNDONE = frozenset("new needs-translation".split())
# elements of XLIFF whose `translate` holds for all elements inside
_INHERITED = frozenset("file group unit trans-unit segment".split())


def tmx(files: Files) -> Iterator[Sides]:
    """Yields every `tu` with both languages.

    Of several variants of a language the shortest code is used, `de` before `de-AT`, then the
    first. A unit without one of the languages is skipped.

    Raises:
      ValueError: no unit has both; the message has the languages of the first unit.
    """
    return _Tmx(files).sides()


def xliff(files: Files) -> Iterator[Sides]:
    """Yields every translated unit (1.2: `trans-unit`, 2.x: `segment`), in either direction.

    Units with a missing or empty target, or marked as new, are skipped. So are those that are
    marked `translate="no"`, themselves or by an element around them.
    """
    return _Xliff(files).sides()


class _Units:
    """A document being read; `line` of a unit is its number in the file."""

    root = ""

    def __init__(self, files: Files):
        self.files, self.path = files, files.source
        self.number, self.ready = 0, list[Sides]()
        self.text: list[str] | None = None  # parts of the current text; None outside texts
        self.size, self.code, self.started = 0, 0, False
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.EntityDeclHandler = self._refuse_declaration
        self.parser.SkippedEntityHandler = lambda name, _: self._refuse(f"names the entity {name}")
        self.parser.ExternalEntityRefHandler = lambda *_: self._refuse("names an external entity")

    def sides(self) -> Iterator[Sides]:
        """Yields the pairs; those before a fault come before its error."""
        unconsumed, last_index = 0, -1
        for chunk in compression.chunks(self.path):
            for start in range(0, len(chunk), 1 << 16):
                error = self._feed(chunk[start : start + (1 << 16)])
                yield from self.ready
                self.ready.clear()
                if error:
                    raise error
                index = self.parser.CurrentByteIndex
                unconsumed = unconsumed + (1 << 16) if index == last_index else 0
                last_index = index
                if unconsumed > TAG:
                    raise ValueError(f"{self._location()}: a tag of more than {TAG >> 10} KiB")
        error = self._feed(b"", is_last=True)
        if error:
            raise error

    def open(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handles the start of a tag."""
        raise NotImplementedError

    def close(self, tag: str, text: str) -> None:
        """Handles the end of a tag; `text` is its text, if it has one."""
        raise NotImplementedError

    def _feed(self, data: bytes, is_last: bool = False) -> ValueError | None:
        try:
            self.parser.Parse(data, is_last)
        except expat.ExpatError as error:
            message = expat.ErrorString(error.code)
            return ValueError(f"{self.path}:{error.lineno}: broken XML: {message}")
        except ValueError as error:
            return error
        except LookupError as error:  # an encoding that Python does not know
            return ValueError(f"{self.path}: {error}")
        return None

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.rpartition(":")[2]
        if not self.started and tag != self.root:
            raise ValueError(f"{self._location()}: the root is <{name}>; expected <{self.root}>")
        self.started = True
        if self.code or (self.text is not None and tag in _CODES):
            self.code += 1
        elif self.text is None:
            self.open(tag, attributes)

    def _end(self, name: str) -> None:
        if self.code:
            self.code -= 1
            return
        tag = name.rpartition(":")[2]
        if self.text is None:
            self.close(tag, "")
        elif tag in ("seg", "source", "target"):
            text, self.text = catalogue_text("".join(self.text), self.files), None
            self.close(tag, text)

    def _characters(self, data: str) -> None:
        if self.text is not None and not self.code:
            self.text.append(data)
            self.size += len(data)
            if self.size > LONGEST:
                raise ValueError(f"{self._location()}: a text of more than {LONGEST >> 10} KiB")

    def _begin_text(self) -> None:
        self.text, self.size = [], 0

    def _location(self) -> str:
        return f"{self.path}:{self.parser.CurrentLineNumber}"

    def _refuse_declaration(self, name: str, *rest: object) -> None:
        self._refuse(f"declares the entity {name}")

    def _refuse(self, problem: str) -> NoReturn:
        raise ValueError(f"{self._location()}: refused: {problem}; write the text itself")


class _Tmx(_Units):
    root = "tmx"

    def __init__(self, files: Files):
        super().__init__(files)
        self.unit: dict[str, str] = {}
        self.language = ""
        self.missing_error: ValueError | None = None  # the first unit's fault, until one has both
        self.has_pairs = False

    def open(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "tu":
            self.number += 1
            self.unit = {}
        elif tag == "tuv":
            self.language = attributes.get("xml:lang") or attributes.get("lang") or ""
            if not self.language:
                raise ValueError(f"{self._location()}: unit {self.number}: a tuv without xml:lang")
        elif tag == "seg":
            self._begin_text()

    def close(self, tag: str, text: str) -> None:
        if tag == "seg":
            self.unit.setdefault(self.language, text)
        elif tag == "tu":
            location = f"{self._location()}: unit {self.number}"
            try:
                self.ready.append(Sides(self.number, *sides_of(self.unit, self.files, location)))
                self.has_pairs = True
            except ValueError as error:
                self.missing_error = self.missing_error or error
        elif tag == "tmx" and self.missing_error and not self.has_pairs:
            raise self.missing_error


class _Xliff(_Units):
    root = "xliff"

    def __init__(self, files: Files):
        super().__init__(files)
        self.texts: dict[str, str] = {}
        self.order: tuple[str, ...] = ()  # 'source' and 'target' in the entry's order
        self.inside = self.is_untranslated = False
        self.translate = ["yes"]  # of the elements around, the innermost last
        self.skipped = 0  # depth inside alternatives, which are not the unit's texts

    def open(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag in _INHERITED:
            self.translate.append(attributes.get("translate") or self.translate[-1])
        if tag in ("file", "xliff"):
            names = (("source-language", "srcLang"), ("target-language", "trgLang"))
            languages = [attributes.get(v1) or attributes.get(v2) or "" for v1, v2 in names]
            if any(languages) or self.files.columns:
                self.order = self._order_of_sides(languages)
        elif tag == "alt-trans":
            self.skipped += 1
        elif tag in ("trans-unit", "segment"):
            self.number, self.texts, self.inside = self.number + 1, {}, True
            self.is_untranslated = self.translate[-1] == "no"
            if not self.order:
                raise ValueError(
                    f"{self._location()}: no source-language (2.x: srcLang) before a unit"
                )
        elif tag in ("source", "target") and self.inside and not self.skipped:
            if tag == "target" and attributes.get("state") in _UNDONE:
                self.is_untranslated = True
            self._begin_text()

    def close(self, tag: str, text: str) -> None:
        if tag in _INHERITED:
            self.translate.pop()
        if tag in ("source", "target") and self.inside and not self.skipped:
            self.texts[tag] = text
        elif tag == "alt-trans":
            self.skipped -= 1
        elif tag in ("trans-unit", "segment"):
            self.inside = False
            if self.texts.get("target", "").strip() and not self.is_untranslated:
                source, target = (self.texts.get(side, "") for side in self.order)
                self.ready.append(Sides(self.number, source, target))

    def _order_of_sides(self, languages: list[str]) -> tuple[str, ...]:
        sides = ("source", "target")
        if self.files.columns:
            if sorted(self.files.columns) != sorted(sides):
                raise ValueError(
                    f"{self.path}: columns is {list(self.files.columns)}; allowed: source, target"
                )
            return self.files.columns
        for order in (sides, sides[::-1]):
            expected = dict(zip(order, self.files.languages, strict=True))
            codes = dict(zip(sides, map(code_of, languages), strict=True))
            named = zip(sides, languages, strict=True)
            if all(codes[side] == expected[side] or not name for side, name in named):
                return order
        raise ValueError(
            f"{self._location()}: from {languages[0] or '?'} to {languages[1] or '?'}; expected "
            f"{' and '.join(self.files.languages)}. To use it, name the sides in the entry: "
            'columns = ["source", "target"]'
        )
