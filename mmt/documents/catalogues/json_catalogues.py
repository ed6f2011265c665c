"""Catalogues in JSON: nested keys (i18next), MediaWiki's and Flutter's ARB.

Every string is a segment, and every branch of an ICU plural or select. Keys that begin with `@`
describe others and are left out.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from mmt.documents import plurals
from mmt.documents.catalogues import icu
from mmt.documents.catalogues.json_tree import TOKEN, JsonNode, escape_of, parse
from mmt.documents.document import (
    FileChange,
    MarkedText,
    Segment,
    Slot,
    TextDocument,
    enclosed,
    has_letters,
    outside,
    replaced,
)
from mmt.documents.encoding import decode
from mmt.documents.named import UNKNOWN, Locales

_FORM = re.compile(  # i18next's plurals and contexts
    r"(.+?)[_](zero|one|two|few|many|other|plural|male|female|neuter)"
)
_SPACES = re.compile(" *")
_Entry = tuple[Segment, Slot]


def read(name: str, content: bytes, locales: Locales = UNKNOWN) -> TextDocument:
    """Returns the strings of a JSON file; `key_one` and `key_other` are forms of a key.

    Plurals, also those of ICU, get the forms of the target language.
    """
    text, encoding = decode(name, content)
    escape = escape_of(text)
    entries: list[_Entry] = []
    root = parse(name, text)
    changes, locales = _named(root, locales)
    for path, node in _objects(root, ""):
        new, removed = _of_members(text, path, node.value, locales, escape)
        entries += new
        changes += removed
    for key, node in _strings(root, ""):
        form = _FORM.fullmatch(key)
        start, end = node.start + 1, node.end - 1
        branches = list(icu.leaves(text[start:end]))
        for name_of_form, begin, stop in branches:
            branch = json.loads(f'"{text[start + begin : start + stop]}"')
            place = start + begin, start + stop
            if has_letters(branch):
                entries.append(replaced(branch, *place, escape, key=key, form=name_of_form))
        if branches:
            new, removed = _of_branches(text, key, node, locales, escape)
            entries += new
            changes += removed
        elif has_letters(node.value):
            named = {"key": form[1], "form": form[2]} if form else {"key": key}
            entries.append(replaced(node.value, start, end, escape, **named))
    entries.sort(key=lambda entry: entry[1].start)
    return TextDocument(text, encoding, list(outside(entries, changes)), changes)


def _named(root: JsonNode, locales: Locales) -> tuple[list[FileChange], Locales]:
    """Returns the change of the language that a file names, and the languages with its own.

    It is ARB's `@@locale`, or the only key of the root.
    """
    said = root.member("@@locale")
    if said and isinstance(said.value, str):
        locales = locales.or_source(said.value)
        name = locales.renamed(said.value, separator="_")
        return [FileChange(said.start + 1, said.end - 1, name)], locales
    members = root.value if isinstance(root.value, list) else []
    if len(members) == 1 and members[0][1].key_start >= 0 and isinstance(members[0][1].value, list):
        key, node = members[0]
        start = node.key_start + 1
        return [FileChange(start, start + len(key), locales.renamed(key))], locales
    return [], locales


def _objects(node: JsonNode, path: str) -> Iterator[tuple[str, JsonNode]]:
    """Yields the objects below a node, with the path of their keys."""
    members = node.value if isinstance(node.value, list) else []
    if members and members[0][1].key_start >= 0:
        yield path, node
    for key, member in members:
        if not key.startswith("@"):
            yield from _objects(member, f"{path}{key}.")


def _of_members(
    text: str, path: str, members: list[tuple[str, JsonNode]], locales: Locales,
    escape: Callable[[str], str],
) -> tuple[list[_Entry], list[FileChange]]:  # fmt: skip
    """Returns the entries of plural forms that keys such as `key_other` gain, and what they lose.
    """
    groups: dict[str, dict[str, int]] = {}
    for index, (key, node) in enumerate(members):
        match = _FORM.fullmatch(key)
        if match and isinstance(node.value, str):
            groups.setdefault(match[1], {})[match[2]] = index
    entries: list[_Entry] = []
    dropped: set[int] = set()
    for key, forms in groups.items():
        change = plurals.form_change(forms, locales, ordinal=key.endswith("_ordinal"))
        dropped |= {forms[form] for form in change.dropped}
        if not change.added or not has_letters(members[forms["other"]][1].value):
            continue
        index = forms["other"]
        node = members[index][1]
        start = node.key_start
        colon = text[TOKEN.match(text, start).end(1) : node.start]  # type: ignore[union-attr]
        after = text[members[index - 1][1].end : start] if index else ", "
        for form in change.added:
            head = f'"{escape(f"{key}_{form}")}"{colon}'
            write = enclosed(f'{head}"', escape, f'"{after}')
            segment = Segment(MarkedText(node.value), f"{path}{key}", form)
            entries.append((segment, Slot(start, start, write, None)))
    last = max((index for index in range(len(members)) if index not in dropped), default=-1)
    changes = [
        FileChange(members[index - 1][1].end, members[index][1].end) if index > last
        else FileChange(members[index][1].key_start, members[index + 1][1].key_start)
        for index in sorted(dropped)
    ]  # fmt: skip
    return entries, changes


def _of_branches(
    text: str, key: str, node: JsonNode, locales: Locales, escape: Callable[[str], str]
) -> tuple[list[_Entry], list[FileChange]]:
    """Returns the entries of branches that the plurals of an ICU message gain, and what they lose.

    A plural whose branch `other` has branches keeps its forms.
    """
    entries: list[_Entry] = []
    changes: list[FileChange] = []
    for plural in icu.plurals(text[node.start + 1 : node.end - 1], node.start + 1):
        branches = {branch[0]: branch for branch in plural.branches}
        change = plurals.form_change(branches, locales, ordinal=plural.ordinal)
        if not any(change):
            continue
        _, selector, begin, end = branches["other"]
        if icu.branches(text[begin:end]):
            continue
        for form in change.dropped:
            _, start, _, stop = branches[form]
            behind = _SPACES.match(text, stop + 1)
            changes.append(FileChange(start, behind.end() if behind else stop + 1))
        source = MarkedText(json.loads(f'"{text[begin:end]}"'))
        for form in change.added if has_letters(source.text) else ():
            write = enclosed(f"{form}{{", escape, "} ")
            segment = Segment(source, key, f"{plural.path}{form}")
            entries.append((segment, Slot(selector, selector, write, None)))
    return entries, changes


def _strings(node: JsonNode, path: str) -> Iterator[tuple[str, Any]]:
    """Yields the strings below a node, with their keys joined by dots."""
    if isinstance(node.value, str):
        yield path, node
    for key, member in node.value if isinstance(node.value, list) else []:
        if not key.startswith("@"):
            yield from _strings(member, f"{path}.{key}" if path else key)
