"""`Reranker`: orders the n-best translations of a sentence by a neural score without references."""

import dataclasses
from collections.abc import Sequence

from mmt.translate.comet.model import CometModel
from mmt.translate.source_language import AUTO
from mmt.translate.translation import Translation


@dataclasses.dataclass(frozen=True)
class Reranker:
    """Orders n-best translations by a COMET model that needs no references.

    Raises ValueError for a model that needs references.
    """

    model: CometModel

    def __post_init__(self) -> None:
        self.model.check_reference_free()

    def check(self, source: str | None, target: str) -> None:
        """Raises ValueError for a missing source, or languages that the encoder does not know."""
        if not source or source == AUTO:
            raise ValueError(
                "a neural score needs the language of the lines (source=..., --from LANGUAGE; not "
                "auto), because it is refused for languages that its encoder was not trained on"
            )
        self.model.check_languages([source, target])

    def rerank(self, translations: Sequence[Translation]) -> list[Translation]:
        """Returns the translations with the `quality` of each hypothesis, the highest first.

        Of equal qualities, the order of the search stays. Repeated pairs are scored once.
        """
        pairs = list(dict.fromkeys(
            (line.source, hypothesis.text)
            for line in translations
            for hypothesis in line.hypotheses
        ))  # fmt: skip
        if not pairs:
            return list(translations)
        sources, texts = zip(*pairs, strict=True)
        scores = self.model.scores(sources, texts, messages=False)
        qualities = dict(zip(pairs, scores, strict=True))
        return [_ranked(line, qualities) for line in translations]


def _ranked(line: Translation, qualities: dict[tuple[str, str], float]) -> Translation:
    rated = [
        hypothesis._replace(quality=qualities[line.source, hypothesis.text])
        for hypothesis in line.hypotheses
    ]
    return line._replace(
        hypotheses=tuple(sorted(rated, key=lambda each: each.quality or 0.0, reverse=True))
    )
