"""Reads lines as they arrive on a stream, and splits text into sentences or shorter pieces.

`segment_text` splits a text of several lines, and keeps its line breaks and other white space.
`segment` splits a line into sentences with sentencex. `split` cuts a text that is too long for the
model. Corpus files are read by `mmt.data.readers`, which rejects invalid bytes.
"""

import codecs
import functools
import io
import itertools
import re
import select
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import sentencex

from mmt import languages
from mmt.translate import placeholders

# Unicode 15's Sentence_Terminal beyond ASCII, the ellipsis, the Tibetan shad and the Khmer khan.
_TERMINALS = (
    "\u0589\u061d-\u061f\u06d4\u0700-\u0702\u07f9\u0837\u0839\u083d\u083e\u0964\u0965\u0f0d\u0f0e"
    "\u104a\u104b\u1362\u1367\u1368\u166e\u1735\u1736\u17d4\u17d5\u1803\u1809\u1944\u1945"
    "\u1aa8-\u1aab\u1b5a\u1b5b\u1b5e\u1b5f\u1b7d\u1b7e\u1c3b\u1c3c\u1c7e\u1c7f\u2026\u203c\u203d"
    "\u2047-\u2049\u2e2e\u2e3c\u2e53\u2e54\u3002\ua4ff\ua60e\ua60f\ua6f3\ua6f7\ua876\ua877"
    "\ua8ce\ua8cf\ua92f\ua9c8\ua9c9\uaa5d-\uaa5f\uaaf0\uaaf1\uabeb\ufe52\ufe56\ufe57"
    "\uff01\uff0e\uff1f\uff61\U00010a56\U00010a57\U00010f55-\U00010f59\U00010f86-\U00010f89"
    "\U00011047\U00011048\U000110be-\U000110c1\U00011141-\U00011143\U000111c5\U000111c6\U000111cd"
    "\U000111de\U000111df\U00011238\U00011239\U0001123b\U0001123c\U000112a9\U0001144b\U0001144c"
    "\U000115c2\U000115c3\U000115c9-\U000115d7\U00011641\U00011642\U0001173c-\U0001173e"
    "\U00011944\U00011946\U00011a42\U00011a43\U00011a9b\U00011a9c\U00011c41\U00011c42\U00011ef7"
    "\U00011ef8\U00016a6e\U00016a6f\U00016af5\U00016b37\U00016b38\U00016b44\U00016e98\U0001bc9f"
    "\U0001da88"
)
_COMMAS = (
    "\u055d\u060c\u061b\u07f8\u1363-\u1366\u1802\u1808\u3001\ufe50\ufe51\uff0c\uff1a\uff1b\uff64"
)
_CLOSING = "[\"')\\]}\u00bb\u2019\u201d\u203a\u300d\u300f\u3011\u3009\u300b\uff09]*"

# In order of preference. ASCII marks occur in numbers and abbreviations, so a space must follow. A
# full stop after a digit may mark an ordinal ("2. März"). Other marks need no space.
SENTENCE_END = re.compile(rf"(?:[!?]|(?<!\d)\.){_CLOSING}\s+|[{_TERMINALS}]{_CLOSING}\s*")
_BOUNDARIES = (
    SENTENCE_END,
    re.compile(rf"[,;:]{_CLOSING}\s+|[{_COMMAS}]{_CLOSING}\s*"),
    re.compile(r"\s+"),
)
WINDOW = 1024  # lines that are read, sorted by length and translated together
_JOINER = "\u200d"
_LINE_BREAK = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
# Tibetan and Khmer marks that end a sentence, which sentencex does not know.
_UNKNOWN_TO_SENTENCEX = re.compile(r"[\u0f0d\u0f0e\u17d4\u17d5]+\s*")
# sentencex fails on white space of several bytes, and takes no lone surrogates.
_WIDE_SPACE, _SURROGATE = re.compile(r"\s"), re.compile("[\ud800-\udfff]")


