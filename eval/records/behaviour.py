"""The rows of analysis.jsonl about the behaviour suite; `eval.behave` makes them."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from eval.records import rows


@dataclasses.dataclass(frozen=True, kw_only=True)
class BehaviourShares(rows.AnalysisRow):
    """How many cases of each behaviour a system passes in one language.

    passed, cases: by the name of the behaviour, in the order of the suite. needed: the share that a
    behaviour needs on average over languages. origin: what the cases are made of. suite: hash of
    the cases of the language. checkpoint, decode, config: as in `results.Row`.
    """

    kind: ClassVar[str] = "behaviour"
    about: ClassVar[tuple[str, ...]] = ("system", "source", "target", "checkpoint", "decode")

    system: str
    source: str
    target: str
    checkpoint: str
    decode: str
    config: str
    origin: str
    suite: str
    passed: Mapping[str, int] = dataclasses.field(metadata=rows.AMOUNT)
    cases: Mapping[str, int] = dataclasses.field(metadata=rows.POSITIVE)
    needed: Mapping[str, float] = dataclasses.field(metadata=rows.SHARE)

    def _check(self) -> None:
        if list(self.passed) != list(self.cases):
            raise ValueError(
                f"passed has {', '.join(self.passed)}; expected those of cases: "
                f"{', '.join(self.cases)}"
            )
        for name, passed in self.passed.items():
            if passed > self.cases[name]:
                raise ValueError(f"passed[{name}] is {passed}, above cases, {self.cases[name]}")

    @property
    def shares(self) -> dict[str, float]:
        """Returns the share of the cases passed, by behaviour."""
        return {name: passed / self.cases[name] for name, passed in self.passed.items()}
