"""Markdown (CommonMark with tables): the text of paragraphs, headings, lists and table cells.

Code, formulas and the targets of links are left alone. The lines of a paragraph are one segment,
which is written on one line. markdown-it-py finds the blocks; blocks of HTML are read as HTML.
"""

import functools
import html
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

from mmt.documents import front_matter
from mmt.documents.document import MarkedText, Render, Segment, Slot, Tag, TextDocument, has_letters
from mmt.documents.encoding import decode
from mmt.documents.html import entries_within as html_entries
from mmt.documents.inline import writer

_LONGEST = 500  # characters of inline markup, so that a lone bracket costs little
_LABEL = rf"\[[^\[\]]{{0,{_LONGEST}}}\]"
_URL = r"\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*+\))*+\)"  # with parentheses in pairs
_IMAGE = rf"!{_LABEL}(?:{_URL}|{_LABEL})"
_ALT = re.compile(rf"!\[(?P<alt>[^\[\]]{{1,{_LONGEST}}})\]{_URL}")
_VERBATIM = (  # a link without brackets, or code of a template such as {{ name | upcase }}
    r"(?P<verbatim>(?i:https?://|www\.)[^\s<>*`\[\]|]*[^\W_]"
    rf"|\{{\{{.{{0,{_LONGEST}}}?\}}\}}|\{{%.{{0,{_LONGEST}}}?%\}})"
)
_INLINE = re.compile(
    rf"{_VERBATIM}"
    r"|(?P<escape>\\[!-/:-@\[-`{-~])"
    rf"|(?P<alone>(?P<ticks>`+)(?!`).{{1,{_LONGEST}}}?(?<!`)(?P=ticks)(?!`)"  # code
    rf"|(?i:<(?P<code>code|kbd|samp|var)\b[^<>]*+>.{{0,{_LONGEST}}}?</(?P=code)>)"
    rf"|</?[a-zA-Z][^<>]*+>|<!--.{{0,{_LONGEST}}}?-->|<[a-z]+:[^<>\s]++>"
    rf"|\$\$.{{1,{_LONGEST}}}?\$\$|\$(?![\s$])[^$]{{0,{_LONGEST}}}?(?<!\s)\$(?!\d)"  # a formula
    rf"|{_IMAGE}|\[{_IMAGE}\](?:{_URL}|{_LABEL})|\[\^[^\s\[\]]{{1,{_LONGEST}}}\])"  # [^footnote]
    rf"|(?P<start>!?\[(?!\^)(?=(?P<label>(?:\\.|[^\[\]\\]){{0,{_LONGEST}}})\](?P<target>[(\[]?)))"
    rf"|(?P<end>\](?:{_URL}|{_LABEL})?)"
    r"|(?P<emphasis>\*{1,3}|~~|(?<![^\W_])_{1,3}|_{1,3}(?![^\W_]))"
)
_SPECIAL = re.compile(
    rf"{_VERBATIM}"
    r"|(?P<pipe>\|)|[*`]|\](?=[(\[:])|<(?=[a-zA-Z/!?])|~(?=~)|(?<=~)~|\\(?=[!-/:-@\[-`{-~]|\Z)"
    r"|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)"
)
_LINE_BREAK = re.compile(r"\r\n?|\n")  # markdown-it's
_NOTE = re.compile(r"\[\^[^\s\[\]]+\]:|:(?=\s)")  # the beginning of a footnote or definition
_DIRECTIVE = re.compile(  # :::note[Title], :::note Title, !!! note "Title", ??? note, === "Tab"
    r":{3,}[ \t]*(?:\{[^{}\n]*\}|[\w-]*)(?:\[(?=[^\[\]\n]*\][ \t]*$)|[ \t]+|$)"
    r"|(?:!!!|\?\?\?\+?)[ \t]+[a-z][\w -]*(?:\"(?=[^\"\n]*\"[ \t]*$)|$)"
    r"|===[!+]?[ \t]+\"(?=[^\"\n]*\"[ \t]*$)",
    re.MULTILINE,
)
_MARKER = re.compile(  # of a task, a footnote, a definition, or an alert such as [!NOTE]
    rf"(?:\[[ xX]\]|{_NOTE.pattern}|\[![\w-]+\][+-]?)(?:\s+|\Z)|{_DIRECTIVE.pattern}",
    re.MULTILINE,
)
_HAS_BODY = re.compile(rf"(?!:::)(?:{_NOTE.pattern}|{_DIRECTIVE.pattern})", re.MULTILINE)
_NESTED = 10  # indented bodies inside one another that are read
_BLOCK_START = re.compile(r"(?:[#>+=-]|\d{1,9}(?=[.)]))(?=.)")


