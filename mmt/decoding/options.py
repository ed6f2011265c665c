"""`Decoding`: every choice of how a line is translated, in the words of whoever translates.

Gin binds it (`--gin.Decoding.no_repeat_ngram=3`). The search itself is `decode`'s.
"""

import dataclasses
import math
from typing import Any

from mmt import checked
from mmt.decoding.beam_search import BeamSettings


@dataclasses.dataclass(frozen=True)
class Decoding:
    """How lines are translated. ValueError for what makes no sense, alone or together.

    beam: hypotheses that are kept while searching; 1 is greedy.
    alpha, penalty: a score is the log-probability divided by ((5 + length) / 6)^alpha with 'gnmt'
      (also T5X's), by length^alpha with 'length' (Hugging Face's).
    rules: of what may end and when: 't5x' or 'hf', see `decode.BeamSettings`. What `generate`
      finds with length_penalty=a and early_stopping='never' is alpha=a, penalty='length',
      rules='hf'.
    nbest: translations of each line, at most `beam`.
    temperature: None searches. A number samples one translation (with beam 1): the lower, the
      likelier; 1 as the model has it. Its score is the model's, as if it had been found.
    top_k, top_p: sampling draws from the so many best tokens (0: all), and of these from the
      smallest set of the best that holds so much of the probability.
    seed: of sampling. What is drawn depends on it and on the line alone, not on other lines.
    no_repeat_ngram: no sequence of so many tokens comes twice in a translation; 0: any may.
    repetition_penalty: what log-probabilities of tokens that were there already are multiplied by.
    min_length_ratio, max_length_ratio: tokens of a translation, at least and at most, for each of
      the source's (as the model sees it: both with their end, the source with its tag). None: at
      most 2 a token and 16.
    prefix: what every translation of a line begins with.
    """

    beam: int = 4
    alpha: float = 0.8
    penalty: str = "gnmt"
    rules: str = "t5x"
    nbest: int = 1
    temperature: float | None = None
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    min_length_ratio: float = 0.0
    max_length_ratio: float | None = None
    prefix: str = ""

    def __post_init__(self) -> None:
        checked.check(self)
        self.settings(1)
        least, most = self.min_length_ratio, self.max_length_ratio
        if most is not None and not 0 < most <= 1000:
            raise ValueError(f"max_length_ratio {most}; allowed: above 0, to 1000, or None")
        limit = 2 if most is None else most
        if not 0 <= least <= limit:
            raise ValueError(
                f"min_length_ratio {least}; allowed: 0 to {limit}"
                + (" (more needs a max_length_ratio)" if most is None else ", the max_length_ratio")
            )
        if self.prefix and self.prefix.splitlines() != [self.prefix]:
            raise ValueError(f"prefix {self.prefix!r}; allowed: text on one line")

    def settings(self, max_length: int, **more: Any) -> BeamSettings:
        """Of a search for at most `max_length` tokens. more: start, eos and pad of the model, and
        whether to keep token_scores.
        """
        same = {field.name for field in dataclasses.fields(BeamSettings)}
        given = {name: value for name, value in vars(self).items() if name in same}
        return BeamSettings(max_length, beams=self.beam, **given, **more)

    def longest(self, source: int) -> int:
        """The most tokens that the translation of so many may have, both with their end."""
        if self.max_length_ratio is None:
            return 2 * source + 16
        return math.ceil(self.max_length_ratio * source)

    def shortest(self, source: int) -> int:
        """The fewest."""
        return math.ceil(self.min_length_ratio * source)

    def __str__(self) -> str:
        """Beam and alpha, and whatever else is not the default: 'beam:4|alpha:0.8|top_k:9'."""
        told = [f"beam:{self.beam}", f"alpha:{self.alpha:g}"]
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name not in ("beam", "alpha") and value != field.default:
                told.append(f"{field.name}:{value!r}" if field.name == "prefix" else
                            f"{field.name}:{value}")  # fmt: skip
        return "|".join(told)


USUAL = Decoding()
