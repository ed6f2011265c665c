"""Batches of fixed shapes for sources of similar length.

A source's bucket depends on its own length only: 16, 32, 64, ... tokens. A batch always has
`batch_size` rows of its bucket's length, and its search runs in segments of fixed lengths
(`mmt.decoding.segments`). So every source meets the same compiled programs, whichever sources share
its batch, and its result does not depend on them. Without `fixed`, batches may be smaller, and this
guarantee is lost. This module knows token ids only: `mmt.translate` makes sources of lines.
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Mapping, Sequence
from concurrent import futures
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from mmt.decoding import constraints, segments
from mmt.decoding.beam_search import Hypotheses, RowLimits
from mmt.decoding.constraints import Constraints, RequiredPhrase, WordEdges
from mmt.decoding.options import Decoding
from mmt.decoding.segments import Rows, SearchModel, SegmentedSearch
from mmt.decoding.settings import BeamSettings
from mmt.system import environment

_CONCURRENT_SEARCHES = 4
_BEAM_FACTOR = 2  # times as many beams if phrases are required


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
    """The shape of a batch. It decides which compiled programs a source meets.

    Attributes:
        length: source tokens: a power of two from 16, at most the model's longest.
        prefix: tokens of forced prefixes, a multiple of 16.
        required: tokens of all required phrases, a power of two from 32; 0 without any.
        phrases: maximum numbers of phrases, of alternatives of a phrase, and of tokens of an
            alternative: powers of two from 4, 4 and 8, so that few shapes are compiled; zeros
            without phrases.
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


