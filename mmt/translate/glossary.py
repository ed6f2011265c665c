"""`Glossary`: terms and the translations that they must have.

`mmt.decoding.constraints` makes the search contain them; this module finds the terms of a line and
spells their translations in tokens.
"""

import dataclasses
import functools
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mmt import languages, suggest
from mmt.data.vocabulary import Vocabulary
from mmt.decoding.constraints import RequiredPhrase, WordEdges
from mmt.documents import words
from mmt.translate import casing, placeholders

_COMMENT, _ALTERNATIVE = "#", "|"
_MOST_ALTERNATIVES = 16
_MOST_TOKENS = 64  # of a translation: the programs of a search grow with the longest
_MOST_TERMS = 64  # of a sentence
_MOST_REQUIRED = 512  # tokens of all terms of a sentence
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class Term(NamedTuple):
    """A term of the source and its translations, of which any will do.

    A source in lower case matches any case. `language` is the FLORES code of the lines that it is
    for; '' is all lines.
    """

    source: str
    targets: tuple[str, ...]
    language: str = ""


@dataclasses.dataclass(frozen=True)
class Glossary:
    r"""Terms whose translations a line's translation must contain.

    >>> glossary = Glossary.parse("drucker\tprinter|printers\nOrdner\tfolder\tde\n")
    >>> [term.targets for term in glossary.terms_of("Der Drucker im Ordner", "German")]
    [('printer', 'printers'), ('folder',)]
    >>> glossary.terms_of("Druckerei, ordner", "German")
    {}
    """

    terms: tuple[Term, ...]

    @classmethod
    def read(cls, path: str | Path) -> "Glossary":
        """Returns the glossary of a file of tab-separated values in UTF-8; see `parse`."""
        path = Path(path)
        if not path.exists():
            siblings = sorted(each.name for each in path.parent.glob("*"))
            raise ValueError(f"glossary {path}: no such file{suggest.hint(path.name, siblings)}")
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"glossary {path}: not UTF-8: {error}") from error
        return cls.parse(text, name=str(path))

    @classmethod
    def parse(cls, text: str, *, name: str = "") -> "Glossary":
        """Returns the glossary of lines `source<TAB>target`, or `source<TAB>target<TAB>language`.

        A target may have alternatives, separated by `|`. An empty target is the source itself,
        which is then not translated. Empty lines and lines that begin with `#` do not count. Lines
        end with "\\n" or "\\r\\n". `name` is that of the file in error messages.

        Raises:
            ValueError: a line has another form, an unknown language, or a term that an earlier line
                has; the message names the line.
        """
        terms: dict[tuple[str, str], tuple[Term, int]] = {}
        for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
            if not line.strip() or line.startswith(_COMMENT):
                continue
            location = f"glossary {name}, line {number}" if name else f"glossary, line {number}"
            term = _term(line, location)
            key = term.source, term.language
            if key in terms:
                raise ValueError(f"{location}: {term.source!r} is also in line {terms[key][1]}")
            terms[key] = term, number
        return cls(tuple(term for term, _ in terms.values()))

    def terms_of(
        self, text: str, language: str = "", *, any_case: bool = False
    ) -> dict[Term, int]:
        """Returns the terms that a text contains, in order, and how often it contains each.

        Whole words count, and of overlapping terms the first, then the longest, then the one in the
        case of the text. Terms of a language apply to texts of it only; `language` is any name of
        it, or ''. With `any_case` the case of terms does not count, as for a text in capitals.
        """
        code = languages.find(language).code if language else ""
        text = unicodedata.normalize("NFC", text)
        times: dict[Term, int] = {}
        start, placeholder_spans = 0, dict(placeholders.spans(text))
        while start < len(text):
            is_kept = start in placeholder_spans
            term = None if is_kept else self._term_at(text, start, code, any_case)
            if term:
                times[term] = times.get(term, 0) + 1
            start = placeholder_spans.get(start) or start + (len(term.source) if term else 1)
        return times

    def phrases_of(
        self, vocabulary: Vocabulary, text: str, language: str = "", *, any_case: bool = False
    ) -> tuple[RequiredPhrase, ...]:
        """Returns what the translations of a text must contain, in tokens; see `terms_of`.

        Raises:
            ValueError: a translation of a term that the vocabulary cannot write or that is longer
                than 64 tokens, more than 64 terms, or more than 512 tokens together.
        """
        terms = self.terms_of(text, language, any_case=any_case)
        if len(terms) > _MOST_TERMS:
            raise ValueError(
                f"glossary: {_shortened(text)!r} has {len(terms)} terms; allowed: at most "
                f"{_MOST_TERMS}"
            )
        phrases = tuple(
            phrase(vocabulary, spellings(term), times=times) for term, times in terms.items()
        )
        if (tokens := sum(each.longest for each in phrases)) > _MOST_REQUIRED:
            raise ValueError(
                f"glossary: the translations of the terms of {_shortened(text)!r} have {tokens} "
                f"tokens; allowed: at most {_MOST_REQUIRED}"
            )
        return phrases

    @functools.cached_property
    def digest(self) -> bytes:
        """Returns a hash of the terms, for those that must not keep the glossary in memory."""
        return hashlib.blake2b(repr(self.terms).encode(), digest_size=16).digest()

    def _term_at(self, text: str, start: int, code: str, any_case: bool) -> Term | None:
        if words.goes_on(text, start):
            return None
        for length in self._lengths.get(_any_case(text[start]), ()):
            end = start + length
            if end > len(text) or words.goes_on(text, end):
                continue
            part = text[start:end]
            lowered = casing.lower_letters(part, code)
            matching = [
                term for term in self._by_any_case.get(_any_case(part), ())
                if term.language in ("", code) and (
                    term.source in (part, lowered)
                    or (any_case and casing.lower_letters(term.source, code) == lowered)
                )
            ]  # fmt: skip
            if matching:  # `US` is not `us`, whichever the glossary has first
                return next((term for term in matching if term.source == part), matching[0])
        return None

    @functools.cached_property
    def _by_any_case(self) -> Mapping[str, list[Term]]:
        """Returns the terms by their source in any case; those of a language come first."""
        terms: dict[str, list[Term]] = {}
        for term in sorted(self.terms, key=lambda term: not term.language):
            terms.setdefault(_any_case(term.source), []).append(term)
        return terms

    @functools.cached_property
    def _lengths(self) -> Mapping[str, list[int]]:
        """Returns the lengths of the sources by their first character, longest first."""
        lengths: dict[str, set[int]] = {}
        for term in self.terms:
            lengths.setdefault(_any_case(term.source[0]), set()).add(len(term.source))
        return {first: sorted(of_first, reverse=True) for first, of_first in lengths.items()}


