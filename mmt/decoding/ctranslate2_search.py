"""`CTranslate2Search`: the search of CTranslate2 behind the interface of `BucketedBatches`.

CTranslate2 has no length penalty like ours, so it returns many hypotheses with their sums of
log-probabilities. It leaves a prefix out of a sum, and spreads the probability of excluded tokens
over the others. Hypotheses of such searches are scored again in one teacher-forced pass, and so are
those whose tokens need scores: a score has the meaning of `DecodedSequence.score`.
"""

import dataclasses
import functools
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mmt import suggest
from mmt.decoding import bucketing
from mmt.decoding.beam_search import length_penalty
from mmt.decoding.bucketing import DecodedSequence, Source
from mmt.decoding.options import DEFAULT, Decoding
from mmt.system import environment

WEIGHTS = ("float32", "bfloat16", "int8")
# CTranslate2's `patience`: it stops when patience * beams hypotheses have ended. It does not know
# the bounds at which `beam_search` stops. `benchmarks/exports.py` measures the effect of 3.
_PATIENCE = {"never": 3, "unlikely": 1}
# Hypotheses of CTranslate2 end as those of Hugging Face do.
DEFAULT_SEARCH = dataclasses.replace(DEFAULT, search_style="hf")
_EXCLUDED = -1e9  # below the score of any hypothesis; CTranslate2 gives -1e10 to excluded ones


@dataclasses.dataclass(frozen=True, eq=False)
class CTranslate2Model:
    """A model of CTranslate2, loaded, with its tokens.

    Attributes:
        library: the `ctranslate2.Translator`.
        weights: 'float32', 'bfloat16' or 'int8'.
        source: the pieces of source token ids.
        target: the pieces of target token ids.
        pad, eos: token ids.
    """

    library: Any
    weights: str
    source: Sequence[str]
    target: Sequence[str]
    pad: int
    eos: int

    @classmethod
    def load(cls, directory: Path, weights: str) -> "CTranslate2Model":
        """Loads an export of `mmt.convert.ctranslate2` on the CPU, for all cores.

        Raises ValueError for weights that CTranslate2 does not have on this CPU.
        """
        import ctranslate2

        allowed = [each for each in WEIGHTS
                   if each in ctranslate2.get_supported_compute_types("cpu")]  # fmt: skip
        if weights not in allowed:
            raise ValueError(
                f"weights {weights!r} with the engine ctranslate2 on this CPU; "
                f"{suggest.choices(weights, allowed)}"
            )
        library = ctranslate2.Translator(
            str(directory), compute_type=weights, intra_threads=environment.cores()
        )

        def content(name: str) -> Any:
            return json.loads((directory / f"{name}.json").read_text(encoding="utf-8"))

        shared = (directory / "shared_vocabulary.json").is_file()
        source, target = (
            content(f"{'shared' if shared else side}_vocabulary") for side in ("source", "target")
        )
        config = content("config")
        pad, eos = (target.index(config[f"{name}_token"]) for name in ("bos", "eos"))
        return cls(library, weights, source, target, pad, eos)

    @functools.cached_property
    def target_ids(self) -> Mapping[str, int]:
        """Returns the token id of each target piece."""
        return {piece: number for number, piece in enumerate(self.target)}


class _RawHypothesis(NamedTuple):
    """Token ids of a hypothesis, with any end token, and its log-probability by CTranslate2."""

    tokens: list[int]
    log_prob: float


class _Group(NamedTuple):
    """The properties that the sources of one call share.

    In CTranslate2 a prefix changes the search of the whole batch, and the minimum length is that of
    the batch.
    """

    length: int
    prefixed: bool
    shortest: int


