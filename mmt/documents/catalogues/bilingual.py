"""XML with both languages: XLIFF (1.2 and 2.x), TMX and Qt's TS; translations go beside sources."""

import re
from collections.abc import Callable, Mapping

from mmt.documents.document import MarkedText, Render, Segment, Slot, TextDocument, has_letters
from mmt.documents.inline import Role, Syntax, content, writer
from mmt.documents.named import Locales, code_of
from mmt.documents.tokens import Markup, Token, escape_xml, xml

_CODES = frozenset("x ph bpt ept it ut bx ex cp sc ec".split())  # with native code inside
_UNDONE = frozenset("new needs-translation initial".split())  # states of a copied source
_Entry = tuple[Segment, Slot]


def read_xliff(name: str, content: bytes) -> TextDocument:
    """Returns the units of XLIFF; those marked `translate="no"` are left out."""
    markup = _rooted(name, content, "xliff")
    entries = []
    unit: Mapping[str, str] = {}  # attributes of the `unit` around a segment of XLIFF 2
    for index in markup.elements("unit", "trans-unit", "segment"):
        attributes = markup.tokens[index].attributes
        if markup.tokens[index].name == "unit":
            unit = attributes
            continue
        named = {markup.tokens[child].name: child for child in markup.children(index)}
        attributes = {**unit, **attributes}
        if "source" not in named or attributes.get("translate") == "no":
            continue
        key = attributes.get("id", "")
        place = named.get("seg-source", named["source"])
        entry = _beside(markup, named["source"], named.get("target", -1), place)
        entries.append(_keyed(entry, key))
    return _document(markup, entries)


def read_tmx(name: str, content: bytes, locales: Locales) -> TextDocument:
    """Returns the units of a translation memory that have the source language.

    Raises:
      ValueError: no unit has the source language, or the target language is not known.
    """
    markup = _rooted(name, content, "tmx")
    header = next((markup.tokens[index] for index in markup.elements("header")), None)
    named = header.attributes.get("srclang", "") if header else ""
    source = locales.source or code_of(named)
    if not source or not locales.target:
        side = "source" if locales.target else "target"
        raise ValueError(f"{name}: a TMX file has many languages; name the {side} language")
    entries, present = [], dict[str, None]()
    for index in markup.elements("tu"):
        segs = dict[str, tuple[int, int]]()  # by language: indices of `tuv` and `seg`
        for child in markup.children(index):
            attributes = markup.tokens[child].attributes
            language = attributes.get("xml:lang") or attributes.get("lang") or ""
            present[language] = None
            for inner in markup.children(child):
                if markup.tokens[inner].name == "seg":
                    segs.setdefault(code_of(language), (child, inner))
        if source in segs:
            key = markup.tokens[index].attributes.get("tuid", "")
            if locales.target in segs:
                entry = _beside(markup, segs[source][1], segs[locales.target][1], -1)
            else:
                entry = _new_variant(markup, *segs[source], locales.target_tag)
            entries.append(_keyed(entry, key))
    if not entries:
        raise ValueError(f"{name}: no unit has {source}; available: {', '.join(present) or 'none'}")
    return _document(markup, entries)


def read_qt(name: str, content: bytes) -> TextDocument:
    """Returns the messages of a Qt TS file, one segment per numerus form."""
    markup = _rooted(name, content, "TS")
    entries, context = [], ""
    for index in markup.elements("name", "message"):
        if markup.tokens[index].name == "name":
            context = _text(markup, index).text
            continue
        named = {markup.tokens[child].name: child for child in markup.children(index)}
        if "source" not in named or "translation" not in named:
            continue
        translation = named["translation"]
        if markup.tokens[translation].attributes.get("type") in ("vanished", "obsolete"):
            continue
        comment = _text(markup, named["comment"]).text if "comment" in named else ""
        key = "\x04".join(filter(None, (context, comment, _text(markup, named["source"]).text)))
        forms = [c for c in markup.children(translation) if markup.tokens[c].name == "numerusform"]
        for number, form in enumerate(forms or [translation]):
            entry = _beside(markup, named["source"], form, -1)
            entries.append(_keyed(entry, key, str(number) if forms else ""))
    return _document(markup, entries)


def _role(token: Token) -> Role:
    native = token.name in _CODES or token.attributes.get("translate") == "no"
    return "opaque" if native else "inline"


_SYNTAX = Syntax(_role, collapse=False)


def _rooted(name: str, content: bytes, root: str) -> Markup:
    markup = xml(name, content)
    if markup.root().name != root:
        raise markup.fault(markup.root(), f"the root is <{markup.root().name}>; expected <{root}>")
    return markup


def _document(markup: Markup, entries: list[_Entry]) -> TextDocument:
    entries = [entry for entry in entries if has_letters(entry[0].source.text)]
    return TextDocument(markup.text, markup.encoding, entries)


def _keyed(entry: _Entry, key: str, form: str = "") -> _Entry:
    return entry[0]._replace(key=key, form=form), entry[1]


def _text(markup: Markup, index: int) -> MarkedText:
    """Returns the content of an element, with all of its markup."""
    return _inside(markup, index)[0]


def _inside(markup: Markup, index: int) -> tuple[MarkedText, Slot]:
    return content(markup, index + 1, markup.tokens[index].partner, _SYNTAX, trim="nothing")


def _beside(markup: Markup, source: int, target: int, place: int) -> _Entry:
    """Returns the segment of a unit.

    Args:
      markup: the file.
      source: index of the source element.
      target: index of the target element; -1 for none.
      place: index of the element after which a new target stands.
    """
    text = _text(markup, source)
    if target == -1:
        tokens = markup.tokens
        behind = tokens[tokens[place].partner].end
        start_tag = markup.text[tokens[source].start : tokens[source].end]
        prefix = re.match(r"<(\w+:)?", start_tag)[1] or ""  # type: ignore[index]
        space = _space_before(markup.text, tokens[source].start)
        tags = f"{space}<{prefix}target>", f"</{prefix}target>"
        return Segment(text), Slot(behind, behind, _between(*tags), None)
    current, slot = _inside(markup, target)
    token = markup.tokens[target]
    copied = token.attributes.get("state") in _UNDONE and current.text == text.text
    undone = copied or not current.text.strip()
    end = markup.tokens[token.partner]
    if end.start == end.end:  # <target/>
        opened = f"{markup.text[token.start : token.end - 2].rstrip()}>"
        name = re.match(r"<([\w:.-]+)", opened)[1]  # type: ignore[index]
        slot = Slot(token.start, token.end, _between(opened, f"</{name}>"), None)
    return Segment(text, target=None if undone else current), slot


def _new_variant(markup: Markup, variant: int, seg: int, tag: str) -> _Entry:
    """Returns the segment of a TMX unit without a variant in the target language."""
    tokens = markup.tokens
    end = tokens[tokens[variant].partner].end
    space = _space_before(markup.text, tokens[variant].start)
    write = _between(f'{space}<tuv xml:lang="{tag}"><seg>', "</seg></tuv>")
    return Segment(_text(markup, seg)), Slot(end, end, write, None)


def _space_before(text: str, end: int) -> str:
    """Returns the white space before a place, for an element that stands like its neighbour."""
    start = end
    while start and text[start - 1] in " \t\n\r":
        start -= 1
    return text[start:end]


def _between(before: str, after: str) -> Callable[[MarkedText, Render], str]:
    write = writer(escape_xml)
    return lambda translation, render: f"{before}{write(translation, render)}{after}"
