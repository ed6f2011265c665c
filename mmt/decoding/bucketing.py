"""Batches of fixed shapes for sources of similar length.

A source's bucket depends on its own length only: 16, 32, 64, ... tokens. A batch always has
`batch_size` rows of its bucket's length, and its search runs in segments of fixed lengths. So every
source meets the same compiled programs, whichever sources share its batch, and its result does not
depend on them. There is no text here: `mmt.translate` makes sources of lines.
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from mmt.decoding import beam_search
from mmt.decoding.beam_search import Hypotheses, RowLimits, State
from mmt.decoding.options import Decoding
from mmt.decoding.settings import BeamSettings


class Source(NamedTuple):
    """Token ids of a source with its end token, and a forced prefix of its translations.

    `language` is the language id, if the model routes by language.
    """

    tokens: Sequence[int]
    prefix: Sequence[int] = ()
    language: int | None = None


class DecodedSequence(NamedTuple):
    """A hypothesis of one source.

    Attributes:
        tokens: token ids, with the end token where the hypothesis has one.
        token_scores: log-probabilities of the tokens; empty unless they are kept.
        score: their sum, divided by the length penalty.
    """

    tokens: list[int]
    token_scores: list[float]
    score: float


@runtime_checkable
class SearchModel(Protocol):
    """The functions of a model that a search calls, and the model's special tokens."""

    @property
    def pad(self) -> int: ...
    @property
    def eos(self) -> int: ...
    @property
    def start(self) -> int: ...

    def prefill(
        self,
        source: Int[np.ndarray, "B S"],
        limits: RowLimits,
        *,
        settings: BeamSettings,
        max_step: int,
        language_ids: Int[np.ndarray, "B"] | None = None,
    ) -> tuple[Any, State]:
        """Encodes the source. Returns what decoding needs of it, and a search before its first
        step with a cache of `max_step` tokens.
        """
        ...

    def decode_segment(
        self, encoded: Any, state: State, *, settings: BeamSettings, max_step: int
    ) -> State:
        """Continues the search to `max_step` tokens, with a cache of that length."""
        ...