def read(name: str, content: bytes) -> TextDocument:
    """Returns the texts of a Markdown file."""
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        message = f"{name}: reading it needs markdown-it-py: pip install 'mmt[files]'"
        raise ValueError(message) from None
    text, encoding = decode(name, content)
    front, entries = front_matter.read(text)
    ends = [match.end() for match in _LINE_BREAK.finditer(text)]
    body = "\n" * sum(end <= front for end in ends) + text[front:]
    starts = [0, *ends, len(text) + 1]
    cursor, in_cell = 0, False
    environment: dict[str, Any] = {}
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for token in _tokens(parser, body, environment, _NESTED):
        if token.type == "tr_open" and token.map:
            cursor = starts[token.map[0]]
        elif token.type in ("th_open", "td_open"):
            in_cell = True
        elif token.type == "inline" and token.map:
            if in_cell:
                cell = token.content.replace("|", "\\|")
                start = text.find(cell, cursor)
                places = [(start, start + len(cell))]
                cursor = places[0][1]
            else:
                places = _places(text, starts, token.map[0], token.content)
            for group in _hard_lines(text, places):
                entries += _segment(text, group, environment.get("references", ()), in_cell)
        elif token.type == "html_block" and token.map:
            start, end = starts[token.map[0]], min(starts[token.map[1]], len(text))
            if token.content.split() == text[start:end].split():  # it is in no block quote
                entries += html_entries(text, start, end)
        else:
            in_cell = False
    return TextDocument(text, encoding, entries)


def _tokens(parser: Any, body: str, environment: dict[str, Any], depth: int) -> Iterator[Any]:
    """Yields the tokens of a text, and those of the indented bodies of notes and admonitions.

    To CommonMark such a body is code.
    """
    has_body = False
    for token in parser.parse(body, environment):
        if token.type == "code_block" and has_body and depth:
            indented = "\n" * token.map[0] + token.content
            yield from _tokens(parser, indented, environment, depth - 1)
            continue
        if token.type == "inline":
            has_body = bool(_HAS_BODY.match(token.content))
        elif token.type != "paragraph_close":
            has_body = False
        yield token


def _places(text: str, starts: list[int], first: int, content: str) -> list[tuple[int, int]]:
    """Returns where the lines of a block stand, behind their markers.

    markdown-it strips white space of any kind, so lines before its content may be missing there.
    """
    lines = [line.strip() for line in content.split("\n")]
    while any(text.find(x, starts[n], starts[n + 1]) < 0 for n, x in enumerate(lines, first)):
        first += 1
    found = []
    for number, words in enumerate(lines, first):
        start = text.rfind(words, starts[number], starts[number + 1])
        found.append((start, start + len(words)))
    return found