@dataclasses.dataclass(frozen=True)
class CTranslate2Search:
    """A model of CTranslate2 and the options of a search.

    Attributes:
        model: the model.
        decoding: options of the search; `check` refuses those that CTranslate2 does not have.
        batch_size: sources translated together.
        longest: maximum tokens of a source.
        token_scores: whether to keep the scores of tokens.

    Raises:
        ValueError: see `check`.
    """

    model: CTranslate2Model
    decoding: Decoding
    batch_size: int
    longest: int
    token_scores: bool = False

    def __post_init__(self) -> None:
        check(self.decoding)

    def search(self, sources: Sequence[Source]) -> list[list[DecodedSequence]]:
        """Returns the hypotheses of each source, best first, in the order of `sources`.

        Raises:
            ValueError: the model's output is not a number, a prefix leaves no room for the end
                token, or phrases are required.
        """
        bucketing.check_prefixes(sources, self.decoding)
        if any(source.phrases for source in sources):
            raise ValueError(refusal("a glossary"))
        hypotheses: dict[int, list[_RawHypothesis]] = {}
        groups = _group_by(range(len(sources)), lambda i: self._group(sources[i]))
        for group, rows in groups.items():
            max_length = max(self._max_length(sources[i]) for i in rows)
            hypotheses |= self._translate(sources, rows, group, max_length)
            # Up to a length that no hypothesis reaches, the search does not depend on the maximum.
            truncated = [
                i for i in rows
                if self._max_length(sources[i]) < max_length
                and any(len(each.tokens) >= self._max_length(sources[i]) for each in hypotheses[i])
            ]  # fmt: skip
            limits = _group_by(truncated, lambda i: self._max_length(sources[i]))
            for limit, group_rows in limits.items():
                hypotheses |= self._translate(sources, group_rows, group, limit)
        return self._scored(sources, [hypotheses[i] for i in range(len(sources))])

    def _max_length(self, source: Source) -> int:
        return self.decoding.longest(len(source.tokens))

    def _group(self, source: Source) -> _Group:
        return _Group(
            bucketing.bucket_length(len(source.tokens), self.longest),
            bool(source.prefix),
            self.decoding.shortest(len(source.tokens)) if self.decoding.min_length_ratio else 0,
        )

    def _translate(
        self, sources: Sequence[Source], rows: Sequence[int], group: _Group, longest: int
    ) -> dict[int, list[_RawHypothesis]]:
        """Returns the hypotheses of at most `longest` tokens of some sources, by their numbers."""
        model, decoding = self.model, self.decoding
        candidates = 1 if decoding.beam == 1 else _PATIENCE[decoding.early_stopping] * decoding.beam
        if decoding.nbest == 1 and not decoding.alpha:
            candidates = 1  # the first to end with the highest sum is the best one
        results = model.library.translate_batch(
            [_pieces(sources[i].tokens, model.source) for i in rows],
            [_pieces(sources[i].prefix, model.target) for i in rows] if group.prefixed else None,
            max_batch_size=self.batch_size,
            beam_size=decoding.beam,
            patience=max(1.0, candidates / decoding.beam),
            num_hypotheses=candidates,
            length_penalty=0,
            no_repeat_ngram_size=decoding.no_repeat_ngram,
            suppress_sequences=[[model.target[model.pad]]],
            return_end_token=True,
            return_scores=True,
            max_input_length=0,
            max_decoding_length=longest,
            min_decoding_length=min(max(group.shortest - 1, 0), longest),  # without the end token
        )
        ids = model.target_ids
        hypotheses_of: dict[int, list[_RawHypothesis]] = {}
        for i, result in zip(rows, results, strict=True):
            hypotheses = zip(result.hypotheses, result.scores, strict=True)
            decoded = [
                _RawHypothesis([ids[piece] for piece in pieces], log_prob)
                for pieces, log_prob in hypotheses
            ]
            hypotheses_of[i] = [
                hypothesis for hypothesis in decoded if not hypothesis.log_prob < _EXCLUDED
            ]
        return hypotheses_of

    def _scored(
        self, sources: Sequence[Source], candidates: Sequence[list[_RawHypothesis]]
    ) -> list[list[DecodedSequence]]:
        """Returns the best hypotheses of each source with their scores."""
        decoded: list[list[DecodedSequence]] = [[] for _ in sources]
        pairs: list[tuple[int, list[int]]] = []  # source number, tokens to score again
        for number, (source, hypotheses) in enumerate(zip(sources, candidates, strict=True)):
            ranked = self._ranked(hypotheses)
            if self._has_other_sums(source):
                pairs += [(number, each.tokens) for each in ranked]
            elif self.token_scores:
                pairs += [(number, each.tokens) for each in ranked[: self.decoding.nbest]]
            else:
                decoded[number] = [self._sequence(*each) for each in ranked]
        for (number, tokens), scores in zip(pairs, self._token_scores(sources, pairs), strict=True):
            decoded[number].append(self._sequence(tokens, sum(scores), scores))
        return [
            sorted(sequences, key=lambda sequence: -sequence.score)[: self.decoding.nbest]
            for sequences in decoded
        ]

    def _has_other_sums(self, source: Source) -> bool:
        """Returns whether CTranslate2's sum of log-probabilities is not that of the model."""
        decoding = self.decoding
        return bool(source.prefix or decoding.min_length_ratio or decoding.no_repeat_ngram)

    def _ranked(self, hypotheses: Sequence[_RawHypothesis]) -> list[_RawHypothesis]:
        """Returns distinct hypotheses, best first by CTranslate2's sum."""
        distinct = {tuple(each.tokens): each for each in reversed(hypotheses)}
        return sorted(
            distinct.values(), key=lambda each: -each.log_prob / self._penalty(len(each.tokens))
        )

    def _token_scores(
        self, sources: Sequence[Source], pairs: Sequence[tuple[int, list[int]]]
    ) -> list[list[float]]:
        """Returns the log-probability of each token of `pairs`, in one teacher-forced pass."""
        if not pairs:
            return []
        model = self.model
        results = model.library.score_batch(
            [_pieces(sources[number].tokens, model.source) for number, _ in pairs],
            [_pieces(_without_end(tokens, model.eos), model.target) for _, tokens in pairs],
            max_batch_size=self.batch_size,
            max_input_length=0,
        )
        return [
            list(result.log_probs)[: len(tokens)]
            for (_, tokens), result in zip(pairs, results, strict=True)
        ]

    def _sequence(
        self, tokens: list[int], log_prob: float, scores: Sequence[float] = ()
    ) -> DecodedSequence:
        """Returns a hypothesis. Raises ValueError for a log-probability that is not a number."""
        if math.isnan(log_prob):
            raise ValueError("the model's output is not a number (NaN): did its training diverge?")
        kept = list(scores) if self.token_scores else []
        return DecodedSequence(tokens, kept, log_prob / self._penalty(len(tokens)))

    def _penalty(self, length: int) -> float:
        return length_penalty(length, self.decoding.settings(1))


