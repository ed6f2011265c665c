"""Plain text and subtitles (SRT, WebVTT): a line, or the text of a cue, is a segment."""

import functools
import html
import re
import unicodedata
from collections.abc import Callable, Iterator

from mmt.documents import words
from mmt.documents.document import (
    FileChange,
    MarkedText,
    Render,
    Segment,
    Slot,
    Tag,
    TextDocument,
    has_letters,
    replaced,
)
from mmt.documents.encoding import decode
from mmt.documents.inline import writer
from mmt.documents.named import UNKNOWN, Locales
from mmt.documents.tokens import escape_xml

_TIME = r"(?:\d+:)?\d{1,2}:\d\d[.,]\d{1,3}"
_LANGUAGE = re.compile(r"WEBVTT.*\r?\n(?:[\w-]+:.*\r?\n)*?Language:[ \t]*([\w-]+)[ \t]*\r?$", re.M)
_TIMING = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}")
_SPEAKER = re.compile(r"\s*[-–—]\s*")
_OPENING = ("Ps", "Pi")  # categories of punctuation
# Small kana, and vowels of Thai and Lao behind or before their consonant.
_NOT_FIRST = frozenset("ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶะาำๅະາຳ")
_NOT_LAST = frozenset("เแโใไເແໂໃໄ")
_TAG = re.compile(r"<[^<>\n]*>|\{\\[^{}\n]*\}")  # of both formats; {\an8} is a position


def read(name: str, content: bytes) -> TextDocument:
    """Returns the lines of a text."""
    text, encoding = decode(name, content)
    entries = []
    for start, line in _lines(text):
        stripped = line.strip()
        if has_letters(stripped):
            start += line.index(stripped)
            entries.append(replaced(stripped, start, start + len(stripped)))
    return TextDocument(text, encoding, entries)


def read_subtitles(name: str, content: bytes, locales: Locales = UNKNOWN) -> TextDocument:
    """Returns the cues of subtitles; a cue's lines are one segment, written on as many lines.

    Raises:
      ValueError: no cue has a time.
    """
    is_western = not locales.source or locales.source.endswith("_Latn")
    text, encoding = decode(name, content, ("utf-8", "cp1252") if is_western else ("utf-8",))
    escaped = name.lower().endswith(".vtt")
    entries: list[tuple[Segment, Slot]] = []
    cue: list[tuple[int, int]] | None = None  # the lines of the current cue
    timed = False
    for start, line in [*_lines(text), (len(text), "")]:
        if _TIMING.match(line):
            if cue and text[slice(*cue[-1])].strip().isdecimal():
                cue.pop()  # the number of this cue: no empty line is before it
            entries += _cue(text, cue or [], escaped)
            cue, timed = [], True
        elif line.strip() and cue is not None:
            cue.append((start, start + len(line.rstrip())))
        elif cue is not None:
            entries += _cue(text, cue, escaped)
            cue = None
    if not timed and text.strip() not in ("", "WEBVTT"):
        raise ValueError(f"{name}: no cue has a time, as 00:00:01,000 --> 00:00:02,500")
    return TextDocument(text, encoding, entries, list(_named(text, locales)) if escaped else ())


