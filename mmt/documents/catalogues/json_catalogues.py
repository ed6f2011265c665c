"""Catalogues in JSON: nested keys (i18next), MediaWiki's, Flutter's ARB and Apple's xcstrings.

Every string is a segment, and every branch of an ICU plural or select. Keys that begin with `@`
describe others and are left out.
"""

import functools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mmt.documents.catalogues import icu
from mmt.documents.document import (
    DEPTH,
    MarkedText,
    Render,
    Segment,
    Slot,
    TextDocument,
    has_letters,
    plain,
    replaced,
)
from mmt.documents.encoding import decode, whole_characters
from mmt.documents.named import Locales, code_of

_TOKEN = re.compile(r'[ \t\n\r,:]*(?:("(?:[^"\\]|\\.)*+")|([{}\[\]])|([^\s"{}\[\],:]+))')
_FORM = re.compile(  # i18next's plurals and contexts
    r"(.+?)[_](zero|one|two|few|many|other|plural|male|female|neuter)"
)
_Entry = tuple[Segment, Slot]


class _Node(NamedTuple):
    """A value with its place; `value` is a text, a list of members with their keys, or None."""

    start: int
    end: int
    value: Any

    def member(self, *keys: str) -> "_Node | None":
        """Returns the value of a key in an object, or of keys in objects; None for none."""
        node: _Node | None = self
        for key in keys:
            members = node.value if node and isinstance(node.value, list) else []
            node = next((member for name, member in members if name == key), None)
        return node


def read(name: str, content: bytes) -> TextDocument:
    """Returns the strings of a JSON file; `key_one` and `key_other` are forms of a key."""
    text, encoding = decode(name, content)
    escape = _escape(text)
    entries = []
    for key, node in _strings(_tree(name, text), ""):
        form = _FORM.fullmatch(key)
        start, end = node.start + 1, node.end - 1
        branches = list(icu.leaves(text[start:end]))
        for name_of_form, begin, stop in branches:
            branch = json.loads(f'"{text[start + begin : start + stop]}"')
            place = start + begin, start + stop
            if has_letters(branch):
                entries.append(replaced(branch, *place, escape, key=key, form=name_of_form))
        if not branches and has_letters(node.value):
            named = {"key": form[1], "form": form[2]} if form else {"key": key}
            entries.append(replaced(node.value, start, end, escape, **named))
    return TextDocument(text, encoding, entries)


def read_xcstrings(name: str, content: bytes, locales: Locales) -> TextDocument:
    """Returns the strings of an Apple String Catalog.

    Raises:
      ValueError: the target language is not known.
    """
    text, encoding = decode(name, content)
    tree, escape = _tree(name, text), _escape(text)
    if not locales.target:
        raise ValueError(f"{name}: a String Catalog has many languages; name the target language")
    main = tree.member("sourceLanguage")
    own = code_of(main.value) if main and isinstance(main.value, str) else ""
    strings = tree.member("strings")
    entries: list[_Entry] = []
    for key, entry in strings.value if strings and isinstance(strings.value, list) else []:
        said = entry.member("shouldTranslate")
        if said is None or text[said.start : said.end] != "false":
            entries += _string(text, key, entry, locales, own, escape)
    entries.sort(key=lambda entry: entry[1].start)
    return TextDocument(text, encoding, entries)


def _string(
    text: str, key: str, entry: _Node, locales: Locales, own: str, escape: Callable[[str], str]
) -> Iterator[_Entry]:
    """Yields the segments of an entry: one, or one per plural form or device."""
    found = entry.member("localizations")
    members = found.value if found and isinstance(found.value, list) else []
    by_code = {code_of(language): node for language, node in members}
    source_code = locales.source or own
    sources = dict(_units(by_code[source_code], "")) if source_code in by_code else {}
    if not sources and source_code == own:
        sources = {"": _Node(0, 0, key)}
    targets = dict(_units(by_code[locales.target], "")) if locales.target in by_code else {}
    for form, target in targets.items():
        source = sources.get(form) or sources.get("other") or sources.get("")
        if source and has_letters(source.value):
            current = MarkedText(target.value) if target.value else None
            slot = Slot(target.start + 1, target.end - 1, plain(escape), current)
            yield Segment(MarkedText(source.value), key, form, current), slot
    source = sources.get("")
    if source and locales.target not in by_code and has_letters(source.value):
        place, outer = (entry, True) if found is None else (found, False)
        indent = _indent(text, place.start)
        more = bool(place.value)
        write = functools.partial(_unit, locales.target_tag, escape, outer, more, indent)
        current = MarkedText(key) if locales.target == own else None  # the key is the text
        slot = Slot(place.start + 1, place.start + 1, write, current)
        yield Segment(MarkedText(source.value), key, "", current), slot