def check(decoding: Decoding) -> None:
    """Raises ValueError for search options that CTranslate2 lacks or defines differently."""
    if decoding.search_style != "hf":
        raise ValueError(
            f"search_style {decoding.search_style!r}: the engine ctranslate2 ends hypotheses as "
            "Hugging Face does: set search_style 'hf' (--gin.Decoding.search_style=hf), or "
            "translate with the engine jax (--engine jax)"
        )
    if decoding.temperature is not None:
        raise ValueError(refusal(f"temperature {decoding.temperature} (sampling)"))
    if decoding.repetition_penalty != 1:
        raise ValueError(refusal(f"repetition_penalty {decoding.repetition_penalty}"))


def refusal(option: str) -> str:
    """Returns the message for an option that CTranslate2 does not have."""
    return (
        f"{option}: the engine ctranslate2 does not have it; omit it, or translate with the engine "
        "jax (--engine jax)"
    )


def _group_by(rows: Any, key: Any) -> Mapping[Any, list[int]]:
    ordered = sorted(rows, key=key)
    return {name: list(members) for name, members in itertools.groupby(ordered, key=key)}


def _pieces(tokens: Sequence[int], pieces: Sequence[str]) -> list[str]:
    return [pieces[token] for token in tokens]


def _without_end(tokens: list[int], eos: int) -> list[int]:
    return tokens[:-1] if tokens[-1:] == [eos] else tokens
