"""HTML: its tokens as the HTML standard finds them, and the texts to translate.

Text of blocks is translated with its inline markup, and so are the attributes that people read.
Scripts, styles, code and elements with `translate="no"` or the class `notranslate` are left alone,
and so is the code of templates in `<%…%>` and `<?php…?>`.
"""

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mmt.documents.document import (
    FileChange,
    Segment,
    Slot,
    TextDocument,
    has_letters,
    replaced,
)
from mmt.documents.encoding import Encoding, declared, decode, of_browsers
from mmt.documents.inline import Role, Syntax, segments
from mmt.documents.named import UNKNOWN, Locales
from mmt.documents.tokens import Markup, Token, escape_attribute, escape_xml

_DECLARED = rb"<(?:meta\b[^>]*\bcharset|\?xml[^>]*\bencoding)\s*=\s*[\"']?([\w.:-]+)"
_INLINE = frozenset(
    "a abbr acronym b bdi bdo big button cite data del dfn em font i img input ins label mark map "
    "nobr object output picture q rp rt ruby s small source span strike strong sub sup svg time tt "
    "u wbr area audio video canvas embed iframe meter progress select math".split()
)
_EMBEDDED = frozenset("svg math audio video canvas object".split())
_OPAQUE = _EMBEDDED | frozenset("code kbd samp var".split())
_HIDDEN = frozenset("script style template xmp noembed noframes".split())
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_RAW = frozenset("script style xmp iframe noembed noframes textarea title".split())
_WITHOUT_END = frozenset("p li dt dd td th tr option".split())  # whose end tags may be left out
_READ = frozenset("alt title placeholder aria-label label summary".split())  # attributes
_LANGUAGE = frozenset(("lang", "xml:lang"))
_OTHER = {"ltr": "rtl", "rtl": "ltr"}  # direction -> that of the source
_DIRECTIONS = frozenset(("ltr", "rtl", "auto"))
_NAMING = re.compile(
    r"(?i)\b(?:http-equiv|name|property)\s*=\s*[\"']?"
    r"(?:content-language|language|dc\.language|dcterms\.language|og:locale)(?![\w:.-])"
)
_NAME = re.compile(r"[a-zA-Z][^\s/>]*")
_ATTRIBUTE = re.compile(
    r"[\s/]*([^\s/>=][^\s/>=]*)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>\"'][^\s>]*)))?"
)
_DESCRIBING = re.compile(
    r"(?i)\b(?:name|property)\s*=\s*[\"']?(?:\w+:)?(?:description|title|keywords)\b"
)


def read(name: str, content: bytes, locales: Locales = UNKNOWN) -> TextDocument:
    """Returns the texts of a page, as browsers would show them."""
    markup = tokens(name, content)
    return _document(markup, _attributes(markup), list(_named(markup, locales)))


def read_text(text: str) -> TextDocument:
    """Returns the texts of HTML that is no file: a page, or a fragment. Attributes are left alone.
    """
    return _document(Markup("", text, Encoding(), _paired(text)))


def entries_within(text: str, start: int, end: int) -> list[tuple[Segment, Slot]]:
    """Returns the texts of HTML between two offsets of a text, and its attributes for people."""
    shifted = [
        token._replace(start=token.start + start, end=token.end + start)
        for token in _paired(text[start:end])
    ]
    markup = Markup("", text, Encoding(), shifted)
    return _ordered([*segments(markup, 0, len(shifted), _SYNTAX), *_attributes(markup)])


def _document(
    markup: Markup,
    others: Iterable[tuple[Segment, Slot]] = (),
    changes: Sequence[FileChange] = (),
) -> TextDocument:
    entries = _ordered([*segments(markup, 0, len(markup.tokens), _SYNTAX), *others])
    return TextDocument(markup.text, markup.encoding, entries, changes)


def _ordered(entries: list[tuple[Segment, Slot]]) -> list[tuple[Segment, Slot]]:
    return sorted(entries, key=lambda entry: (entry[1].start, -entry[1].end))


def tokens(name: str, content: bytes) -> Markup:
    """Returns the tokens of a page, in linear time; there is no broken HTML.

    Raises ValueError for a page that is not in the encoding that it declares.
    """
    label = declared(content, _DECLARED, "")
    codecs = [of_browsers(label)] if label else ["utf-8", "cp1252"]
    if codecs[0] == "cp1252":
        codecs.append("latin-1")  # which has all bytes
    text, encoding = decode(name, content, codecs, "xmlcharrefreplace")
    return Markup(name, text, encoding, _paired(text))