class ArrivingLines:
    r"""The lines of a byte stream, available as soon as they arrive.

    Only "\n" and "\r\n" end a line, not U+2028 and the like. The last line may have no end. Invalid
    UTF-8 becomes U+FFFD, with one warning on stderr.
    """

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream = stream
        self._number, self._warned = 0, False

    def __iter__(self) -> Iterator[str]:
        return itertools.chain.from_iterable(self.windows(1))

    def windows(self, max_lines: int) -> Iterator[list[str]]:
        """Yields lists of 1 to `max_lines` lines: those that have arrived, or the next one."""
        lines: list[bytes] = []
        incomplete = b""  # a line whose end has not arrived
        while chunk := self._stream.read1(1 << 16):
            *complete, incomplete = (incomplete + chunk).split(b"\n")
            lines += complete
            while len(lines) >= max_lines or (lines and not self._more_available()):
                yield [self._decode(line) for line in lines[:max_lines]]
                del lines[:max_lines]
        if incomplete:
            lines.append(incomplete)
        for start in range(0, len(lines), max_lines):
            yield [self._decode(line) for line in lines[start : start + max_lines]]

    def _more_available(self) -> bool:
        try:
            return bool(select.select([self._stream], [], [], 0.01)[0])
        except (OSError, ValueError):  # bytes in memory, or a pipe on Windows
            return False

    def _decode(self, line: bytes) -> str:
        self._number += 1
        if self._number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        line = line.removesuffix(b"\r")
        try:
            return line.decode()
        except UnicodeDecodeError:
            if not self._warned:
                warning = f"line {self._number}: invalid UTF-8, replaced by U+FFFD (warned once)"
                print(warning, file=sys.stderr)
            self._warned = True
            return line.decode(errors="replace")


def arriving_lines(stream: io.BufferedIOBase) -> ArrivingLines:
    """Returns the lines of a byte stream such as `sys.stdin.buffer`, translated as they arrive."""
    return ArrivingLines(stream)


class SegmentedText(NamedTuple):
    """The sentences of a text, and the gaps around them.

    Attributes:
        sentences: the sentences, without white space at their ends.
        gaps: the text before the first sentence, between sentences, and after the last one: white
            space, lines and sentences without a letter or digit, and placeholders that do not fit
            the model.
    """

    sentences: tuple[str, ...]
    gaps: tuple[str, ...]

    @property
    def text(self) -> str:
        """Returns the text."""
        parts = itertools.zip_longest(self.gaps, self.sentences, fillvalue="")
        return "".join(itertools.chain.from_iterable(parts))

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Returns start and end of each sentence in the text."""
        spans, end = [], 0
        for gap, sentence in zip(self.gaps, self.sentences, strict=False):
            spans.append((end + len(gap), end := end + len(gap) + len(sentence)))
        return spans

    def replaced(self, translations: Sequence[str], *, separator: str = " ") -> "SegmentedText":
        """Returns the text with each sentence replaced by its translation.

        `separator` stands between sentences that have no white space between them, as in Chinese.
        """
        if len(translations) != len(self.sentences):
            raise ValueError(
                f"{len(translations)} translations of {len(self.sentences)} sentences"
            )
        first, *inner = self.gaps[: len(self.sentences)] or self.gaps
        between = (gap if has_space(gap) else gap + separator for gap in inner)
        last = self.gaps[1:][-1:]
        return SegmentedText(tuple(map(str.strip, translations)), (first, *between, *last))

    def join(self, translations: Sequence[str], *, separator: str = " ") -> str:
        """Returns the text of `replaced`."""
        return self.replaced(translations, separator=separator).text


def segment_text(
    text: str,
    language: str = "",
    *,
    fits: Callable[[str], bool] | None = None,
    whole_lines: bool = False,
) -> SegmentedText:
    r"""Returns the sentences of a text of lines and paragraphs.

    Args:
        text: the text. A line break of Unicode ends a sentence, and so does a tab, because models
            write neither.
        language: any name of its language, which decides where sentences end.
        fits: whether a sentence fits the model; others are cut by `split`. Placeholders that do not
            fit by themselves are not translated.
        whole_lines: whether each line is one sentence.

    >>> text = segment_text("One. Two!\n* * *\n  Three?\n")
    >>> text.sentences
    ('One.', 'Two!', 'Three?')
    >>> text.join(["Eins.", "Zwei!", "Drei?"])
    'Eins. Zwei!\n* * *\n  Drei?\n'
    """
    sentences: list[str] = []
    gaps: list[str] = []
    end = place = 0
    for line in filter(has_words, _LINE_BREAK.split(text)):
        for part in [line] if whole_lines else segment(line, language):
            for piece, is_sentence in _pieces(part.strip(), fits):
                if has_words(piece):
                    place = text.index(piece, place)  # nothing with words is skipped
                    if is_sentence:
                        gaps.append(text[end:place])
                        sentences.append(piece)
                        end = place + len(piece)
                    place += len(piece)
    return SegmentedText(tuple(sentences), (*gaps, text[end:]))


def has_words(text: str) -> bool:
    """Returns whether a text has a letter or digit. A text without one is never translated."""
    return any(map(str.isalnum, text))


def has_space(text: str) -> bool:
    """Returns whether a text has white space."""
    return any(map(str.isspace, text))


def windows(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yields windows of up to `WINDOW` lines; `ArrivingLines` as they arrive."""
    if isinstance(lines, ArrivingLines):
        yield from lines.windows(WINDOW)
        return
    iterator = iter(lines)
    while window := list(itertools.islice(iterator, WINDOW)):
        yield window