def _units(node: _Node, form: str) -> Iterator[tuple[str, _Node]]:
    """Yields the values of a localization by form, such as '' or 'plural.one'."""
    value = node.member("stringUnit", "value")
    if value is not None and isinstance(value.value, str):
        yield form, value
    variations = node.member("variations")
    for kind, variants in variations.value if variations and variations.value else []:
        for name, variant in variants.value or []:
            yield from _units(variant, ".".join(filter(None, (form, kind, name))))


def _unit(
    tag: str, escape: Callable[[str], str], outer: bool, more: bool, indent: str,
    translation: MarkedText, render: Render,
) -> str:  # fmt: skip
    """Returns a new localization, as Xcode writes it, at the start of an object."""
    inner = indent + "  " * (1 + outer)
    lines = [
        f'{inner}"{tag}" : {{', f'{inner}  "stringUnit" : {{',
        f'{inner}    "state" : "needs_review",',
        f'{inner}    "value" : "{escape(translation.text)}"', f"{inner}  }}", f"{inner}}}",
    ]  # fmt: skip
    if outer:
        lines = [f'{indent}  "localizations" : {{', *lines, f"{indent}  }}"]
    return "\n" + "\n".join(lines) + ("," if more else "")


def _indent(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip())]


def _strings(node: _Node, path: str) -> Iterator[tuple[str, Any]]:
    """Yields the strings below a node, with their keys joined by dots."""
    if isinstance(node.value, str):
        yield path, node
    for key, member in node.value if isinstance(node.value, list) else []:
        if not key.startswith("@"):
            yield from _strings(member, f"{path}.{key}" if path else key)


def _tree(name: str, text: str) -> _Node:
    """Returns the value of a JSON text with all places.

    Raises:
      ValueError: it is no JSON, a key is repeated, or it is nested too deeply.
    """
    try:
        json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}:{error.lineno}: no JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: {error}") from None
    open_: list[tuple[str, int, bool, list[tuple[str, Any]]]] = [("", 0, True, [])]
    key: str | None = None  # of the next value; None in an array, or where a key is next
    place = 0
    while match := _TOKEN.match(text, place):
        start, place = match.start(match.lastindex or 0), match.end()
        string, bracket, _ = match.groups()
        if bracket in ("}", "]"):
            outer, begin, _, members = open_.pop()
            open_[-1][3].append((outer, _Node(begin, place, members)))
        elif string and key is None and not open_[-1][2]:
            key = _decoded(string)
        else:
            own = str(len(open_[-1][3])) if key is None else key
            key = None
            if not bracket:
                value = _decoded(string) if string else None
                open_[-1][3].append((own, _Node(start, place, value)))
            elif len(open_) > DEPTH:
                raise ValueError(f"{name}: refused: it is nested more than {DEPTH} deep")
            else:
                open_.append((own, start, bracket == "[", []))
    return open_[0][3][0][1]


def _decoded(string: str) -> str:
    return whole_characters(json.loads(string)) if "\\" in string else string[1:-1]


def _once(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError(f"the key {max(names, key=names.count)!r} is repeated")


def _escape(text: str) -> Callable[[str], str]:
    """Returns a function that writes strings as the file does, with or without `\\u` escapes."""
    ascii_only = text.isascii() and "\\u" in text
    return lambda string: json.dumps(string, ensure_ascii=ascii_only)[1:-1]