def _role(token: Token) -> Role:
    no = _is_kept(token)
    if token.name in _HIDDEN:
        return "hidden"
    if token.name in _OPAQUE or (no and token.name in _INLINE):
        return "opaque"
    if no:
        return "hidden"
    if token.name in ("pre", "textarea"):
        return "preformatted"
    return "inline" if token.name in _INLINE else "block"


def _is_kept(token: Token) -> bool:
    """Returns whether an element says that it is not to be translated."""
    classes = token.attributes.get("class", "").split()
    return token.attributes.get("translate", "").lower() == "no" or "notranslate" in classes


def _escape(text: str) -> str:
    return escape_xml(text).replace("&#13;", "\r")  # line breaks of `pre`


_SYNTAX = Syntax(_role, escape=_escape, unescape=html.unescape)


def _attributes(markup: Markup) -> Iterator[tuple[Segment, Slot]]:
    """Yields the attributes with text for people, outside of what is left alone."""
    after = 0
    for index, token in enumerate(markup.tokens):
        if index < after or token.kind != "start":
            continue
        is_embedded = token.name in _EMBEDDED and not _is_kept(token)
        if _role(token) in ("opaque", "hidden") and not is_embedded:
            after = token.partner
            continue
        if not token.attributes:
            continue
        meta = token.name == "meta" and _DESCRIBING.search(markup.text, token.start, token.end)
        for match in _ATTRIBUTE.finditer(markup.text, token.start + len(token.name) + 1, token.end):
            name, group = match[1].lower(), match.lastindex or 1
            read = name in _READ or (name == "content" and meta)
            if read and group in (2, 3) and not _CODE.search(match[group]):
                text = html.unescape(match[group])
                if has_letters(text):
                    start, end = match.span(group)
                    yield replaced(text, start, end, escape_attribute)


def _named(markup: Markup, locales: Locales) -> Iterator[FileChange]:
    """Yields the changes of the attributes that name language and direction of translated text."""
    page = next((token for token in markup.tokens if token.name == "html"), None)
    if page:
        own = page.attributes.get("lang") or page.attributes.get("xml:lang") or ""
        locales = locales.or_source(own)
    if not locales.differ:
        return
    turned = locales.turned
    if page and turned == "rtl" and page.attributes.get("dir", "").lower() not in _DIRECTIONS:
        yield _page_direction(markup, page)
    after = 0
    for index, token in enumerate(markup.tokens):
        if index < after or token.kind != "start":
            continue
        if _role(token) in ("opaque", "hidden"):
            after = token.partner
            continue
        meta = token.name == "meta" and _NAMING.search(markup.text, token.start, token.end)
        for match in _ATTRIBUTE.finditer(markup.text, token.start + len(token.name) + 1, token.end):
            named = match[1].lower() in _LANGUAGE or (meta and match[1].lower() == "content")
            group = match.lastindex or 1
            if named and group > 1:
                yield FileChange(*match.span(group), locales.renamed(match[group]))
            elif turned and match[1].lower() == "dir" and match[group].lower() == _OTHER[turned]:
                yield FileChange(*match.span(group), turned)


def _page_direction(markup: Markup, page: Token) -> FileChange:
    """Returns the change that makes a page without a valid `dir` run from right to left."""
    end = page.start + len("<html")
    attributes = _ATTRIBUTE.finditer(markup.text, end, page.end)
    named = next((match for match in attributes if match[1].lower() == "dir"), None)
    if named and (group := named.lastindex or 1) > 1:
        return FileChange(*named.span(group), "rtl")
    return FileChange(end, end, ' dir="rtl"')  # of two attributes of a name, the first counts


class _Part(NamedTuple):
    """A token whose partner is not known yet."""

    kind: str
    name: str
    start: int
    end: int
    attributes: dict[str, str]