def _hard_lines(text: str, places: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Yields the lines up to each hard line break, and those of each note, definition and alert."""
    group: list[tuple[int, int]] = []
    for start, end in places:
        directive = _DIRECTIVE.match(text, start, end)
        if group and (directive or _NOTE.match(text, start, end)):
            yield group
            group = []
        backslashes = end - start - len(text[start:end].rstrip("\\"))
        broken = backslashes % 2 == 1 and text[end : end + 1] in ("\r", "\n")
        group.append((start, end - broken))
        alert = text.startswith("[!", start) and _MARKER.match(text, start, end)
        if broken or alert or directive or text.startswith("  ", end):
            yield group
            group = []
    if group:
        yield group


def _segment(
    text: str, places: list[tuple[int, int]], references: Collection[str], in_cell: bool
) -> Iterator[tuple[Segment, Slot]]:
    marker = _MARKER.match(text, *places[0])
    quote = marker[0][-1:] if marker else ""
    if marker:
        end = places[0][1] - (quote in ("[", '"'))  # of the title of a directive
        places = [(marker.end(), end), *places[1:]]
    raw = " ".join(text[start:end] for start, end in places)
    source = _marked(raw, references)
    # Elsewhere a pipe is text: escaped, it can make a heading the head of a table.
    escape = functools.partial(_escape, in_cell or r"\|" in raw)
    start, end = places[0][0], places[-1][1]
    if has_letters(source.text):
        at_start = text.rfind("\n", 0, start) + 1 == start or text[start - 1 : start] != "|"
        write = functools.partial(_write, escape, at_start, quote)
        yield Segment(source), Slot(start, end, write, source)
        return
    for image in _ALT.finditer(text, start, end):  # images without text around them
        source = _marked(image["alt"], references)
        if has_letters(source.text):
            write = functools.partial(_write, escape, False, "")
            yield Segment(source), Slot(*image.span("alt"), write, source)


def _write(
    escape: Callable[[str], str],
    at_start: bool,
    quote: str,
    translation: MarkedText,
    render: Render,
) -> str:
    if quote == '"':
        translation = translation._replace(text=translation.text.replace('"', "'"))
    written = writer(escape)(_without_empty_pairs(translation), render)
    if at_start and _BLOCK_START.match(written):
        digits = len(written) - len(written.lstrip("0123456789"))
        written = f"{written[:digits]}\\{written[digits:]}"
    return written


def _without_empty_pairs(text: MarkedText) -> MarkedText:
    """Returns a text without emphasis of nothing, which would be read as asterisks."""
    tags: list[Tag] = []
    for tag in text.tags:
        started = tags and tag.kind == "end" and tags[-1]
        if started and started.kind == "start" and started[0::2] == tag[0::2]:
            tags.pop()
        else:
            tags.append(tag)
    return text._replace(tags=tuple(tags))


def _escape(pipes: bool, text: str) -> str:
    def escaped(match: re.Match[str]) -> str:
        is_text = match["verbatim"] or (match["pipe"] and not pipes)
        return match[0] if is_text else f"\\{match[0]}"

    return _SPECIAL.sub(escaped, text)


def _marked(raw: str, references: Collection[str]) -> MarkedText:
    """Returns the text of a paragraph with its inline markup as tags.

    A link without a target, as [text] or [text][], names its reference itself. Its end tag is then
    ][text], so that the link stays when its text is translated.
    """
    from markdown_it.common.utils import normalizeReference

    parts: list[str] = []
    tags: list[Tag] = []
    open_: dict[str, int] = {}  # marker -> index of its start among the tags, in order
    label = ""  # of the open link
    position = length = 0
    for match in _INLINE.finditer(raw):
        kind, marker = match.lastgroup, match[0]
        if match["alone"]:
            kind = "alone"
        before, after = raw[: match.start()][-1:], raw[match.end() :][:1]
        opens, closes = bool(after.strip()), bool(before.strip())
        if kind == "emphasis" and not (opens or closes):
            continue  # a lone asterisk is text
        if kind == "verbatim":
            continue
        if kind == "start":
            is_shortcut = not match["target"] or raw.startswith("[]", match.start("target"))
            if is_shortcut and normalizeReference(match["label"]) not in references:
                continue
            label = match["label"]
        if marker == "]" and "[" not in open_:
            continue
        part = html.unescape(raw[position : match.start()])
        position = match.end()
        if kind == "escape":
            parts.append(part + marker[1])
            length += len(part) + 1
            continue
        parts.append(part)
        length += len(part)
        tags.append(Tag(length, "alone", marker))
        name = "[" if kind in ("start", "end") else marker
        if name in open_ and (kind == "end" or (kind == "emphasis" and closes)):
            start = open_.pop(name)
            for inner in [other for other, index in open_.items() if index > start]:
                del open_[inner]  # it crosses this pair
            tags[start] = tags[start]._replace(kind="start")
            end = f"][{label}]" if marker in ("]", "][]") else marker
            tags[-1] = tags[-1]._replace(kind="end", markup=end)
        elif kind == "start" or (kind == "emphasis" and opens):
            open_[name] = len(tags) - 1
    parts.append(html.unescape(raw[position:]))
    return MarkedText("".join(parts), tuple(tags))