def _named(text: str, locales: Locales) -> Iterator[FileChange]:
    """Yields the change of the language in the head of WebVTT, as players write it."""
    match = _LANGUAGE.match(text)
    if match:
        yield FileChange(*match.span(1), locales.or_source(match[1]).renamed(match[1]))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields the lines without their line feeds, each after its offset."""
    start = 0
    for line in text.split("\n"):
        yield start, line
        start += len(line) + 1


def _cue(text: str, lines: list[tuple[int, int]], escaped: bool) -> Iterator[tuple[Segment, Slot]]:
    """Yields the segments of a cue: of a dialogue ("- Yes." "- No."), one per line."""
    spoken = [_SPEAKER.match(text, start, end) for start, end in lines]
    groups = [lines] if lines else []
    if sum(map(bool, spoken)) > 1:
        groups = [[(dash.end() if dash else start, end)]
                  for (start, end), dash in zip(lines, spoken, strict=True)]  # fmt: skip
    for group in groups:
        start, end = group[0][0], group[-1][1]
        raw = text[start:end]
        start += len(raw) - len(raw.lstrip())
        source = _marked(text[start:end], start, escaped)
        if has_letters(source.text):
            breaks = re.findall(r"\r?\n", raw)
            write = functools.partial(_on_lines, breaks, escape_xml if escaped else str)
            yield Segment(source), Slot(start, end, write, source)


def _marked(raw: str, offset: int, escaped: bool) -> MarkedText:
    """Returns the text of a cue on one line; tags stand alone or in pairs."""
    parts, tags, position, length = [], [], 0, 0
    open_: list[tuple[str, int]] = []
    for match in _TAG.finditer(raw):
        part = _one_line(raw[position : match.start()], escaped)
        parts.append(part)
        length, position = length + len(part), match.end()
        name = re.match(r"</?([a-z]+)", match[0])
        tags.append(Tag(length, "alone", match[0], offset + match.start()))
        if name and match[0][1] != "/":
            open_.append((name[1], len(tags) - 1))
        elif name and open_ and open_[-1][0] == name[1]:
            begin = open_.pop()[1]
            tags[begin] = tags[begin]._replace(kind="start")
            tags[-1] = tags[-1]._replace(kind="end")
    parts.append(_one_line(raw[position:], escaped))
    return MarkedText("".join(parts), tuple(tags))


def _one_line(raw: str, escaped: bool) -> str:
    text = re.sub(r"[ \t]*\r?\n[ \t]*", " ", raw)
    return html.unescape(text) if escaped else text


def _on_lines(
    breaks: list[str], escape: Callable[[str], str], translation: MarkedText, render: Render
) -> str:
    """Returns a translation on as many lines as the cue had, of similar length."""
    length = len(translation.text) / (len(breaks) + 1)
    for number in range(1, len(breaks) + 1):
        translation = _broken(translation, length * number, length / 2)
    written = writer(escape)(translation, render)
    return written.replace("\n", breaks[0]) if breaks else written


def _broken(translation: MarkedText, ideal: float, reach: float) -> MarkedText:
    """Returns a text with one more line break: for a space, else where the script has no spaces.

    There it is behind punctuation within reach of the ideal place, else nearest to that.
    """
    text, tags = translation
    spaces = [i for i, character in enumerate(text) if character == " "]
    places = [i for i in range(1, len(text)) if _may_break(text, i)]
    marks = [i for i in places if unicodedata.category(text[i - 1])[0] == "P"]
    near = ([i for i in each if abs(i - ideal) <= reach] for each in (spaces, marks))
    candidates = next(filter(None, (*near, places, spaces)), None)
    if candidates is None:
        return translation
    place = min(candidates, key=lambda i: abs(i - ideal))
    if text[place] == " ":
        return translation._replace(text=f"{text[:place]}\n{text[place + 1 :]}")
    behind = (n for n, tag in enumerate(tags) if tag.position > place - (tag.kind != "end"))
    first = next(behind, len(tags))
    moved = (tag._replace(position=tag.position + 1) for tag in tags[first:])
    return MarkedText(f"{text[:place]}\n{text[place:]}", (*tags[:first], *moved))


def _may_break(text: str, place: int) -> bool:
    """Returns whether a line may end before a character of a script without spaces, or behind one.
    """
    both = before, after = text[place - 1], text[place]
    kinds = [unicodedata.category(each) for each in both]
    return (
        any(words.is_unspaced(each) or unicodedata.east_asian_width(each) in "WF" for each in both)
        and not all("\uac00" <= each <= "\ud7a3" for each in both)  # Korean has spaces
        and not (before.isspace() or after.isspace() or words.goes_on(text, place))
        and (kinds[1][0] != "P" or kinds[1] in _OPENING)
        and not (kinds[0] in _OPENING or before in _NOT_LAST or unicodedata.combining(before) == 9)
        and not (kinds[1] == "Lm" or after in _NOT_FIRST)
    )
