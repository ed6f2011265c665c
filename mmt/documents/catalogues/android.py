"""Android's string resources: `string`, and the items of `plurals` and `string-array`.

Tags such as `<b>` are inline markup, and so are `<xliff:g>` placeholders with their content.
"""

import functools
import re
from collections.abc import Callable

from mmt.documents import plurals
from mmt.documents.document import (
    FileChange,
    MarkedText,
    Render,
    Segment,
    Slot,
    TextDocument,
    has_letters,
    space_before,
)
from mmt.documents.encoding import whole_characters
from mmt.documents.inline import Role, Syntax, content, writer
from mmt.documents.named import UNKNOWN, Locales
from mmt.documents.tokens import Markup, Token, escape_xml, unescape_xml, xml

_PIECE = re.compile(r'\\(u[0-9a-fA-F]{4}|.)|(")|([ \t\r\n]+)', re.DOTALL)
_CODED = re.compile(r'[\\"\t\r\n]|  ')  # most texts have none of these
_NAMED = {"n": "\n", "t": "\t"}
_REFERENCE = re.compile(r"[@?](?:\+?[\w.]+:)?[\w.]+(?:/[\w.]+)?")
_LISTS = {"plurals": "quantity", "string-array": ""}


def read(name: str, data: bytes, locales: Locales = UNKNOWN) -> TextDocument:
    """Returns the strings of a resource file; those with `translatable="false"` are left out.

    The key of an array's item has its number, and the form of a plural's item is its quantity.
    Plurals get the quantities of the target language.
    """
    markup = xml(name, data)
    root = markup.root()
    if root.name != "resources":
        raise markup.fault(root, f"the root is <{root.name}>; expected <resources>")
    places: list[tuple[int, str, str]] = []  # element, key, form
    changes: list[FileChange] = []
    if named := markup.attribute(root, "tools:locale"):
        changes.append(FileChange(*named, locales.renamed(markup.text[slice(*named)])))
    for index in markup.children(next(markup.elements("resources"))):
        token = markup.tokens[index]
        key = token.attributes.get("name", "")
        if token.attributes.get("translatable") == "false":
            continue
        if token.name == "string":
            places.append((index, key, ""))
        items = list(markup.children(index)) if token.name in _LISTS else []
        forms = {markup.tokens[item].attributes.get("quantity", ""): item for item in items}
        change = plurals.form_change(forms, locales)
        places += ((forms["other"], key, f"+{form}") for form in change.added)
        for number, item in enumerate(items):
            form = markup.tokens[item].attributes.get("quantity", "")
            if form in change.dropped:
                changes.append(_removed(markup, item))
            else:
                places.append((item, key if form else f"{key}.{number}", form))
    entries: list[tuple[Segment, Slot]] = []
    for index, key, form in places:
        last = markup.tokens[index].partner
        text, slot = content(markup, index + 1, last, _SYNTAX, trim="space")
        raw = markup.text[slot.start : slot.end]
        if has_letters(text.text) and not _REFERENCE.fullmatch(raw):
            slot = slot._replace(write=functools.partial(_with_edges, slot.write))
            if form.startswith("+"):
                form = form[1:]
                slot = _new_item(markup, index, form)
            entries.append((Segment(text, key, form), slot))
    return TextDocument(markup.text, markup.encoding, entries, changes)


def _removed(markup: Markup, index: int) -> FileChange:
    """Returns the removal of an element, and of the white space before it."""
    start = markup.tokens[index].start
    start -= len(space_before(markup.text, start))
    return FileChange(start, markup.tokens[markup.tokens[index].partner].end)


def _new_item(markup: Markup, index: int, form: str) -> Slot:
    """Returns the slot of a quantity that the file does not have, before another one."""
    write = functools.partial(_with_edges, writer(_SYNTAX.escape))
    start = markup.tokens[index].start
    space = space_before(markup.text, start)
    return Slot(
        start, start,
        lambda text, render: f'<item quantity="{form}">{write(text, render)}</item>{space}', None,
    )  # fmt: skip


def _with_edges(
    write: Callable[[MarkedText, Render], str], translation: MarkedText, render: Render
) -> str:
    """Returns a written string; spaces at its edges are escaped, since Android drops them."""
    return re.sub(r"\A | \Z", r"\\u0020", write(translation, render))


def unescape(raw: str) -> str:
    """Returns text without Android's escapes; white space is one space, except inside quotes.

    >>> unescape("It\\\\'s  \\\\n")
    "It's \\n"
    """
    if not _CODED.search(raw):
        return raw
    parts, end, quoted = [], 0, False
    for match in _PIECE.finditer(raw):
        parts.append(raw[end : match.start()])
        end = match.end()
        code, quote, space = match.groups()
        if code:
            unicode = len(code) == 5
            parts.append(chr(int(code[1:], 16)) if unicode else _NAMED.get(code, code))
        elif quote:
            quoted = not quoted
        else:
            parts.append(space if quoted else " ")
    return whole_characters("".join([*parts, raw[end:]]))


def escape(text: str) -> str:
    """Returns text as Android reads it again."""
    text = re.sub(r"[\\'\"]|^[@?]", r"\\\g<0>", text).replace("\n", "\\n").replace("\t", "\\t")
    return re.sub(r"(?<= ) ", r"\\u0020", text)


def _role(token: Token) -> Role:
    return "opaque" if token.name == "g" else "inline"


_SYNTAX = Syntax(
    _role,
    collapse=False,
    escape=lambda text: escape_xml(escape(text)),
    unescape=lambda raw: unescape(unescape_xml(raw)),
    escape_cdata=escape,
    unescape_cdata=unescape,
)
