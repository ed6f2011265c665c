"""Pairs from gettext catalogues, PO and MO, read by Babel.

As in gettext, the header and untranslated, fuzzy and obsolete entries are skipped. An entry with
plural forms gives two pairs: singular with the first form, plural with the last. As in `msgfmt`, a
string without closing quote and a repeated message are errors. A catalogue names only the language
of its translations: `Language: de` may be either side, and the messages are in the other language.
"""

import codecs
import io
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mmt.data.readers.files import Files, Sides, catalogue_text, code_of
from mmt.system import compression

_SIDES = ("msgid", "msgstr")
_STRING = re.compile(r'(?:[^"\s]+\s*)?"(?:[^"\\]|\\.)*"')  # a line of PO, after its keyword


def po(files: Files) -> Iterator[Sides]:
    """Yields the entries of a PO file; `line` is that of the msgid."""
    return _sides(files, _read_strictly, lambda number, message: message.lineno)


def mo(files: Files) -> Iterator[Sides]:
    """Yields the entries of an MO file; `line` is the number of the entry, without the header."""
    from babel.messages import mofile

    return _sides(files, mofile.read_mo, lambda number, message: number)


def _read_strictly(file: Iterable[bytes]) -> Any:
    """Returns Babel's catalogue of a PO file.

    It raises errors where Babel would truncate an unclosed string or drop a repeated message.
    """
    from babel.messages import catalog, pofile

    class Once(catalog.Catalog):
        def __setitem__(self, key: Any, message: Any) -> None:
            name = self._key_for(key, message.context)
            if name in earlier_names:
                raise _fault("the message is repeated", str(name), message.lineno)
            earlier_names.add(name)
            super().__setitem__(key, message)

    def checked() -> Iterator[bytes]:
        for number, line in enumerate(file, 1):
            text = line.strip().decode(catalogue.charset)
            if text and text[0] != "#" and not _STRING.fullmatch(text):
                raise _fault("a string is not between two quotes", text, number)
            yield line

    def _fault(what: str, text: str, number: int) -> Exception:
        return pofile.PoFileError(f"{what}: {text[:60]}", catalogue, text, number - 1)

    catalogue, earlier_names = Once(), set[Any]()
    pofile.PoFileParser(catalogue, ignore_obsolete=True, abort_invalid=True).parse(checked())
    return catalogue


def _sides(
    files: Files, read: Callable[[Any], Any], line: Callable[[int, Any], int | None]
) -> Iterator[Sides]:
    path = files.source
    content = compression.whole(path).removeprefix(codecs.BOM_UTF8)
    try:
        catalogue = read(io.BytesIO(content))
        messages = [message for message in catalogue if message.id]
    except Exception as error:  # Babel does not document its errors
        location = f"{path}:{error.lineno + 1}" if hasattr(error, "lineno") else f"{path}"
        problem = re.sub(r" on \d+$", "", str(error)) or type(error).__name__  # Babel's, from 0
        raise ValueError(f"{location}: no gettext catalogue: {problem}") from None
    swapped = _is_swapped(files, catalogue.locale_identifier or "")
    for number, message in enumerate(messages, 1):
        for original, translation in () if message.fuzzy else _text_pairs(message):
            pair = catalogue_text(original, files), catalogue_text(translation, files)
            if all(map(str.strip, pair)):
                yield Sides(line(number, message) or number, *(pair[::-1] if swapped else pair))


def _text_pairs(message: Any) -> list[tuple[str, str]]:
    if isinstance(message.id, str):
        return [(message.id, message.string or "")]
    strings = [string or "" for string in message.string or [""]]
    pairs = [(message.id[0], strings[0]), (message.id[-1], strings[-1])]
    return pairs if len(strings) > 1 else pairs[1:]  # a single form counts as the plural


def _is_swapped(files: Files, language: str) -> bool:
    """Returns whether the translations are the source of the pairs."""
    if files.columns:
        if sorted(files.columns) != sorted(_SIDES):
            raise ValueError(
                f"{files.source}: columns is {list(files.columns)}; allowed: msgid, msgstr"
            )
        return files.columns != _SIDES
    code = code_of(language.replace("@latin", "-Latn").replace("@cyrillic", "-Cyrl"))
    if code not in files.languages:
        raise ValueError(
            f"{files.source}: its Language is {language or 'not given'}; expected one of "
            f"{' and '.join(files.languages)}. To use it, name the sides in the entry: "
            'columns = ["msgstr", "msgid"]'
        )
    return code == files.languages[0]
