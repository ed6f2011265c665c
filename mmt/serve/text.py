"""Texts as parts: sentences that are translated, and all between them, which is kept.

Line breaks, and the white space between sentences and around them, are kept. `mmt.serve.html_text`
makes the parts of HTML.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mmt.serve.scheduler import Sentence

_BREAKS = re.compile("(\\s*[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]\\s*)")

# Splits a line without line breaks into sentences, stripped; only white space lies between them.
Split = Callable[[str], list[Sentence]]


class SentenceSlot(NamedTuple):
    """A sentence of a text, and its place in the text."""

    sentence: Sentence
    start: int
    end: int


@dataclass(frozen=True)
class Text:
    """A text in parts.

    Attributes:
        parts: what is kept, and the slots of what is translated.
        write: returns a translation as the text has it (HTML escapes it).
    """

    parts: list[str | SentenceSlot]
    write: Callable[[str], str] = str

    @property
    def slots(self) -> list[SentenceSlot]:
        """Returns the slots, in order."""
        return [part for part in self.parts if isinstance(part, SentenceSlot)]

    def fill(self, translations: Mapping[Sentence, str]) -> str:
        """Returns the text with the translations of its sentences."""
        return "".join(
            self.write(translations[part.sentence]) if isinstance(part, SentenceSlot) else part
            for part in self.parts
        )


def plain(text: str, split: Split) -> Text:
    r"""Returns the parts of plain text.

    >>> parts = plain("Ja.\n\n Nein. ", lambda line: [Sentence((), line, 1)]).parts
    >>> [part if isinstance(part, str) else part.sentence.text for part in parts]
    ['Ja.', '\n\n ', 'Nein.', ' ']
    """
    parts: list[str | SentenceSlot] = []
    start = 0
    for i, line in enumerate(_BREAKS.split(text)):
        parts += [line] if i % 2 else line_parts(line, split, start)
        start += len(line)
    return Text([part for part in parts if part != ""])


def line_parts(line: str, split: Split, start: int = 0) -> Iterator[str | SentenceSlot]:
    """Yields the parts of a line that begins at `start` of its text.

    A line without a letter or digit is kept.
    """
    end = 0
    content = line.strip() if any(map(str.isalnum, line)) else ""
    for i, sentence in enumerate(split(content) if content else ()):
        begin = line.index(sentence.text, end)
        # Scripts without spaces need one in the translation.
        yield line[end:begin] or (" " if i else "")
        end = begin + len(sentence.text)
        yield SentenceSlot(sentence, start + begin, start + end)
    yield line[end:]