def _paired(text: str) -> list[Token]:
    """Returns the tokens; an end belongs to the last open start of its name."""
    parts = list(_split(text))
    starts: dict[int, int] = {}  # index of an end -> that of its start
    void: set[int] = set()
    open_: dict[str, list[int]] = {}
    for index, part in enumerate(parts):
        if part.kind == "start":
            if part.name in _VOID or text.endswith("/>", part.start, part.end):
                void.add(index)
            else:
                open_.setdefault(part.name, []).append(index)
        elif part.kind == "end" and open_.get(part.name):
            starts[index] = open_[part.name].pop()
    unclosed = {index for indices in open_.values() for index in indices}
    implied = _implied_ends(parts, starts, unclosed)

    paired: list[Token] = []
    places: dict[int, int] = {}  # index of a start among the parts -> among the tokens

    def add_end(part: _Part, start: int) -> None:
        partner = places[start]
        paired[partner] = paired[partner]._replace(partner=len(paired))
        paired.append(Token("end", *part[1:], partner))

    for index, part in enumerate(parts):
        if index in implied:
            name = parts[implied[index]].name
            add_end(_Part("end", name, part.start, part.start, {}), implied[index])
        if index in starts:
            add_end(part, starts[index])
            continue
        places[index] = len(paired)
        paired.append(Token(*part, -1))
        if index in void:
            add_end(_Part("end", part.name, part.end, part.end, {}), index)
    if len(parts) in implied:
        name = parts[implied[len(parts)]].name
        add_end(_Part("end", name, len(text), len(text), {}), implied[len(parts)])
    return paired


def _implied_ends(
    parts: list[_Part], starts: dict[int, int], unclosed: set[int]
) -> dict[int, int]:
    """Returns before which parts an element ends that is left alone and has no end tag.

    That is where the element around it ends, or the next item, cell or paragraph of its kind
    begins, or the text ends. Other elements without an end tag need no end.
    """
    implied: dict[int, int] = {}
    index = 0
    while index < len(parts):
        part, start = parts[index], index
        index += 1
        if start not in unclosed or _role(Token(*part, -1)) not in ("opaque", "hidden"):
            continue
        while index < len(parts):
            is_same_tag = parts[index].kind == "start" and parts[index].name == part.name
            if starts.get(index, start) < start or (is_same_tag and part.name in _WITHOUT_END):
                break
            index += 1
        implied[index] = start
    return implied


def _split(text: str) -> Iterator[_Part]:
    """Yields the tokens."""
    index, raw = 0, ""
    while index < len(text):
        start = _next(text, index, raw)
        if index < start:
            yield _Part("text", "", index, start, {})
        if start == len(text):
            if raw:
                yield _Part("end", raw, start, start, {})
            return
        closing = text[start + 1] == "/"
        match = _NAME.match(text, start + 1 + closing)
        if match is None:  # a comment, declaration, or code of a template
            code = _CODE.match(text, start)
            index = _after(text, start, _ENDS[code[0]] if code else ">")
            yield _Part("other", "", start, index, {})
            continue
        name, attributes = match[0].lower(), dict[str, str]()
        index = _tag_end(text, match.end(), attributes)
        if index == -1:  # the file ends inside a tag
            yield _Part("other", "", start, len(text), {})
            return
        raw = name if name in _RAW and not closing else ""
        yield _Part("end" if closing else "start", name, start, index, attributes)


def _next(text: str, index: int, raw: str) -> int:
    """Returns where the next markup begins; inside a raw element only its end tag does."""
    if raw:
        end = re.compile(rf"</{raw}(?=[\s/>])", re.IGNORECASE).search(text, index)
        return end.start() if end else len(text)
    match = _MARKUP.search(text, index)
    return match.start() if match else len(text)


_MARKUP = re.compile(r"<(?=[a-zA-Z!?/]|%.{0,2000}?%>)", re.DOTALL)
_ENDS = {"<!--": "-->", "<%": "%>", "<?php": "?>", "<?=": "?>"}  # ERB, EJS, PHP
_CODE = re.compile("|".join(map(re.escape, _ENDS)))


def _after(text: str, start: int, end: str) -> int:
    index = text.find(end, start + 2)
    return len(text) if index == -1 else index + len(end)


def _tag_end(text: str, index: int, attributes: dict[str, str]) -> int:
    """Collects attributes; returns the offset after the tag, -1 for none."""
    while True:
        while index < len(text) and text[index] in " \t\n\r\f/":
            index += 1
        if index == len(text):
            return -1
        if text[index] == ">":
            return index + 1
        match = _ATTRIBUTE.match(text, index)
        if match is None:  # a stray quote or equals sign
            index += 1
            continue
        if text[match.end() : match.end() + 1] == "=":
            value = text[match.end() + 1 : match.end() + 64].lstrip()
            if value[:1] in ('"', "'"):  # it is never closed
                return -1
        name = match[1].lower()
        attributes.setdefault(name, html.unescape(match[2] or match[3] or match[4] or ""))
        index = match.end()
