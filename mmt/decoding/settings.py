"""`BeamSettings`: the settings of one search, checked.

`mmt.decoding.options.Decoding` makes them from the user's options, a maximum length and the
model's special tokens.
"""

from dataclasses import dataclass

PENALTIES = ("gnmt", "length")
SEARCH_STYLES = ("t5x", "hf")
EARLY_STOPPING = ("never", "unlikely")


@dataclass(frozen=True)
class BeamSettings:
    """Settings of a search. They are hashable, as static arguments of jitted functions must be.

    Attributes:
        max_length: maximum tokens of a hypothesis, end token included.
        beams: live hypotheses per row; 1 is greedy search.
        alpha: exponent of the length penalty; 0 disables it.
        nbest: hypotheses returned per row, at most `beams`.
        start: token that precedes the first one.
        eos: token that ends a hypothesis.
        pad: token that fills hypotheses up; it is never produced.
        penalty: 'gnmt' or 'length'; see `length_penalty`.
        search_style: when a hypothesis may end. 't5x' (Flax too): any of the best 2 * beams
            continuations may end; at its row's maximum length a hypothesis must end, and its score
            includes the end token. 'hf' (Hugging Face's `generate` with early_stopping='never'):
            only the best `beams` continuations may end; at the maximum length hypotheses count
            without an end token.
        early_stopping: when a row with beams is done. 'never': no live hypothesis can score better
            than the `nbest` finished ones (T5X, and Hugging Face's 'never'). 'unlikely': `beams`
            hypotheses are finished, and no live one would score better than the worst of them if
            it ended now (Hugging Face's False, its default).
        temperature: None searches; a number samples each token, with one beam.
        top_k, top_p: see `sampling.top_k_top_p_filter`.
        no_repeat_ngram: no n-gram of this size occurs twice; 0 disables it. The start token counts.
        repetition_penalty: see `sampling.apply_repetition_penalty`; 1 disables it.
        token_scores: whether hypotheses keep the scores of their tokens, which takes some time.
    """

    max_length: int
    beams: int = 4
    alpha: float = 0.8
    nbest: int = 1
    start: int = 0
    eos: int = 1
    pad: int = 0
    penalty: str = "gnmt"
    search_style: str = "t5x"
    early_stopping: str = "never"
    temperature: float | None = None
    top_k: int = 0
    top_p: float = 1.0
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    token_scores: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.beams <= 1000:
            raise ValueError(f"beam size {self.beams}; allowed: 1 (greedy) to 1000")
        if not 1 <= self.nbest <= self.beams:
            raise ValueError(
                f"{self.nbest}-best of beam size {self.beams}; allowed: 1 to {self.beams}"
            )
        if not 0 <= self.alpha < float("inf"):
            raise ValueError(f"length penalty alpha {self.alpha}; allowed: 0 or more")
        if self.max_length < 1:
            raise ValueError(f"maximum length {self.max_length}; allowed: 1 or more")
        for name, allowed in (
            ("penalty", PENALTIES),
            ("search_style", SEARCH_STYLES),
            ("early_stopping", EARLY_STOPPING),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} {getattr(self, name)!r}; allowed: {', '.join(allowed)}")
        if self.no_repeat_ngram < 0:
            raise ValueError(f"no_repeat_ngram {self.no_repeat_ngram}; allowed: 0 (off) or more")
        if not 0 < self.repetition_penalty < float("inf"):
            raise ValueError(f"repetition_penalty {self.repetition_penalty}; allowed: above 0")
        self._check_sampling()

    @property
    def max_finished(self) -> int:
        """Returns the number of finished hypotheses that a row keeps while it searches."""
        return self.beams if self.early_stopping == "unlikely" else self.nbest

    def _check_sampling(self) -> None:
        if self.top_k < 0:
            raise ValueError(f"top_k {self.top_k}; allowed: 0 (all) or more")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p {self.top_p}; allowed: 0 < top_p <= 1")
        if self.temperature is None:
            if self.top_k or self.top_p < 1:
                raise ValueError("top_k and top_p need sampling: set a temperature, such as 1.0")
        elif not 0 < self.temperature < float("inf"):
            raise ValueError(
                f"temperature {self.temperature}; allowed: above 0 (beam 1 without one is greedy)"
            )
        elif self.beams > 1:
            raise ValueError(
                f"temperature {self.temperature} samples one translation per line; beam must be 1, "
                f"not {self.beams}, and nbest 1"
            )
