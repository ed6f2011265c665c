"""Accelerators of menus and buttons, as Qt writes them: `&` before the letter of the key."""

import re
import unicodedata
from collections.abc import Callable

_APPENDED = re.compile(r"\s?\(&(\w)\)")  # 文件(&F), the style of Chinese, Japanese and Korean
_ACCELERATOR = re.compile(r"&(\w)")
_NO_ACCELERATOR = re.compile(r"&\w+;|(?<=[a-zA-Z])&(?=[A-Z])")  # &lt; R&D
_LAST = " \t\r\n.…:："  # the accelerator stands before these


def without(text: str) -> tuple[str, Callable[[str], str]] | None:
    """Returns the text as a user sees it, and the function that writes a translation of it.

    None if the text has no accelerator, or more than one, and no doubled `&&`. The accelerator of a
    translation is the same letter, else its first; `&` is doubled in it.

    >>> text, written = without("&Datei öffnen")
    >>> text, written("Open a file"), written("Fish & dogs"), written("打开文件…")
    ('Datei öffnen', '&Open a file', 'Fish && &dogs', '打开文件(&D)…')
    """
    plain = text.replace("&&", "\0")
    found = [*_ACCELERATOR.finditer(plain)]
    if len(found) > 1 or _NO_ACCELERATOR.search(plain) or (not found and plain == text):
        return None
    letter = found[0][1] if found else ""
    visible = _ACCELERATOR.sub(r"\1", _APPENDED.sub("", plain)).replace("\0", "&")
    return visible, lambda translation: _with(translation, letter)


def _with(text: str, letter: str) -> str:
    """Returns a text with an accelerator, if it has a place for the letter."""
    places = [i for i, character in enumerate(text) if character.isalnum()]
    if not letter or not places:
        return _doubled(text)
    if any(unicodedata.east_asian_width(text[i]) in "WF" for i in places):
        appended = f"(&{letter.upper()})" if letter.isascii() else ""
        core = text.rstrip(_LAST)
        return f"{_doubled(core)}{appended}{text[len(core) :]}"
    place = _place(text, places, letter)
    return f"{_doubled(text[:place])}&{_doubled(text[place:])}"


def _place(text: str, places: list[int], letter: str) -> int:
    """Returns the place of the letter, at the start of a word if possible, else the first place."""
    starts = [i for i in places if i == 0 or not text[i - 1].isalnum()]
    same = (i for i in [*starts, *places] if text[i].casefold() == letter.casefold())
    return next(same, places[0])


def _doubled(text: str) -> str:
    return text.replace("&", "&&")
