"""The rows of analysis.jsonl about contrastive examples; `eval.contrastive` makes them."""

import dataclasses
from collections.abc import Iterable
from typing import ClassVar

from eval.records import rows
from mmt.checked import HUGE, within

PRONOUNS = ("he", "she", "it")
NAME = "name"
PHENOMENA = (*PRONOUNS, NAME)
# The phenomena of each sum over languages.
SUMMED = {name: (name,) for name in PRONOUNS} | {"pronouns": PRONOUNS, "names": (NAME,)}
_COUNTS = ("in_context", "without_context", "other_context", "gained", "gained_over_other")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContrastiveCounts(rows.Checked):
    """On how many examples the reference is more likely than the same text with a wrong word.

    in_context: with the sentence's context. without_context: without. other_context: with that of
    another document. gained: in context, but not without. gained_over_other: in context, but not
    with that of another document.
    """

    examples: int = dataclasses.field(metadata=rows.AMOUNT)
    in_context: int = dataclasses.field(metadata=rows.AMOUNT)
    without_context: int = dataclasses.field(metadata=rows.AMOUNT)
    other_context: int = dataclasses.field(metadata=rows.AMOUNT)
    gained: int = dataclasses.field(metadata=rows.AMOUNT)
    gained_over_other: int = dataclasses.field(metadata=rows.AMOUNT)

    def _check(self) -> None:
        for name in _COUNTS:
            count = getattr(self, name)
            if count > self.examples:
                raise ValueError(f"{name} is {count}, above examples, {self.examples}")
        for name, lost in (("gained", self.lost), ("gained_over_other", self.lost_to_other)):
            gained = getattr(self, name)
            if gained > self.in_context or lost < 0:
                raise ValueError(f"{name} is {gained}, which contradicts the other counts")

    @property
    def lost(self) -> int:
        """Returns on how many the reference is more likely without context, but not in context."""
        return self.without_context - self.in_context + self.gained

    @property
    def lost_to_other(self) -> int:
        """Returns on how many it is so with another document's context, but not in context."""
        return self.other_context - self.in_context + self.gained_over_other


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContrastiveAccuracy(ContrastiveCounts, rows.AnalysisRow):
    """The accuracy of a system on the examples of one phenomenon in one language of a test set.

    phenomenon: 'he', 'she', 'it' or 'name'. context_lines: maximum previous lines. too_long: the
    number of further examples, which do not fit the model. checkpoint, config: as in `results.Row`.
    """

    kind: ClassVar[str] = "contrastive"
    about: ClassVar[tuple[str, ...]] = (
        "system", "testset", "source", "target", "checkpoint", "context_lines", "phenomenon",
    )  # fmt: skip

    system: str
    testset: str
    source: str
    target: str
    checkpoint: str
    config: str
    phenomenon: str
    context_lines: int = dataclasses.field(metadata=within(1, HUGE))
    too_long: int = dataclasses.field(default=0, metadata=rows.AMOUNT)

    def _check(self) -> None:
        super()._check()
        rows.check_one_of("phenomenon", self.phenomenon, PHENOMENA)


def summaries(of: Iterable[ContrastiveAccuracy]) -> dict[str, ContrastiveCounts]:
    """Returns the sums over languages, by name in SUMMED. Names without examples are left out."""
    accuracies = list(of)
    sums = {
        group: ContrastiveCounts(
            **{
                name: sum(getattr(row, name) for row in accuracies if row.phenomenon in phenomena)
                for name in ("examples", *_COUNTS)
            }
        )
        for group, phenomena in SUMMED.items()
    }
    return {group: counts for group, counts in sums.items() if counts.examples}