@dataclasses.dataclass(frozen=True)
class BucketedBatches:
    """A model and the options of a search, applied to sources in batches of fixed shapes.

    Attributes:
        model: functions of the model.
        decoding: options of the search.
        batch_size: rows of every batch; missing sources are filled up.
        longest: maximum tokens of a source.
        fixed: whether a batch of fewer sources has `batch_size` rows too. If not, it has the
            smallest sufficient power of two of rows, at least 4 for several sources, and shrinks to
            a quarter of its rows as soon as the others are done; and short sources are encoded at
            three quarters of their bucket's length. This is faster, but by rounding a result may
            depend on other sources.
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
        parts = self._parts(
            {
                bucket: list(members)
                for bucket, members in itertools.groupby(
                    order, key=lambda i: self._bucket(sources[i])
                )
            }
        )
        decoded: dict[int, list[DecodedSequence]] = {}
        searches = concurrent_searches()
        with futures.ThreadPoolExecutor(searches) as threads:
            # A new thread takes milliseconds, and a mesh applies only in the thread that sets it.
            run = threads.map if searches > 1 and len(parts) > 1 else map
            for sequences in run(lambda part: self._search_part(sources, *part), parts):
                decoded |= sequences
        return [decoded[i] for i in range(len(sources))]

    def _parts(self, members: Mapping[Bucket, list[int]]) -> list[tuple[Bucket, list[int]]]:
        """Divides buckets into parts for the threads; parts of long sources come first.

        No part is larger than a thread's share of all batches. Long sources take the most steps, so
        starting them last would leave the other threads idle.
        """
        count, size = sum(map(len, members.values())), self.batch_size
        batches = -(-count // (size * concurrent_searches()))
        parts = [
            (bucket, numbers[start : start + batches * size])
            for bucket, numbers in members.items()
            for start in range(0, len(numbers), batches * size)
        ]
        return sorted(parts, key=lambda part: (-part[0].length, -len(part[1])))

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
            _power_of_two(sum(phrase.longest for phrase in phrases), least=32) if phrases else 0,
            shape,
        )

    def _search_part(
        self, sources: Sequence[Source], bucket: Bucket, numbers: Sequence[int]
    ) -> dict[int, list[DecodedSequence]]:
        """Returns the hypotheses of sources of one bucket, by their numbers."""
        settings = self.decoding.settings(
            self.decoding.longest(bucket.length) + bucket.required,
            start=self.model.start, eos=self.model.eos, pad=self.model.pad,
            token_scores=self.token_scores,
        )  # fmt: skip
        if bucket.required:
            settings = dataclasses.replace(settings, beams=_BEAM_FACTOR * settings.beams)
        search = SegmentedSearch(self.model, settings, batch_size=self.batch_size, fixed=self.fixed)
        batches = (
            self._prefilled(
                {number: sources[number] for number in numbers[start : start + self.batch_size]},
                bucket, settings, search.cache_length,
            )
            for start in range(0, len(numbers), self.batch_size)
        )  # fmt: skip
        hypotheses = search.search(batches)
        if any(np.isnan(each.scores).any() for each in hypotheses.values()):
            raise ValueError("the model's output is not a number (NaN): did its training diverge?")
        return {
            number: [
                _sequence(jax.tree.map(lambda leaf, at=i: leaf[at], each), settings)
                for i in np.flatnonzero(each.scores > -np.inf)
            ]
            for number, each in hypotheses.items()
        }

    def _prefilled(
        self,
        sources: Mapping[int, Source],
        bucket: Bucket,
        settings: BeamSettings,
        cache_length: int,
    ) -> Rows:
        """Returns a batch of sources, before the first step of their search."""
        rows = segments.rows_of(len(sources), self.batch_size, self.fixed, beams=settings.beams)
        batch = list(sources.values())
        tokens = np.full((rows, self._encoded_length(batch, bucket)), self.model.pad, np.int32)
        numbers = np.full(rows, -1)
        numbers[: len(sources)] = list(sources)
        for row, source in enumerate(batch):
            tokens[row, : len(source.tokens)] = source.tokens
        encoded, state = self.model.prefill(
            tokens,
            self._limits(batch, bucket, rows),
            settings=settings,
            cache_length=cache_length,
            source_length=bucket.length,
            language_ids=self._language_ids(batch, rows),
        )
        return Rows(numbers, encoded, state)

    def _encoded_length(self, sources: Sequence[Source], bucket: Bucket) -> int:
        """Returns the length at which a batch is encoded: three quarters of its bucket's length if
        all sources fit; always all of it with `fixed`.
        """
        shorter = 3 * bucket.length // 4
        fits = all(len(source.tokens) <= shorter for source in sources)
        return shorter if fits and not self.fixed else bucket.length

    def _language_ids(self, sources: Sequence[Source], rows: int) -> Int[np.ndarray, "B"] | None:
        """Returns the language id of each row, 0 for empty rows; None if no source has one."""
        language_ids = [source.language for source in sources if source.language is not None]
        if not language_ids:
            return None
        if len(language_ids) < len(sources):
            raise ValueError("some sources have a language id and others have none")
        return np.array(language_ids + [0] * (rows - len(language_ids)), np.int32)

    def _limits(self, sources: Sequence[Source], bucket: Bucket, rows: int) -> RowLimits:
        """Returns the constraints of each row; rows that fill the batch up decode nothing."""
        min_lengths = np.zeros(rows, np.int32)
        max_lengths, prefixes = min_lengths.copy(), np.full((rows, bucket.prefix), -1, np.int32)
        noise = np.zeros((rows, 2), np.uint32)
        for row, source in enumerate(sources):
            min_lengths[row] = self.decoding.shortest(len(source.tokens))
            max_lengths[row] = self.decoding.longest(len(source.tokens))
            max_lengths[row] += sum(phrase.longest for phrase in source.phrases)
            prefixes[row, : len(source.prefix)] = source.prefix
            identity = f"{self.decoding.seed} {list(source.tokens)}".encode()
            noise[row] = np.frombuffer(hashlib.sha256(identity).digest()[:8], np.uint32)
        return RowLimits(
            jnp.asarray(max_lengths),
            min_lengths=jnp.asarray(min_lengths) if self.decoding.min_length_ratio else None,
            prefix=jnp.asarray(prefixes) if bucket.prefix else None,
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


def concurrent_searches() -> int:
    """Returns how many searches run at once: several on one CPU device, else one.

    One search leaves cores idle: the steps of small batches are short, and mostly single-threaded.
    """
    if jax.default_backend() != "cpu" or jax.sharding.get_abstract_mesh().size > 1:
        return 1
    return min(_CONCURRENT_SEARCHES, environment.cores())


def check_prefixes(sources: Sequence[Source], decoding: Decoding) -> None:
    """Raises ValueError for a source with a prefix that leaves no room for the end token."""
    for source in sources:
        max_length = decoding.longest(len(source.tokens))
        if len(source.prefix) + 1 > max_length:
            raise ValueError(
                f"prefix of {len(source.prefix)} tokens; a translation of this line has at "
                f"most {max_length} tokens, end token included"
            )


def _power_of_two(number: int, *, least: int) -> int:
    return max(least, 1 << (number - 1).bit_length())


def bucket_length(tokens: int, longest: int) -> int:
    """Returns the length of the batches of a source: a power of two from 16, at most `longest`."""
    return min(_power_of_two(tokens, least=16), longest)


def _sequence(hypothesis: Hypotheses, settings: BeamSettings) -> DecodedSequence:
    """Cuts one hypothesis (tokens [T], score, token scores [T] or None) after its end token."""
    tokens = hypothesis.tokens.tolist()
    ends = [i for i, token in enumerate(tokens) if token in (settings.eos, settings.pad)]
    length = len(tokens) if not ends else ends[0] + (tokens[ends[0]] == settings.eos)
    token_scores = hypothesis.token_scores
    kept_scores = [] if token_scores is None else token_scores[:length].tolist()
    return DecodedSequence(tokens[:length], kept_scores, float(hypothesis.scores))
