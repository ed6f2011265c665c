"""Apple's String Catalogs: the strings of all languages in one file of JSON."""

import functools
from collections.abc import Callable, Iterator, Mapping

from mmt.documents import plurals
from mmt.documents.catalogues.json_tree import JsonNode, escape_of, parse
from mmt.documents.document import (
    Around,
    MarkedText,
    Render,
    Segment,
    Slot,
    TextDocument,
    enclosed,
    has_letters,
    plain,
)
from mmt.documents.encoding import decode
from mmt.documents.named import Locales, code_of

_SUBSTITUTIONS = "substitutions"
_Entry = tuple[Segment, Slot]


def read(name: str, content: bytes, locales: Locales) -> TextDocument:
    """Returns the strings of an Apple String Catalog.

    Raises:
      ValueError: the target language is not known.
    """
    text, encoding = decode(name, content)
    tree, escape = parse(name, text), escape_of(text)
    if not locales.target:
        raise ValueError(f"{name}: a String Catalog has many languages; name the target language")
    main = tree.member("sourceLanguage")
    own = code_of(main.value) if main and isinstance(main.value, str) else ""
    strings = tree.member("strings")
    entries: list[_Entry] = []
    for key, entry in strings.value if strings and isinstance(strings.value, list) else []:
        for node in (entry, entry.member("localizations")):
            if node and text[node.start] != "{":
                line = text.count("\n", 0, node.start) + 1
                raise ValueError(f"{name}:{line}: the entry {key!r} is no String Catalog's")
        translatable = entry.member("shouldTranslate")
        if translatable is None or text[translatable.start : translatable.end] != "false":
            entries += _string(text, key, entry, locales, own, escape)
    entries.sort(key=lambda entry: entry[1].start)
    return TextDocument(text, encoding, entries)


def _string(
    text: str, key: str, entry: JsonNode, locales: Locales, own: str, escape: Callable[[str], str]
) -> Iterator[_Entry]:
    """Yields the segments of an entry: one, or one per plural form or device."""
    found = entry.member("localizations")
    members = found.value if found and isinstance(found.value, list) else []
    by_code = {code_of(language): node for language, node in members}
    source_code = locales.or_source(own).source
    sources = dict(_units(by_code[source_code], "")) if source_code in by_code else {}
    if not sources and source_code == own:
        sources = {"": JsonNode(0, 0, key)}
    target = by_code.get(locales.target)
    targets = dict(_units(target, "")) if target else {}
    for form, value in targets.items():
        other = f"{form.rpartition('.')[0]}.other"
        source = sources.get(form) or sources.get(other) or sources.get("")
        if source and has_letters(source.value):
            current = MarkedText(value.value) if value.value else None
            slot = Slot(value.start + 1, value.end - 1, plain(escape), current)
            yield Segment(MarkedText(source.value), key, form, current), slot
    locales = locales._replace(source=source_code)
    if target:
        yield from _more_forms(text, key, target, sources, locales, escape)
        return
    if any(form.startswith(_SUBSTITUTIONS) for form in sources):
        return  # a localization without its substitutions would be broken
    place, outer = (entry, True) if found is None else (found, False)
    indent = _indent(text, place.start)
    source = sources.get("")
    if source and has_letters(source.value):
        more = bool(place.value)
        write = functools.partial(_unit, locales.target_tag, escape, outer, more, indent)
        current = MarkedText(key) if locales.target == own else None  # the key is the text
        slot = Slot(place.start + 1, place.start + 1, write, current)
        yield Segment(MarkedText(source.value), key, "", current), slot
    elif any(has_letters(each.value) for each in sources.values()):
        yield from _new_forms(key, place, outer, indent, sources, locales, escape)


def _more_forms(
    text: str, key: str, target: JsonNode, sources: Mapping[str, JsonNode], locales: Locales,
    escape: Callable[[str], str],
) -> Iterator[_Entry]:  # fmt: skip
    """Yields the segments of plural forms that a localization does not have."""
    plural = target.member("variations", "plural")
    if plural is None or not isinstance(plural.value, list):
        return
    present = {name for name, _ in plural.value}
    indent = _indent(text, plural.start) + "  "
    around = Around("\n", ",\n", "," if present else f"\n{indent[:-2]}")
    start = plural.start + 1
    for form in _target_forms(sources, "plural", locales):
        if form not in present:
            yield from _variant(key, "plural", form, start, around, indent, sources, escape)


def _new_forms(
    key: str, place: JsonNode, outer: bool, indent: str, sources: Mapping[str, JsonNode],
    locales: Locales, escape: Callable[[str], str],
) -> Iterator[_Entry]:  # fmt: skip
    """Yields the segments of a new localization with a variation of one kind: plural or device."""
    kinds = {form.partition(".")[0] for form in sources}
    if len(kinds) > 1 or any(form.count(".") != 1 for form in sources):
        return
    (kind,) = kinds
    levels = ["localizations"] * outer + [locales.target_tag, "variations", kind]
    opened = "".join(
        f'\n{indent}{"  " * depth}"{name}" : {{' for depth, name in enumerate(levels, 1)
    )
    closed = "".join(f"\n{indent}{'  ' * depth}}}" for depth in range(len(levels), 0, -1))
    around = Around(f"{opened}\n", ",\n", closed + ("," if place.value else ""))
    inner = indent + "  " * (len(levels) + 1)
    for form in _target_forms(sources, kind, locales):
        yield from _variant(key, kind, form, place.start + 1, around, inner, sources, escape)


def _target_forms(sources: Mapping[str, JsonNode], kind: str, locales: Locales) -> list[str]:
    """Returns the forms of the target that belong to those of the source."""
    names = [form.removeprefix(f"{kind}.") for form in sources if form.startswith(f"{kind}.")]
    if kind != "plural":
        return names
    change = plurals.form_change(names, locales)
    forms = {*names, *change.added} - change.dropped
    return [form for form in plurals.CATEGORIES if form in forms]


def _variant(
    key: str, kind: str, form: str, start: int, around: Around, indent: str,
    sources: Mapping[str, JsonNode], escape: Callable[[str], str],
) -> Iterator[_Entry]:  # fmt: skip
    """Yields the segment of a new variant; it is translated from the same form, else `other`."""
    source = sources.get(f"{kind}.{form}") or sources[f"{kind}.other"]
    head = (
        f'{indent}"{form}" : {{\n{indent}  "stringUnit" : {{\n'
        f'{indent}    "state" : "needs_review",\n{indent}    "value" : "'
    )
    write = enclosed(head, escape, f'"\n{indent}  }}\n{indent}}}')
    segment = Segment(MarkedText(source.value), key, f"{kind}.{form}")
    yield segment, Slot(start, start, write, None, around)


def _units(node: JsonNode, form: str) -> Iterator[tuple[str, JsonNode]]:
    """Yields the values of a localization by form, such as '' or 'plural.one'."""
    value = node.member("stringUnit", "value")
    if value is not None and isinstance(value.value, str):
        yield form, value
    for group in ("variations", _SUBSTITUTIONS):
        members = node.member(group)
        for kind, variants in _members(members):
            if group == _SUBSTITUTIONS:  # numbers of a text, each with its plural forms
                yield from _units(variants, ".".join(filter(None, (form, group, kind))))
                continue
            for name, variant in _members(variants):
                yield from _units(variant, ".".join(filter(None, (form, kind, name))))


def _members(node: JsonNode | None) -> list[tuple[str, JsonNode]]:
    return node.value if node and isinstance(node.value, list) else []


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


