"""The corpora of a cache: their names, and the origin of their files and their cleaning.

A corpus is an entry of a corpus's description. The manifest has a `CorpusOrigin` per language and
corpus; `mmt.data.cleaning.provenance` makes them.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool

from mmt import suggest

OVERLAP = "overlap: "  # begins the reasons of pairs that were dropped for overlap with test sets
_LISTED = 12  # names in an error message


@dataclass(frozen=True)
class CorpusOrigin:
    """The files of one corpus of a language, and the results of cleaning it.

    Attributes:
      language: FLORES code; monolingual text counts as a language.
      corpus: the name of an entry of the corpus's description, as in `Pair.corpus`.
      files: file -> the first 16 hex digits of its SHA-256, before cleaning where that is known.
      read, kept: pairs before and after cleaning; both are -1 if no rules were applied.
      dropped, changed: reason or rule -> pairs.
      tests: the names of the test sets that the pairs were compared with.
      listed: folder and file that list the pairs removed for overlap; '' if there is no list.
    """

    language: str
    corpus: str
    files: dict[str, str] = field(default_factory=dict)
    read: int = -1
    kept: int = -1
    dropped: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    tests: list[str] = field(default_factory=list)
    listed: str = ""

    @property
    def overlap(self) -> dict[str, int]:
        """Returns test set -> pairs removed because they overlap it; one may overlap several."""
        counts = dict.fromkeys(self.tests, 0)
        for reason, count in self.dropped.items():
            for test in overlapped(reason) if reason.startswith(OVERLAP) else ():
                counts[test] = counts.get(test, 0) + count
        return counts


def overlapped(reason: str) -> list[str]:
    """Returns the test sets in a reason that begins with OVERLAP.

    >>> overlapped("overlap: flores + my_corpus test")
    ['flores', 'my_corpus test']
    """
    return reason.removeprefix(OVERLAP).split(" + ")


def in_corpora(name: str, corpora: Iterable[str]) -> bool:
    """Returns whether a corpus is one of `corpora`, or a file of a glob or folder among them.

    >>> in_corpora("news/a.tmx", ["news"]), in_corpora("newsletter", ["news"])
    (True, False)
    """
    return any(name == corpus or name.startswith(f"{corpus}/") for corpus in corpora)


def columns(
    runs: Iterable[Sequence[Any]], follows: Bool[np.ndarray, "n"] | None
) -> Iterator[tuple[Any, ...]]:
    """Yields the further columns of `cache.Tokens` of each example; nothing without names.

    Args:
      runs: (corpus name, examples) of a language and split, from `Manifest.corpora`.
      follows: of the same, from `Cache.follows`.

    >>> list(columns([("news", 1), ("web", 2)], np.array([False, False, True])))
    [('news', False), ('web', False), ('web', True)]
    """
    names = itertools.chain.from_iterable(itertools.repeat(name, n) for name, n in runs)
    if follows is None:
        yield from zip(names)
    else:
        yield from zip(names, map(bool, follows), strict=False)


def check_corpora(corpora: Iterable[str], known: Iterable[str]) -> None:
    """Raises ValueError, with the nearest name, for a corpus that is not among the `known` names.

    Also for an argument that is not a list of names.
    """
    if isinstance(corpora, str) or not all(isinstance(corpus, str) for corpus in corpora):
        raise ValueError(f"corpora to leave out: {corpora!r}; allowed: a list, such as ['web']")
    names = sorted({"/".join(name.split("/")[:end]) for name in known
                    for end in range(1, name.count("/") + 2)})  # fmt: skip
    for corpus in corpora:
        if not names:
            raise ValueError(
                f"no corpus {corpus!r}: the cache names no corpora (it was built by an earlier "
                "version or from SeqIO's cache); build it again from the text"
            )
        if corpus not in names:
            listed = ", ".join(names[:_LISTED]) + (
                f", … ({len(names)})" if len(names) > _LISTED else ""
            )
            hint = suggest.hint(corpus, names, cutoff=0.0)
            raise ValueError(f"no corpus {corpus!r} in the training data; known: {listed}{hint}")
