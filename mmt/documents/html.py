"""HTML: its tokens as the HTML standard finds them, and the texts to translate.

Text of blocks is translated with its inline markup, and so are the attributes that people read.
Scripts, styles, code and elements with `translate="no"` are left alone.
"""

import html
import re
from collections.abc import Iterator

from mmt.documents.document import Segment, Slot, TextDocument, has_letters, replaced
from mmt.documents.encoding import declared, decode
from mmt.documents.inline import Role, Syntax, segments
from mmt.documents.tokens import Markup, Token, escape_attribute, escape_xml

_DECLARED = rb"<(?:meta\b[^>]*\bcharset|\?xml[^>]*\bencoding)\s*=\s*[\"']?([\w.:-]+)"
_INLINE = frozenset(
    "a abbr acronym b bdi bdo big button cite data del dfn em font i img input ins label mark map "
    "nobr object output picture q rp rt ruby s small source span strike strong sub sup svg time tt "
    "u wbr area audio video canvas embed iframe meter progress select math".split()
)
_OPAQUE = frozenset("code kbd samp var svg math audio video canvas object".split())
_HIDDEN = frozenset("script style template xmp noembed noframes".split())
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_RAW = frozenset("script style xmp iframe noembed noframes textarea title".split())
_READ = frozenset("alt title placeholder aria-label label summary".split())  # attributes
_NAME = re.compile(r"[a-zA-Z][^\s/>]*")
_ATTRIBUTE = re.compile(
    r"[\s/]*([^\s/>=][^\s/>=]*)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>\"'][^\s>]*)))?"
)
_DESCRIBING = re.compile(
    r"(?i)\b(?:name|property)\s*=\s*[\"']?(?:\w+:)?(?:description|title|keywords)\b"
)


def read(name: str, content: bytes) -> TextDocument:
    """Returns the texts of a page, as browsers would show them."""
    markup = tokens(name, content)
    entries = [*segments(markup, 0, len(markup.tokens), _SYNTAX), *_attributes(markup)]
    entries.sort(key=lambda entry: (entry[1].start, -entry[1].end))
    return TextDocument(markup.text, markup.encoding, entries)


def tokens(name: str, content: bytes) -> Markup:
    """Returns the tokens of a page, in linear time; there is no broken HTML."""
    text, encoding = decode(
        name, content, (declared(content, _DECLARED), "utf-8", "cp1252"), "xmlcharrefreplace"
    )
    return Markup(name, text, encoding, _paired(text))


def _role(token: Token) -> Role:
    no = token.attributes.get("translate") == "no" or "notranslate" in token.attributes.get(
        "class", ""
    )
    if token.name in _HIDDEN:
        return "hidden"
    if token.name in _OPAQUE or (no and token.name in _INLINE):
        return "opaque"
    if no:
        return "hidden"
    if token.name in ("pre", "textarea"):
        return "preformatted"
    return "inline" if token.name in _INLINE else "block"


def _escape(text: str) -> str:
    return escape_xml(text).replace("&#13;", "\r")  # line breaks of `pre`


_SYNTAX = Syntax(_role, escape=_escape, unescape=html.unescape)


def _attributes(markup: Markup) -> Iterator[tuple[Segment, Slot]]:
    """Yields the attributes with text for people."""
    for token in markup.tokens:
        if token.kind != "start" or not token.attributes:
            continue
        meta = token.name == "meta" and _DESCRIBING.search(markup.text, token.start, token.end)
        for match in _ATTRIBUTE.finditer(markup.text, token.start + len(token.name) + 1, token.end):
            name, group = match[1].lower(), match.lastindex or 1
            read = name in _READ or (name == "content" and meta)
            if read and group in (2, 3):
                text = html.unescape(match[group])
                if has_letters(text):
                    start, end = match.span(group)
                    yield replaced(text, start, end, escape_attribute)


def _paired(text: str) -> list[Token]:
    """Returns the tokens; an end belongs to the last open start of its name."""
    found: list[Token] = []
    open_: dict[str, list[int]] = {}
    for kind, name, start, end, attributes in _split(text):
        partner = -1
        if kind == "end" and open_.get(name):
            partner = open_[name].pop()
            found[partner] = found[partner]._replace(partner=len(found))
        found.append(Token(kind, name, start, end, attributes, partner))
        if kind == "start":
            if name in _VOID or text.endswith("/>", start, end):
                found[-1] = found[-1]._replace(partner=len(found))
                found.append(Token("end", name, end, end, {}, len(found) - 1))
            else:
                open_.setdefault(name, []).append(len(found) - 1)
    return found


def _split(text: str) -> Iterator[tuple[str, str, int, int, dict[str, str]]]:
    """Yields kind, name, start, end and attributes of each token."""
    here, raw = 0, ""
    while here < len(text):
        start = _next(text, here, raw)
        if here < start:
            yield "text", "", here, start, {}
        if start == len(text):
            if raw:
                yield "end", raw, start, start, {}
            return
        closing = text[start + 1] == "/"
        match = _NAME.match(text, start + 1 + closing)
        if match is None:  # a comment or declaration
            here = _after(text, start, "-->" if text.startswith("<!--", start) else ">")
            yield "other", "", start, here, {}
            continue
        name, attributes = match[0].lower(), dict[str, str]()
        here = _tag_end(text, match.end(), attributes)
        if here == -1:  # the file ends inside a tag
            yield "other", "", start, len(text), {}
            return
        raw = name if name in _RAW and not closing else ""
        yield ("end" if closing else "start"), name, start, here, attributes


def _next(text: str, here: int, raw: str) -> int:
    """Returns where the next markup begins; inside a raw element only its end tag does."""
    if raw:
        end = re.compile(rf"</{raw}(?=[\s/>])", re.IGNORECASE).search(text, here)
        return end.start() if end else len(text)
    match = _MARKUP.search(text, here)
    return match.start() if match else len(text)


_MARKUP = re.compile(r"<(?=[a-zA-Z!?/])")


def _after(text: str, start: int, end: str) -> int:
    place = text.find(end, start + 2)
    return len(text) if place == -1 else place + len(end)


def _tag_end(text: str, here: int, attributes: dict[str, str]) -> int:
    """Collects attributes; returns the offset after the tag, -1 for none."""
    while True:
        while here < len(text) and text[here] in " \t\n\r\f/":
            here += 1
        if here == len(text):
            return -1
        if text[here] == ">":
            return here + 1
        match = _ATTRIBUTE.match(text, here)
        if match is None:  # a stray quote or equals sign
            here += 1
            continue
        if text[match.end() : match.end() + 1] == "=":
            value = text[match.end() + 1 : match.end() + 64].lstrip()
            if value[:1] in ('"', "'"):  # it is never closed
                return -1
        name = match[1].lower()
        attributes.setdefault(name, html.unescape(match[2] or match[3] or match[4] or ""))
        here = match.end()
