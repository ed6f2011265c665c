"""XML with both languages: XLIFF (1.2 and 2.x), TMX and Qt's TS; translations go beside sources."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mmt.documents import plurals
from mmt.documents.catalogues import accelerators
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
from mmt.documents.inline import Role, Syntax, content, writer
from mmt.documents.named import UNKNOWN, Locales, code_of
from mmt.documents.tokens import Markup, Token, escape_xml, xml

_CODES = frozenset("x ph bpt ept it ut bx ex cp sc ec".split())  # with native code inside
_UNDONE = frozenset("new needs-translation initial".split())  # states of a copied source
_Entry = tuple[Segment, Slot]


def read_xliff(name: str, content: bytes, locales: Locales = UNKNOWN) -> TextDocument:
    """Returns the units of XLIFF; those marked `translate="no"`, or in such a group, are left out.

    A translation of a unit that says it has none changes the state of the unit.
    """
    markup = _rooted(name, content, "xliff")
    entries = []
    open_: list[tuple[int, Mapping[str, str]]] = []  # ends of the elements around, attributes
    for index in markup.elements("file", "group", "unit", "trans-unit", "segment"):
        token = markup.tokens[index]
        while open_ and open_[-1][0] < index:
            open_.pop()
        attributes = {**(open_[-1][1] if open_ else {}), **token.attributes}
        open_.append((token.partner, attributes))
        if token.name in ("file", "group", "unit"):
            continue
        named = {markup.tokens[child].name: child for child in markup.children(index)}
        if "source" not in named or attributes.get("translate") == "no":
            continue
        key = attributes.get("id", "")
        place = named.get("seg-source", named["source"])
        target = named.get("target", -1)
        states = [(token, "translated")]  # of XLIFF 2
        if target != -1:
            states.append((markup.tokens[target], "needs-review-translation"))
        undone = [each for each in states if each[0].attributes.get("state") in _UNDONE]
        entry = _beside(markup, named["source"], target, place, undone=bool(undone))
        if undone:
            entry = entry[0], _with_state(markup, entry[1], *undone[0])
        entries.append(_keyed(entry, key))
    changes: list[FileChange] = []
    for index in markup.elements("xliff", "file"):
        for names in (("source-language", "target-language"), ("srcLang", "trgLang")):
            if names[0] in markup.tokens[index].attributes:
                changes += _named(markup, markup.tokens[index], names, locales)
    return _document(markup, entries, changes)


def read_tmx(name: str, content: bytes, locales: Locales) -> TextDocument:
    """Returns the units of a translation memory that have the source language.

    Raises:
      ValueError: no unit has the source language, or the target language is not known.
    """
    markup = _rooted(name, content, "tmx")
    header = next((markup.tokens[index] for index in markup.elements("header")), None)
    named = header.attributes.get("srclang", "") if header else ""
    source = locales.or_source(named).source
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


def read_qt(name: str, content: bytes, locales: Locales = UNKNOWN) -> TextDocument:
    """Returns the messages of a Qt TS file, one segment per numerus form.

    A file that names the source, the target or nothing gets as many forms as Qt has for the target.
    """
    markup = _rooted(name, content, "TS")
    entries, context = [], ""
    root = markup.root()
    names = ("sourcelanguage", "language")
    changes = list(_named(markup, root, names, locales, separator="_", posix=True))
    given, renamed = root.attributes.get("language", ""), bool(changes)
    wanted = plurals.qt_forms(locales.target) if renamed or code_of(given) == locales.target else 0
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
            entry = _without_accelerator(_beside(markup, named["source"], form, -1))
            if forms and 0 < wanted <= number and (renamed or not _text(markup, form).text.strip()):
                changes.append(_removed(markup, form))
            else:
                entries.append(_keyed(entry, key, str(number) if forms else ""))
        for number in range(len(forms), wanted if forms else 0):
            entry = _without_accelerator(_new_form(markup, named["source"], forms[-1]))
            entries.append(_keyed(entry, key, str(number)))
    return _document(markup, entries, changes)


def _named(
    markup: Markup, token: Token, names: tuple[str, str], locales: Locales, **style: Any
) -> Iterator[FileChange]:
    """Yields the change of the target language that an element names, or should name.

    Args:
      markup: the file.
      token: the start of the element.
      names: the attributes of source and target.
      locales: the languages.
      style: options of `Locales.renamed`.
    """
    source, target = (token.attributes.get(name, "") for name in names)
    locales = locales.or_source(source)
    if not locales.target:
        return
    place = markup.attribute(token, names[1])
    if target:
        name = locales.renamed(target, **style)
    else:
        name = locales.name_like("xx" if "@" in source else source or "xx", **style)
    if place and name != target:
        yield FileChange(*place, name)
    elif not place:
        before = markup.attribute(token, names[0])
        after = before[1] + 1 if before else token.start + len(f"<{token.name}")
        yield FileChange(after, after, f' {names[1]}="{name}"')


def _removed(markup: Markup, index: int) -> FileChange:
    """Returns the removal of an element, and of the white space before it."""
    token = markup.tokens[index]
    space = space_before(markup.text, token.start)
    return FileChange(token.start - len(space), markup.tokens[token.partner].end)


def _new_form(markup: Markup, source: int, last: int) -> _Entry:
    """Returns the segment of a numerus form that the file does not have."""
    token = markup.tokens[last]
    end = markup.tokens[token.partner].end
    space = space_before(markup.text, token.start)
    write = _between(f"{space}<numerusform>", "</numerusform>")
    return Segment(_text(markup, source)), Slot(end, end, write, None)


def _without_accelerator(entry: _Entry) -> _Entry:
    """Returns the segment of a text without its accelerator, which the translation gets again."""
    segment, slot = entry
    found = None if segment.source.tags else accelerators.without(segment.source.text)
    if found is None:
        return entry
    text, written = found
    target = segment.target
    if target is not None and not target.tags:
        visible = accelerators.without(target.text)
        target = target if visible is None else MarkedText(visible[0])

    def write(translation: MarkedText, render: Render) -> str:
        return slot.write(MarkedText(written(translation.text), translation.tags), render)

    segment = segment._replace(source=MarkedText(text), target=target)
    return segment, slot._replace(write=write, current=target if segment.target else slot.current)


def _with_state(markup: Markup, slot: Slot, token: Token, state: str) -> Slot:
    """Returns a slot that also writes the attribute `state` of an element."""
    place = markup.attribute(token, "state")
    assert place
    start, end = place
    if slot.start <= start:  # the slot is the element

        def write(translation: MarkedText, render: Render) -> str:
            element = slot.write(translation, render)
            return element[: start - slot.start] + state + element[end - slot.start :]

        return slot._replace(write=write)
    between = markup.text[end : slot.start]
    return slot._replace(
        start=start,
        write=lambda translation, render: state + between + slot.write(translation, render),
    )


def _role(token: Token) -> Role:
    native = token.name in _CODES or token.attributes.get("translate") == "no"
    protected = token.name == "mrk" and token.attributes.get("mtype") == "protected"
    return "opaque" if native or protected else "inline"


_SYNTAX = Syntax(_role, collapse=False)


def _rooted(name: str, content: bytes, root: str) -> Markup:
    markup = xml(name, content)
    if markup.root().name != root:
        raise markup.fault(markup.root(), f"the root is <{markup.root().name}>; expected <{root}>")
    return markup


def _document(
    markup: Markup, entries: list[_Entry], changes: Sequence[FileChange] = ()
) -> TextDocument:
    entries = [entry for entry in entries if has_letters(entry[0].source.text)]
    return TextDocument(markup.text, markup.encoding, entries, changes)


def _keyed(entry: _Entry, key: str, form: str = "") -> _Entry:
    return entry[0]._replace(key=key, form=form), entry[1]


def _text(markup: Markup, index: int) -> MarkedText:
    """Returns the content of an element, with all of its markup."""
    return _inside(markup, index)[0]


def _inside(markup: Markup, index: int) -> tuple[MarkedText, Slot]:
    return content(markup, index + 1, markup.tokens[index].partner, _SYNTAX, trim="nothing")


def _beside(
    markup: Markup, source: int, target: int, place: int, *, undone: bool = False
) -> _Entry:
    """Returns the segment of a unit.

    Args:
      markup: the file.
      source: index of the source element.
      target: index of the target element; -1 for none.
      place: index of the element after which a new target stands.
      undone: whether a copied source counts as untranslated.
    """
    text = _text(markup, source)
    if target == -1:
        tokens = markup.tokens
        behind = tokens[tokens[place].partner].end
        start_tag = markup.text[tokens[source].start : tokens[source].end]
        prefix = re.match(r"<(\w+:)?", start_tag)[1] or ""  # type: ignore[index]
        space = space_before(markup.text, tokens[source].start)
        tags = f"{space}<{prefix}target>", f"</{prefix}target>"
        return Segment(text), Slot(behind, behind, _between(*tags), None)
    current, slot = _inside(markup, target)
    token = markup.tokens[target]
    undone = (undone and current.text == text.text) or not current.text.strip()
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
    space = space_before(markup.text, tokens[variant].start)
    write = _between(f'{space}<tuv xml:lang="{tag}"><seg>', "</seg></tuv>")
    return Segment(_text(markup, seg)), Slot(end, end, write, None)


def _between(before: str, after: str) -> Callable[[MarkedText, Render], str]:
    write = writer(escape_xml)
    return lambda translation, render: f"{before}{write(translation, render)}{after}"
