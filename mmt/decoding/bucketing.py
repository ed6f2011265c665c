"""Batches of fixed shapes for sources of similar length.

A source's bucket depends on its own length only: 16, 32, 64, ... tokens. A batch always has
`batch_size` rows of its bucket's length, and its search runs in segments of fixed lengths. So every
source meets the same compiled programs, whichever sources share its batch, and its result does not
depend on them. Without this guarantee batches may be smaller, and finished sources leave them.
There is no text here: `mmt.translate` makes sources of lines.
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

from mmt.decoding import beam_search, constraints
from mmt.decoding.beam_search import Hypotheses, RowLimits, State
from mmt.decoding.constraints import Constraints, RequiredPhrase, WordEdges
from mmt.decoding.options import Decoding
from mmt.decoding.settings import BeamSettings

_FEWEST = 4  # rows: CPUs compute products of fewer rows in bfloat16 and int8 slowly
_BEAMS = 2  # times as many beams where phrases are required


class Source(NamedTuple):
    """Token ids of a source with its end token, and a forced prefix of its translations.

    `language` is the language id, if the model routes by language. `phrases` are those that its
    translations must contain.
    """

    tokens: Sequence[int]
    prefix: Sequence[int] = ()
    language: int | None = None
    phrases: tuple[RequiredPhrase, ...] = ()


class Bucket(NamedTuple):
    """The shape of a batch: what decides which compiled programs a source meets.

    Attributes:
        length: source tokens: a power of two from 16, at most the model's longest.
        prefix: tokens of forced prefixes, a multiple of 16.
        required: tokens of all required phrases, a multiple of 32.
        phrases: the most phrases, alternatives of a phrase, and tokens of an alternative: powers of
            two from 4, 4 and 8, so that few shapes are compiled; zeros without phrases.
    """

    length: int
    prefix: int
    required: int
    phrases: tuple[int, int, int]


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
        self,
        encoded: Any,
        state: State,
        *,
        settings: BeamSettings,
        max_step: int,
        fewest: int = 0,
    ) -> State:
        """Continues the search to `max_step` tokens, with a cache of that length, or until at most
        `fewest` rows are not done.
        """
        ...

    def take(
        self, encoded: Any, state: State, rows: Int[np.ndarray, "R"], *, settings: BeamSettings
    ) -> tuple[Any, State]:
        """Returns what decoding needs of these rows, and their search."""
        ...


@dataclasses.dataclass(frozen=True)
class BucketedBatches:
    """A model and the options of a search, applied to sources in batches of fixed shapes.

    Attributes:
        model: functions of the model.
        decoding: options of the search.
        batch_size: rows of every batch; missing sources are filled up.
        longest: maximum tokens of a source.
        fixed: whether a batch of fewer sources has `batch_size` rows too. Else it has the least
            power of two that suffices, from 4, and a quarter of its rows is kept as soon as the
            others are done, which is faster. Then results may depend on other sources, by rounding.
        token_scores: whether to keep the scores of tokens.
        edges: word edges of the target tokens, if sources have required phrases.
    """

    model: SearchModel
    decoding: Decoding
    batch_size: int
    longest: int
    fixed: bool = True
    token_scores: bool = False
    edges: WordEdges | None = None

    def search(self, sources: Sequence[Source]) -> list[list[DecodedSequence]]:
        """Returns the hypotheses of each source, best first, in the order of `sources`.

        Raises:
            ValueError: the model's output is not a number, a prefix leaves no room for the end
                token, or phrases are required of a sample.
        """
        check_prefixes(sources, self.decoding)
        if self.decoding.temperature and any(source.phrases for source in sources):
            raise ValueError(
                f"temperature {self.decoding.temperature} and a glossary: a sample cannot contain "
                "required terms; search with a beam"
            )
        order = sorted(  # sources of one length: their translations end at about the same step
            range(len(sources)), key=lambda i: (*self._bucket(sources[i]), len(sources[i].tokens))
        )
        decoded: dict[int, list[DecodedSequence]] = {}
        for bucket, members in itertools.groupby(order, key=lambda i: self._bucket(sources[i])):
            while batch := list(itertools.islice(members, self.batch_size)):
                results = self._batch([sources[i] for i in batch], bucket)
                decoded |= zip(batch, results, strict=True)
        return [decoded[i] for i in range(len(sources))]

    def _bucket(self, source: Source) -> Bucket:
        phrases, shape = source.phrases, (0, 0, 0)
        if phrases:
            alternatives = [tokens for phrase in phrases for tokens in phrase.alternatives]
            shape = (
                _power_of_two(len(phrases), least=4),
                _power_of_two(max(len(phrase.alternatives) for phrase in phrases), least=4),
                _power_of_two(max(map(len, alternatives)), least=8),
            )
        return Bucket(
            bucket_length(len(source.tokens), self.longest),
            16 * -(-len(source.prefix) // 16),
            32 * -(-sum(phrase.longest for phrase in phrases) // 32),
            shape,
        )

    def _batch(self, sources: Sequence[Source], bucket: Bucket) -> list[list[DecodedSequence]]:
        """Returns the hypotheses of at most `batch_size` sources of one bucket."""
        model, rows = self.model, self._rows(len(sources))
        tokens = np.full((rows, bucket.length), model.pad, np.int32)
        for row, source in enumerate(sources):
            tokens[row, : len(source.tokens)] = source.tokens
        settings = self.decoding.settings(
            self.decoding.longest(bucket.length) + bucket.required,
            start=model.start, eos=model.eos, pad=model.pad, token_scores=self.token_scores,
        )  # fmt: skip
        if bucket.required:
            settings = dataclasses.replace(settings, beams=_BEAMS * settings.beams)
        hypotheses = self._hypotheses(
            tokens,
            self._limits(sources, bucket, rows),
            self._language_ids(sources, rows),
            settings,
        )
        if np.isnan(hypotheses.scores).any():
            raise ValueError("the model's output is not a number (NaN): did its training diverge?")
        return [
            [
                _sequence(jax.tree.map(lambda leaf, at=(row, i): leaf[at], hypotheses), settings)
                for i in np.flatnonzero(hypotheses.scores[row] > -np.inf)
            ]
            for row in range(len(sources))
        ]

    def _hypotheses(
        self,
        tokens: Int[np.ndarray, "B S"],
        limits: RowLimits,
        language_ids: Int[np.ndarray, "B"] | None,
        settings: BeamSettings,
    ) -> Hypotheses:
        """Returns the best hypotheses of each row; a row whose search met NaN has it as score."""
        model, rows = self.model, np.arange(len(tokens))
        segments = segment_ends(settings.max_length)
        encoded, state = model.prefill(
            tokens, limits, settings=settings, max_step=segments[0], language_ids=language_ids
        )
        left: list[tuple[np.ndarray, Hypotheses]] = []
        for max_step in segments:
            while True:
                fewest = self._fewest(len(rows))
                state = model.decode_segment(
                    encoded, state, settings=settings, max_step=max_step, fewest=fewest
                )
                live = np.asarray(beam_search.live_rows(state))
                if not 0 < live.sum() <= fewest:
                    break
                left.append((rows, _finished(state, settings)))
                kept = np.argsort(~live, kind="stable")[:fewest]
                encoded, state = model.take(encoded, state, kept, settings=settings)
                rows = rows[kept]
            if not live.any():
                break
        whole, *others = [*left, (rows, _finished(state, settings))]
        for rows, later in others:
            for leaf, new in zip(jax.tree.leaves(whole[1]), jax.tree.leaves(later), strict=True):
                leaf[rows] = new
        return whole[1]

    def _fewest(self, rows: int) -> int:
        """Returns how many rows of a batch are kept when the others are done; 0: all stay."""
        return 0 if self.fixed or rows // 4 < _FEWEST else rows // 4

    def _rows(self, sources: int) -> int:
        """Returns the rows of a batch for a number of sources."""
        if self.fixed:
            return self.batch_size
        return min(self.batch_size, max(_FEWEST, 1 << (sources - 1).bit_length()))

    def _language_ids(self, sources: Sequence[Source], rows: int) -> Int[np.ndarray, "B"] | None:
        """Returns the language id of each row, 0 for rows that fill the batch up; None without any.
        """
        given = [source.language for source in sources if source.language is not None]
        if not given:
            return None
        if len(given) < len(sources):
            raise ValueError("some sources have a language id and others have none")
        return np.array(given + [0] * (rows - len(given)), np.int32)

    def _limits(self, sources: Sequence[Source], bucket: Bucket, rows: int) -> RowLimits:
        """Returns the constraints of each row; rows that fill the batch up decode nothing."""
        least = np.zeros(rows, np.int32)
        most, forced = least.copy(), np.full((rows, bucket.prefix), -1, np.int32)
        noise = np.zeros((rows, 2), np.uint32)
        for row, source in enumerate(sources):
            least[row] = self.decoding.shortest(len(source.tokens))
            most[row] = self.decoding.longest(len(source.tokens))
            most[row] += sum(phrase.longest for phrase in source.phrases)
            forced[row, : len(source.prefix)] = source.prefix
            identity = f"{self.decoding.seed} {list(source.tokens)}".encode()
            noise[row] = np.frombuffer(hashlib.sha256(identity).digest()[:8], np.uint32)
        return RowLimits(
            jnp.asarray(most),
            min_lengths=jnp.asarray(least) if self.decoding.min_length_ratio else None,
            prefix=jnp.asarray(forced) if bucket.prefix else None,
            noise=jnp.asarray(noise) if self.decoding.temperature else None,
            constraints=self._constraints(sources, bucket, rows) if bucket.required else None,
        )

    def _constraints(self, sources: Sequence[Source], bucket: Bucket, rows: int) -> Constraints:
        """Returns the required phrases of each row."""
        assert self.edges is not None, "phrases need the word edges of tokens"
        phrases, alternatives, tokens = bucket.phrases
        return constraints.constraints(
            [source.phrases for source in sources],
            (rows, phrases, alternatives, tokens),
            self.edges,
        )


def check_prefixes(sources: Sequence[Source], decoding: Decoding) -> None:
    """Raises ValueError for a source with a prefix that leaves no room for the end token."""
    for source in sources:
        most = decoding.longest(len(source.tokens))
        if len(source.prefix) + 1 > most:
            raise ValueError(
                f"prefix of {len(source.prefix)} tokens; the longest translation of this line "
                f"has {most}, with its end"
            )


def _power_of_two(number: int, *, least: int) -> int:
    return max(least, 1 << (number - 1).bit_length())


def bucket_length(tokens: int, longest: int) -> int:
    """Returns the length of the batches of a source: a power of two from 16, at most `longest`."""
    return min(_power_of_two(tokens, least=16), longest)


def segment_ends(longest: int) -> list[int]:
    """Returns the steps at which segments of a search end: [16, 32, 64, 80] for 80.

    A step's time grows with the length of the cache, and most translations are short. A length is
    compiled when the first search reaches it.
    """
    return [*itertools.takewhile(lambda n: n < longest, (16 << i for i in range(32))), longest]


def _finished(state: State, settings: BeamSettings) -> Hypotheses:
    """Returns the best hypotheses, on the host; NaN for rows with a live score of NaN."""
    broken = np.isnan(state.live.scores).any(axis=1, keepdims=True)
    finished = jax.tree.map(np.array, beam_search.best(state, settings))
    return finished._replace(scores=np.where(broken, np.nan, finished.scores))


def _sequence(hypothesis: Hypotheses, settings: BeamSettings) -> DecodedSequence:
    """Cuts one hypothesis (tokens [T], score, token scores [T] or None) after its end token."""
    tokens = hypothesis.tokens.tolist()
    ends = [i for i, token in enumerate(tokens) if token in (settings.eos, settings.pad)]
    length = len(tokens) if not ends else ends[0] + (tokens[ends[0]] == settings.eos)
    token_scores = hypothesis.token_scores
    kept_scores = [] if token_scores is None else token_scores[:length].tolist()
    return DecodedSequence(tokens[:length], kept_scores, float(hypothesis.scores))
