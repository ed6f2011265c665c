"""`Pair`: what corpora yield, rules judge and caches hold."""

from typing import NamedTuple

SPLITS = ("train", "validation", "test")


class Pair(NamedTuple):
    """One sentence and its translation; where it is from is (corpus, line).

    Attributes:
      language: FLORES code of the source.
      corpus: the name of the entry: its `name`, else the source's file as the description has it.
      line: in the source's file; in files without lines the number of the unit or row.
      back_translated: whether a model made the source.
    """

    source: str
    target: str
    language: str
    corpus: str
    line: int
    id: str = ""  # of a multi-way corpus: `JHN.4.10`
    back_translated: bool = False