def phrase(vocabulary: Vocabulary, spellings: Iterable[str], *, times: int) -> RequiredPhrase:
    """Returns the phrase that is `times` times any of the spellings, after a space or not.

    Raises ValueError for one that the vocabulary cannot write, or of more than 64 tokens.
    """
    alternatives: dict[tuple[int, ...], None] = {}
    for spelling in spellings:
        for text in (f" {spelling}", spelling):
            ids = vocabulary.encode(text)
            if not ids or {vocabulary.pad, vocabulary.eos, vocabulary.unk} & set(ids):
                raise ValueError(
                    f"glossary: the target vocabulary cannot write {_shortened(spelling)!r}"
                )
            if len(ids) > _MOST_TOKENS:
                raise ValueError(
                    f"glossary: the translation {_shortened(spelling)!r} has {len(ids)} tokens; "
                    f"allowed: at most {_MOST_TOKENS}"
                )
            alternatives[tuple(ids)] = None
    return RequiredPhrase(tuple(alternatives), times)


def spellings(term: Term) -> Iterator[str]:
    """Yields the targets of a term, also with a capital letter first."""
    for target in term.targets:
        yield target
        if (capital := target[0].upper() + target[1:]) != target:
            yield capital


@functools.lru_cache(maxsize=8)
def word_edges(vocabulary: Vocabulary) -> WordEdges:
    """Returns which tokens begin and end with a character of a word."""
    pieces = [_BYTE.sub(_character, vocabulary.piece(n)) for n in range(vocabulary.size)]
    return WordEdges(
        np.array([words.in_word(piece[:1]) for piece in pieces]),
        np.array([words.in_word(piece[-1:]) for piece in pieces]),
    )


def _any_case(text: str) -> str:
    """Returns what texts that differ only in case share in every language; its length stays."""
    return casing.lower_letters(text).replace("ı", "i")


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def _character(byte: re.Match[str]) -> str:
    """Returns the character of a byte's token; a letter for bytes of longer characters."""
    number = int(byte[1], 16)
    return chr(number) if number < 0x80 else "x"


def _term(line: str, location: str) -> Term:
    """Returns the term of a line of a glossary."""
    columns = [column.strip() for column in line.split("\t")]
    if not 2 <= len(columns) <= 3 or not columns[0]:
        raise ValueError(
            f"{location}: {line!r}; expected source<TAB>target or source<TAB>target<TAB>language"
        )
    source, target, *language = columns
    source = unicodedata.normalize("NFC", source)  # as `terms_of` reads a text
    targets = tuple(part.strip() for part in target.split(_ALTERNATIVE)) if target else (source,)
    if not all(targets):
        raise ValueError(f"{location}: the target {target!r} has an empty alternative")
    if len(targets) > _MOST_ALTERNATIVES:
        raise ValueError(
            f"{location}: {source!r} has {len(targets)} alternatives; allowed: at most "
            f"{_MOST_ALTERNATIVES}"
        )
    try:
        code = languages.find(language[0]).code if any(language) else ""
    except ValueError as error:
        raise ValueError(f"{location}: {error}") from error
    return Term(source, targets, code)
