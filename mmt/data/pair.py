"""`Pair`: the unit of corpora, cleaning rules and caches."""

from typing import NamedTuple

SPLITS = ("train", "validation", "test")


class Pair(NamedTuple):
    """One sentence and its translation; (corpus, line) is its origin.

    Attributes:
      language: FLORES code of the source.
      corpus: the name of the entry: its `name`, else the source's file as in the description.
      line: the line in the source's file; in files without lines, the number of the unit or row.
      back_translated: whether a model made the source.
      follows: whether the pair before it is the previous line of the same document; false for
        entries that do not mark documents.
    """

    source: str
    target: str
    language: str
    corpus: str
    line: int
    id: str = ""  # in a multi-way corpus, such as `JHN.4.10`
    back_translated: bool = False
    follows: bool = False
