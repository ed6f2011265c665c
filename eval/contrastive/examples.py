"""Contrastive examples from documents: references, and the same with a wrong pronoun or name."""

import functools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from eval.records.contrastive import NAME, PRONOUNS
from eval.testsets import Sentences
from mmt import suggest
from mmt.translate.context import History, SentenceInContext

_PRONOUN = re.compile(r"\b([Hh]e|[Ss]he|[Ii]t)\b")  # IT may be information technology
_OTHER_PRONOUN = re.compile(r"\b(him|his|her|hers|its|himself|herself|itself)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_SENTENCE_START = re.compile(r"(?:^|[.!?:;…\"'“”‘’«»()\[\]–—-])\s*$")  # a capital says nothing
_NAME_LETTERS = 3  # of a name, at least
_NEAR, _NEAREST = 0.5, 8  # similarity and number of the names that may replace another


class ContrastiveExample(NamedTuple):
    """A sentence whose translation has a pronoun or a repeated name.

    Attributes:
      phenomenon: 'he', 'she', 'it' or 'name'.
      source: the sentence with its context.
      target: the reference with its context.
      wrong: the reference with each of the other pronouns, or with another name.
      other: source and target with the context of another document.
    """

    phenomenon: str
    source: SentenceInContext
    target: SentenceInContext
    wrong: tuple[str, ...]
    other: tuple[SentenceInContext, SentenceInContext]


class _Line(NamedTuple):
    """A line of a test set with its context, and the number of its document."""

    source: SentenceInContext
    target: SentenceInContext
    document: int


def find(sentences: Sentences, lines: int) -> list[ContrastiveExample]:
    """Returns the examples of sentences in documents, with up to `lines` of context.

    A pronoun: the reference has exactly one of `PRONOUNS` and no other pronoun of the third person
    singular. A name: a capitalised word within the reference, which is nowhere in lower case, and
    which the context has too. It is replaced by the name of other documents whose spelling is
    closest. Both lines have a line before them in their document. The other context is that of the
    next such line in another document; for a name, it lacks the name.
    """
    in_context = [line for line in _lines(sentences, lines) if line.source.previous]
    names = _names(sentences.references, sentences.follows)
    examples = []
    for index, line in enumerate(in_context):
        for phenomenon, word, wrong in _contrasts(line, names):
            other = _other_context(in_context, index, word if phenomenon == NAME else "")
            if other is not None:
                examples.append(
                    ContrastiveExample(phenomenon, line.source, line.target, wrong, other)
                )
    return examples


def _lines(sentences: Sentences, lines: int) -> Iterator[_Line]:
    sources, targets, document = History(lines), History(lines), -1
    rows = zip(sentences.sources, sentences.references, sentences.follows, strict=True)
    for source, target, follows in rows:
        if not follows:
            sources.end_document()
            targets.end_document()
            document += 1
        line = _Line(sources.add(source), targets.add(target), document)
        if len(line.source.previous) == len(line.target.previous):
            yield line


def _contrasts(line: _Line, names: "_Names") -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yields the phenomenon, its word, and the wrong references of a line: at most one of each."""
    text = line.target.text
    pronouns = _PRONOUN.findall(text)
    if len(pronouns) == 1 and not _OTHER_PRONOUN.search(text):
        right = pronouns[0].lower()
        others = (each for each in PRONOUNS if each != right)
        wrong = tuple(_PRONOUN.sub(_like(pronouns[0], other), text) for other in others)
        yield right, pronouns[0], wrong
    words = _WORD.findall(text)
    before = {word for previous in line.target.previous for word in _WORD.findall(previous)}
    for match in _WORD.finditer(text):
        name = match[0]
        repeated = name in before and words.count(name) == 1 and names.is_name(text, match)
        if repeated and (other := names.closest(name, line.document)):
            yield NAME, name, (text[: match.start()] + other + text[match.end() :],)
            return


def _other_context(
    lines: Sequence[_Line], index: int, name: str
) -> tuple[SentenceInContext, SentenceInContext] | None:
    """Returns a line with the context of the next line of another document, without the name."""
    line = lines[index]
    for other in (*lines[index + 1 :], *lines[:index]):
        count = len(line.source.previous)
        if other.document == line.document or len(other.source.previous) < count:
            continue
        target = other.target.previous[-count:]
        if not name or not any(name in _WORD.findall(previous) for previous in target):
            source = line.source._replace(previous=other.source.previous[-count:])
            return source, line.target._replace(previous=target)
    return None


class _Names:
    """The names in the references of a test set."""

    def __init__(self, references: Sequence[str], follows: Sequence[bool]) -> None:
        words = {word for line in references for word in _WORD.findall(line)}
        self._lower = {word for word in words if word.islower()}
        self._documents: dict[str, set[int]] = {}  # of each name
        self._close: dict[str, list[str]] = {}  # names that are spelled alike, the closest first
        document = -1
        for line, continues in zip(references, follows, strict=True):
            document += not continues
            for match in _WORD.finditer(line):
                if match[0] in self._documents or self.is_name(line, match):
                    self._documents.setdefault(match[0], set()).add(document)

    def is_name(self, text: str, match: re.Match[str]) -> bool:
        """Returns whether a word of a text is a name."""
        name = match[0]
        return (
            len(name) >= _NAME_LETTERS
            and name[0].isupper()
            and name.lower() not in self._lower
            and not _SENTENCE_START.search(text, 0, match.start())
        )

    def closest(self, name: str, document: int) -> str | None:
        """Returns the name spelled most like `name` that the document does not have, or None."""
        if name not in self._close:
            others = [each for each in self._documents if not _inflected(name, each)]
            self._close[name] = suggest.closest_names(name, others, _NEAREST, cutoff=_NEAR)
        close = self._close[name]
        return next((each for each in close if document not in self._documents[each]), None)


@functools.lru_cache(maxsize=1)  # the languages of a multi-way test set have equal references
def _names(references: tuple[str, ...], follows: tuple[bool, ...]) -> _Names:
    return _Names(references, follows)


def _inflected(name: str, other: str) -> bool:
    """Returns whether a name is the beginning of the other: Russia, Russian."""
    shorter, longer = sorted((name.lower(), other.lower()), key=len)
    return longer.startswith(shorter)


def _like(written: str, pronoun: str) -> str:
    return pronoun.capitalize() if written[0].isupper() else pronoun
