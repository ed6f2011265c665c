"""The languages and directions that a Word document names, in the target's."""

import re
from collections.abc import Iterator, Set

from mmt import languages
from mmt.documents.document import FileChange
from mmt.documents.named import Locales
from mmt.documents.tokens import Markup

_LANG = re.compile(r"<\w+:(?:lang|themeFontLang)\b[^>]*>")
_NAME = re.compile(r'\b(\w+:)(val|eastAsia|bidi)="([\w-]+)"')
_RTL = re.compile(r"<(?:\w+:)?rtl\b[^>]*>(?:</(?:\w+:)?rtl>)?")
_OFF = frozenset(("0", "false", "off"))
_FROM_RIGHT = {"bidi": ("pPr", "sectPr"), "bidiVisual": ("tblPr",), "rtl": ("rPr",)}
_AFTER_BIDI = frozenset(  # in the schema's order of the properties of a paragraph
    "adjustRightInd snapToGrid spacing ind contextualSpacing mirrorIndents suppressOverlap jc "
    "textDirection textAlignment textboxTightWrap outlineLvl divId cnfStyle rPr sectPr "
    "pPrChange".split()
)
_AFTER_VISUAL = frozenset(  # of a table
    "tblStyleRowBandSize tblStyleColBandSize tblW jc tblCellSpacing tblInd tblBorders shd "
    "tblLayout tblCellMar tblLook tblCaption tblDescription tblPrChange".split()
)
_AFTER_SECTION = frozenset(("rtlGutter", "docGrid", "printerSettings", "sectPrChange"))
_AFTER_RTL = re.compile(
    r"<(?:\w+:)?(?:cs|em|lang|eastAsianLayout|specVanish|oMath|rPrChange)\b|</(?:\w+:)?rPr>"
)
_NO_PROPERTIES = re.compile(r"<(?:\w+:)?rPr\s*/>")
_RUN = re.compile(r"<(\w+:)?r\b[^>]*>")


def changes(markup: Markup, locales: Locales) -> Iterator[FileChange]:
    """Yields the changes of a part: names of languages, and properties of text from right to left.
    """
    for index in markup.elements("lang", "themeFontLang"):
        start, end = markup.tokens[index].start, markup.tokens[index].end
        tag = markup.text[start:end]
        if (new := _renamed(tag, locales)) != tag:
            yield FileChange(start, end, new)
    if locales.turned == "ltr":
        yield from _removed(markup)
    elif locales.turned == "rtl":
        yield from _added(markup)


def run(start: str, locales: Locales) -> str:
    """Returns the start of a run, with its properties, for text of the target.

    >>> from mmt.documents.named import locales
    >>> run('<w:r><w:rPr><w:rtl/><w:lang w:bidi="ar-SA"/></w:rPr>', locales("ar", "en"))
    '<w:r><w:rPr><w:lang w:val="en-US" w:bidi="ar-SA"/></w:rPr>'
    """
    start = _LANG.sub(lambda match: _renamed(match[0], locales), start)
    if locales.turned == "ltr":
        return _RTL.sub("", start)
    if locales.turned != "rtl":
        return start
    tag = _RUN.match(start)
    assert tag, start
    prefix = tag[1] or ""
    if given := _RTL.search(start):
        off = any(f'val="{value}"' in given[0] for value in _OFF)
        return _RTL.sub(f"<{prefix}rtl/>", start) if off else start
    if place := _AFTER_RTL.search(start):
        return f"{start[: place.start()]}<{prefix}rtl/>{start[place.start() :]}"
    return f"{_NO_PROPERTIES.sub('', start)}<{prefix}rPr><{prefix}rtl/></{prefix}rPr>"


def _renamed(tag: str, locales: Locales) -> str:
    """Returns a tag that names languages, with the target's name if it names the source.

    Word has three names: of East Asian text, of text from right to left, and of all other text.
    That of the target's kind is changed, or added; of the others, the first one only.
    """
    names = {match[2]: match for match in _NAME.finditer(tag)}
    name_to_replace = next((m for m in names.values() if locales.renamed(m[3]) != m[3]), None)
    if name_to_replace is None:
        return tag
    kind, new = _kind(locales.target), locales.renamed(name_to_replace[3])
    if kind in names:
        return tag[: names[kind].start(3)] + new + tag[names[kind].end(3) :]
    start = name_to_replace.start()
    return f'{tag[:start]}{name_to_replace[1]}{kind}="{new}" {tag[start:]}'


def _kind(language: str) -> str:
    """Returns the attribute of Word that names a language."""
    if languages.right_to_left(language):
        return "bidi"
    return "eastAsia" if language[:3] in ("zho", "yue", "jpn", "kor") else "val"


def _removed(markup: Markup) -> Iterator[FileChange]:
    """Yields the removals of the properties of text from right to left."""
    tokens = markup.tokens
    for parent in markup.elements(*{name for names in _FROM_RIGHT.values() for name in names}):
        for child in markup.children(parent):
            token = tokens[child]
            off = any(value in _OFF for value in token.attributes.values())
            if tokens[parent].name in _FROM_RIGHT.get(token.name, ()) and not off:
                yield FileChange(token.start, tokens[token.partner].end)


def _added(markup: Markup) -> Iterator[FileChange]:
    """Yields the properties of paragraphs, tables and sections from right to left."""
    tokens, text = markup.tokens, markup.text
    for index in markup.elements("p"):
        start, end = tokens[index], tokens[tokens[index].partner]
        if end.start == end.end:  # without content
            continue
        children = list(markup.children(index))
        if children and tokens[children[0]].name == "pPr":
            yield from _on(markup, children[0], "bidi", _AFTER_BIDI)
        else:
            tag = text[start.start : start.end]
            prefix = tag[1 : tag.index("p")]
            added = f"{tag}<{prefix}pPr><{prefix}bidi/></{prefix}pPr>"
            yield FileChange(start.start, start.end, added)
    for index in markup.elements("tbl"):
        properties = [child for child in markup.children(index) if tokens[child].name == "tblPr"]
        for child in properties:
            yield from _on(markup, child, "bidiVisual", _AFTER_VISUAL)
    earlier = {child for i in markup.elements("sectPrChange") for child in markup.children(i)}
    for index in markup.elements("sectPr"):
        if index not in earlier:
            yield from _on(markup, index, "bidi", _AFTER_SECTION)


def _on(markup: Markup, index: int, name: str, later: Set[str]) -> Iterator[FileChange]:
    """Yields the change that turns a property on, in its place before the `later` ones."""
    tokens = markup.tokens
    element, last = tokens[index], tokens[tokens[index].partner]
    tag = markup.text[element.start : element.end]
    prefix = tag[1 : tag.index(element.name)]
    added = f"<{prefix}{name}/>"
    inner = [tokens[child] for child in markup.children(index)]
    if given := next((token for token in inner if token.name == name), None):
        if any(value in _OFF for value in given.attributes.values()):
            yield FileChange(given.start, tokens[given.partner].end, added)
    elif last.start == last.end:
        # Only "/>" is replaced, since a property may be added before the element.
        yield FileChange(element.end - 2, element.end, f">{added}</{prefix}{element.name}>")
    else:
        insert_at = next((token.start for token in inner if token.name in later), last.start)
        yield FileChange(insert_at, insert_at, added)
