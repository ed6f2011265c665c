"""Pairs from gettext catalogues, PO and MO, read by Babel; only what is translated is a pair.

Left out, as gettext itself does: the header, entries without a translation, fuzzy and obsolete
ones.  An entry with plural forms is two pairs, its singular with the first form and its plural with
the last.  A catalogue says the language of its translations alone: `Language: de` may be either
side, and the other is taken for the one that the messages are written in.
"""

import functools
import io
from collections.abc import Callable, Iterator
from typing import Any

from mmt.data import packed
from mmt.data.files import Files, Sides, code_of, one_line

_SIDES = ("msgid", "msgstr")


def po(files: Files) -> Iterator[Sides]:
    """The entries of a PO file; `line` is that of the msgid."""
    from babel.messages import pofile

    read = functools.partial(pofile.read_po, ignore_obsolete=True, abort_invalid=True)
    return _sides(files, read, lambda number, message: message.lineno)


def mo(files: Files) -> Iterator[Sides]:
    """The entries of an MO file; `line` is the number of the entry, the header not counted."""
    from babel.messages import mofile

    return _sides(files, mofile.read_mo, lambda number, message: number)


def _sides(
    files: Files, read: Callable[[Any], Any], line: Callable[[int, Any], int | None]
) -> Iterator[Sides]:
    path = files.source
    content = packed.whole(path)
    try:
        catalogue = read(io.BytesIO(content))
        messages = [message for message in catalogue if message.id]
    except Exception as error:  # Babel checks little: what fails, and how, is in its code
        at = f"{path}:{error.lineno + 1}" if hasattr(error, "lineno") else f"{path}"
        raise ValueError(f"{at}: no gettext catalogue: {error or type(error).__name__}") from None
    swapped = _swapped(files, catalogue.locale_identifier or "")
    for number, message in enumerate(messages, 1):
        for one, other in () if message.fuzzy else _forms(message):
            if one.strip() and other.strip():
                found = one_line(one), one_line(other)
                yield Sides(line(number, message) or number, *(found[::-1] if swapped else found))


def _forms(message: Any) -> list[tuple[str, str]]:
    if isinstance(message.id, str):
        return [(message.id, message.string or "")]
    strings = [string or "" for string in message.string or [""]]
    both = [(message.id[0], strings[0]), (message.id[-1], strings[-1])]
    return both if len(strings) > 1 else both[1:]  # one form for all numbers: as the plural


def _swapped(files: Files, written: str) -> bool:
    """Whether the translations are the source of the pairs."""
    if files.columns:
        if sorted(files.columns) != sorted(_SIDES):
            raise ValueError(
                f"{files.source}: columns is {list(files.columns)}; of gettext msgid and msgstr"
            )
        return files.columns != _SIDES
    code = code_of(written.replace("@latin", "-Latn").replace("@cyrillic", "-Cyrl"))
    if code not in files.languages:
        raise ValueError(
            f"{files.source}: its Language is {written or 'not given'}; a pair is of "
            f"{' and '.join(files.languages)}. If it is meant, the entry says which side is which: "
            'columns = ["msgstr", "msgid"]'
        )
    return code == files.languages[0]