@dataclasses.dataclass(frozen=True)
class BucketedBatches:
    """A model and the options of a search, applied to sources in batches of fixed shapes.

    Attributes:
        model: functions of the model.
        decoding: options of the search.
        batch_size: rows of every batch; missing sources are filled up.
        longest: maximum tokens of a source.
        token_scores: whether to keep the scores of tokens.
    """

    model: SearchModel
    decoding: Decoding
    batch_size: int
    longest: int
    token_scores: bool = False

    def search(self, sources: Sequence[Source]) -> list[list[DecodedSequence]]:
        """Returns the hypotheses of each source, best first, in the order of `sources`.

        Raises:
            ValueError: the model's output is not a number, or a prefix leaves no room for the end
                token.
        """
        for source in sources:
            most = self.decoding.longest(len(source.tokens))
            if len(source.prefix) + 1 > most:
                raise ValueError(
                    f"prefix of {len(source.prefix)} tokens; the longest translation of this line "
                    f"has {most}, with its end"
                )
        order = sorted(range(len(sources)), key=lambda i: (*self._bucket(sources[i]), i))
        decoded: dict[int, list[DecodedSequence]] = {}
        for bucket, members in itertools.groupby(order, key=lambda i: self._bucket(sources[i])):
            while batch := list(itertools.islice(members, self.batch_size)):
                results = self._batch([sources[i] for i in batch], *bucket)
                decoded |= zip(batch, results, strict=True)
        return [decoded[i] for i in range(len(sources))]

    def _bucket(self, source: Source) -> tuple[int, int]:
        """Returns the lengths of source and prefix in a batch; the latter is a multiple of 16."""
        return bucket_length(len(source.tokens), self.longest), 16 * -(-len(source.prefix) // 16)

    def _batch(
        self, sources: Sequence[Source], length: int, prefix: int
    ) -> list[list[DecodedSequence]]:
        """Returns the hypotheses of at most `batch_size` sources of one bucket."""
        model = self.model
        tokens = np.full((self.batch_size, length), model.pad, np.int32)
        for row, source in enumerate(sources):
            tokens[row, : len(source.tokens)] = source.tokens
        settings = self.decoding.settings(
            self.decoding.longest(length),
            start=model.start, eos=model.eos, pad=model.pad, token_scores=self.token_scores,
        )  # fmt: skip
        segments = segment_ends(settings.max_length)
        limits = self._limits(sources, prefix)
        encoded, state = model.prefill(
            tokens, limits,
            settings=settings, max_step=segments[0], language_ids=self._language_ids(sources),
        )  # fmt: skip
        for max_step in segments:
            state = model.decode_segment(encoded, state, settings=settings, max_step=max_step)
            if not beam_search.any_live(state):
                break
        hypotheses = jax.tree.map(np.asarray, state.finished)
        if np.isnan(hypotheses.scores).any() or np.isnan(state.live.scores).any():
            raise ValueError("the model's output is not a number (NaN): did its training diverge?")
        return [
            [
                _sequence(jax.tree.map(lambda leaf, at=(row, i): leaf[at], hypotheses), settings)
                for i in np.flatnonzero(hypotheses.scores[row] > -np.inf)
            ]
            for row in range(len(sources))
        ]

    def _language_ids(self, sources: Sequence[Source]) -> Int[np.ndarray, "B"] | None:
        """Returns the language id of each row, 0 for rows that fill the batch up; None without any.
        """
        given = [source.language for source in sources if source.language is not None]
        if not given:
            return None
        if len(given) < len(sources):
            raise ValueError("some sources have a language id and others have none")
        return np.array(given + [0] * (self.batch_size - len(given)), np.int32)

    def _limits(self, sources: Sequence[Source], prefix: int) -> RowLimits:
        """Returns the constraints of each row; rows that fill the batch up decode nothing."""
        least = np.zeros(self.batch_size, np.int32)
        most, forced = least.copy(), np.full((self.batch_size, prefix), -1, np.int32)
        noise = np.zeros((self.batch_size, 2), np.uint32)
        for row, source in enumerate(sources):
            least[row] = self.decoding.shortest(len(source.tokens))
            most[row] = self.decoding.longest(len(source.tokens))
            forced[row, : len(source.prefix)] = source.prefix
            identity = f"{self.decoding.seed} {list(source.tokens)}".encode()
            noise[row] = np.frombuffer(hashlib.sha256(identity).digest()[:8], np.uint32)
        return RowLimits(
            jnp.asarray(most),
            min_lengths=jnp.asarray(least) if self.decoding.min_length_ratio else None,
            prefix=jnp.asarray(forced) if prefix else None,
            noise=jnp.asarray(noise) if self.decoding.temperature else None,
        )


def bucket_length(tokens: int, longest: int) -> int:
    """Returns the length of the batches of a source: a power of two from 16, at most `longest`."""
    return min(max(16, 1 << (tokens - 1).bit_length()), longest)


def segment_ends(longest: int) -> list[int]:
    """Returns the steps at which segments of a search end: [16, 32, 64, 80] for 80.

    A step's time grows with the length of the cache, and most translations are short. A length is
    compiled when the first search reaches it.
    """
    return [*itertools.takewhile(lambda n: n < longest, (16 << i for i in range(32))), longest]


def _sequence(hypothesis: Hypotheses, settings: BeamSettings) -> DecodedSequence:
    """Cuts one hypothesis (tokens [T], score, token scores [T] or None) after its end token."""
    tokens = hypothesis.tokens.tolist()
    ends = [i for i, token in enumerate(tokens) if token in (settings.eos, settings.pad)]
    length = len(tokens) if not ends else ends[0] + (tokens[ends[0]] == settings.eos)
    token_scores = hypothesis.token_scores
    kept_scores = [] if token_scores is None else token_scores[:length].tolist()
    return DecodedSequence(tokens[:length], kept_scores, float(hypothesis.scores))
