"""`Decoding`: the options of a translation, as users set them.

Gin binds it, for example `--gin.Decoding.no_repeat_ngram=3`. The search is in
`mmt.decoding.beam_search`.
"""

import dataclasses
import math
from typing import Any

from mmt import checked, suggest
from mmt.decoding.settings import BeamSettings

# The name of a field in results rows and in old configurations, where it differs from ours.
_RECORDED_NAMES = {"search_style": "rules"}
SPLITS = ("long", "sentences")


@dataclasses.dataclass(frozen=True)
class Decoding:
    """Options of translating a line.

    Attributes:
        beam: number of live hypotheses; 1 is greedy search.
        alpha: exponent of the length penalty; 0 disables it.
        penalty: divisor of a hypothesis' log-probability. 'gnmt' is ((5 + length) / 6)^alpha (Wu
            et al. 2016; T5X too), 'length' is length^alpha (Hugging Face).
        search_style: when a hypothesis may end, 't5x' or 'hf'; see `BeamSettings`. Hugging Face's
            `generate(length_penalty=a)` is alpha=a, penalty='length', search_style='hf'.
        early_stopping: when a beam search ends: 'unlikely' (Hugging Face's default) takes about
            half the time of 'never' (T5X's); see `BeamSettings`.
        nbest: number of translations per line, at most `beam`.
        temperature: None searches for the best translation. A number samples one translation (with
            beam 1); values below 1 sharpen the distribution. The score is the unmodified model's.
        top_k: samples from the `top_k` most probable tokens; 0 disables it.
        top_p: samples from the smallest set of tokens with total probability `top_p`.
        seed: seed of sampling. A sample depends on the seed and its line, not on other lines.
        no_repeat_ngram: no n-gram of this size occurs twice in a translation; 0 disables it.
        repetition_penalty: factor on the log-probabilities of tokens that have already occurred.
        min_length_ratio: minimum tokens of a translation per source token. Both counts include the
            end token, and the source's includes the language tag.
        max_length_ratio: maximum tokens of a translation per source token; None allows 2 per
            source token plus 16.
        prefix: text that every translation of a line starts with.
        split: which lines are translated in pieces: 'long' ones, which do not fit the model, at
            sentence ends if possible; or 'sentences', every sentence of every line by itself.
        keep_placeholders: whether placeholders ({name}, %s), URLs, e-mail addresses and code in
            backticks come through unchanged, each as often as in the line.
        recase_capitals: whether sentences in capitals are translated in sentence case, and their
            translations put in capitals.
        rules: old name of `search_style`.

    Raises:
        ValueError: a value, or a combination of values, is not allowed.

    >>> str(Decoding(beam=2, penalty="length"))
    'beam:2|alpha:0.8|penalty:length'
    """

    beam: int = 4
    alpha: float = 0.8
    penalty: str = "gnmt"
    search_style: str = "t5x"
    early_stopping: str = "unlikely"
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
    split: str = "long"
    keep_placeholders: bool = False
    recase_capitals: bool = False
    rules: dataclasses.InitVar[str | None] = None

    def __post_init__(self, rules: str | None) -> None:
        if rules is not None:
            if self.search_style not in ("t5x", rules):
                raise ValueError(
                    f"Decoding.search_style = {self.search_style!r} and Decoding.rules = {rules!r}"
                    " differ; `rules` is the old name of `search_style`: set one of them"
                )
            object.__setattr__(self, "search_style", rules)
        checked.check(self)
        self.settings(1)
        min_ratio, max_ratio = self.min_length_ratio, self.max_length_ratio
        if max_ratio is not None and not 0 < max_ratio <= 1000:
            raise ValueError(f"max_length_ratio {max_ratio}; allowed: above 0, to 1000, or None")
        limit = 2 if max_ratio is None else max_ratio
        if not 0 <= min_ratio <= limit:
            raise ValueError(
                f"min_length_ratio {min_ratio}; allowed: 0 to {limit}"
                + (
                    " (more needs a max_length_ratio)"
                    if max_ratio is None
                    else ", the max_length_ratio"
                )
            )
        if self.split not in SPLITS:
            raise ValueError(f"split {self.split!r}; {suggest.choices(self.split, SPLITS)}")
        if self.prefix and self.prefix.splitlines() != [self.prefix]:
            raise ValueError(f"prefix {self.prefix!r}; allowed: text on one line")

    def settings(self, max_length: int, **extra: Any) -> BeamSettings:
        """Returns the settings of a search for at most `max_length` tokens.

        `extra` holds the model's `start`, `eos` and `pad` tokens, and `token_scores`.
        """
        shared = {field.name for field in dataclasses.fields(BeamSettings)}
        options = {name: value for name, value in vars(self).items() if name in shared}
        return BeamSettings(max_length, beams=self.beam, **options, **extra)

    def longest(self, source: int) -> int:
        """Returns the maximum length of a translation of `source` tokens, end tokens included."""
        if self.max_length_ratio is None:
            return 2 * source + 16
        return math.ceil(self.max_length_ratio * source)

    def shortest(self, source: int) -> int:
        """Returns the minimum length of a translation of `source` tokens, end tokens included."""
        return math.ceil(self.min_length_ratio * source)

    def __str__(self) -> str:
        """Returns beam, alpha and every option that is not the default: 'beam:4|alpha:0.8|top_k:9'.

        Results rows are identified by this text. `early_stopping` was 'never' before it was an
        option, so a text without it means that.
        """
        options = [f"beam:{self.beam}", f"alpha:{self.alpha:g}"]
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            default = "never" if field.name == "early_stopping" else field.default
            if field.name == "early_stopping" and self.beam == 1:
                continue  # greedy search ends with its hypothesis
            if field.name not in ("beam", "alpha") and value != default:
                name = _RECORDED_NAMES.get(field.name, field.name)
                options.append(f"{name}:{value!r}" if name == "prefix" else f"{name}:{value}")
        return "|".join(options)


DEFAULT = Decoding()