def segment(text: str, language: str = "") -> list[str]:
    """Splits a text without line breaks into sentences; together they are the text.

    White space belongs to the sentence before it. No sentence ends inside a placeholder, a URL or
    code. A language that sentencex does not know has the rules of English.

    >>> segment("Am 2. März kam Dr. Müller. Er ging.", "German")
    ['Am 2. März kam Dr. Müller. ', 'Er ging.']
    """
    plain = _SURROGATE.sub("\ufffd", _WIDE_SPACE.sub(" ", text))
    parts = sentencex.segment(_sentencex_code(language), plain)
    ends = set(itertools.accumulate(map(len, parts)))
    ends |= {match.end() for match in _UNKNOWN_TO_SENTENCEX.finditer(plain)}
    for start, end in placeholders.spans(text):
        ends -= set(range(start + 1, end))
    return [text[start:end] for start, end in itertools.pairwise(sorted({0, *ends})) if end]


def split(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Splits `text` into pieces that fit, stripped of white space; only white space is lost.

    A text that does not fit is split in two, as near to its middle as possible: after a sentence,
    else after a comma or a similar mark, else at a space, else between two characters (for scripts
    without spaces). A placeholder is only cut if it does not fit by itself. `fits` must be true of
    single characters.

    >>> split("One two. Three, four? Five.", lambda piece: len(piece) <= 12)
    ['One two.', 'Three, four?', 'Five.']
    """
    text = text.strip()
    if fits(text):
        return [text] if text else []
    assert len(text) > 1, f"{text!r} does not fit"
    boundary = _boundary(text)
    return split(text[:boundary], fits) + split(text[boundary:], fits)


@functools.cache
def _sentencex_code(language: str) -> str:
    """Returns the code that sentencex has for a language, given by any name."""
    if not language:
        return "en"
    language_entry = languages.find(language)
    return language_entry.iso1 or language_entry.iso3


def _pieces(sentence: str, fits: Callable[[str], bool] | None) -> Iterator[tuple[str, bool]]:
    """Yields the pieces of a sentence that fit, and (False) the placeholders that do not."""
    if fits is None or fits(sentence):
        yield sentence, True
        return
    end = 0
    for start, next_end in [*placeholders.spans(sentence), (len(sentence), len(sentence))]:
        if start == next_end or not fits(sentence[start:next_end]):
            yield from ((piece, True) for piece in split(sentence[end:start], fits))
            yield sentence[start:next_end], False
            end = next_end


def _boundary(text: str) -> int:
    """Returns where to split: 0 < index < len(text)."""
    inside = {i for start, end in placeholders.spans(text) for i in range(start + 1, end)}
    for pattern in _BOUNDARIES:
        ends = {match.end() for match in pattern.finditer(text)} - {len(text)} - inside
        if ends:
            return min(ends, key=lambda end: (abs(2 * end - len(text)), end))
    middle = len(text) // 2
    places = [*range(middle, len(text)), *range(middle - 1, 0, -1)]
    return next((i for i in places if i not in inside and not _inside_letter(text, i)), middle)


def _inside_letter(text: str, index: int) -> bool:
    """Returns whether the character at `index` modifies the previous one: accents, joined emoji."""
    after = text[index]
    return after == _JOINER or text[index - 1] == _JOINER or unicodedata.category(after)[0] == "M"
