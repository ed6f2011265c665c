"""Sources of like length, searched together in tiles of a fixed shape.

A tile has always the same number of rows, is as long as the bucket that each of its sources falls
into by its own length, and its search goes on in steps that depend on nothing else. So a source
meets the same compiled program, whatever shares its tile, and its results are its own. There is no
text here: `translate` makes sources of lines.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from mmt.decoding import beam_search
from mmt.decoding.options import Decoding
from mmt.model.transformer import KVCache, Memory, Transformer
from mmt.sharding import Layout


class Source(NamedTuple):
    """Token ids of a source with its end, and of what its translations begin with."""

    tokens: Sequence[int]
    prefix: Sequence[int] = ()


class Found(NamedTuple):
    """A hypothesis: token ids, with the end where it has one, their scores if these are kept, and
    its own.
    """

    tokens: list[int]
    token_scores: list[float]
    score: float


@dataclasses.dataclass(frozen=True)
class Tiles:
    """A model with a way to search. The first `vocabulary` logits count: a model may have more, for
    which there is no text. `longest`: tokens of a source at most. layout: where the parameters lie,
    if on more than one device; the rows are cut as its batch. token_scores: whether to keep them.
    """

    model: Transformer
    params: Any
    decoding: Decoding
    rows: int
    longest: int
    vocabulary: int
    layout: Layout | None = None
    token_scores: bool = False

    def search(self, sources: Sequence[Source]) -> list[list[Found]]:
        """The hypotheses of each source, best first, in the order given.

        Raises ValueError where the model's output is not a number, or a prefix leaves no room for
        the end.
        """
        for source in sources:
            most = self.decoding.longest(len(source.tokens))
            if len(source.prefix) + 1 > most:
                raise ValueError(
                    f"prefix of {len(source.prefix)} tokens; the longest translation of this line "
                    f"has {most}, with its end"
                )
        order = sorted(range(len(sources)), key=lambda i: (*self._shape(sources[i]), i))
        found: dict[int, list[Found]] = {}
        with self.layout.active() if self.layout else contextlib.nullcontext():
            for shape, same in itertools.groupby(order, key=lambda i: self._shape(sources[i])):
                while tile := list(itertools.islice(same, self.rows)):
                    found |= zip(tile, self._tile([sources[i] for i in tile], *shape), strict=True)
        return [found[i] for i in range(len(sources))]

    def _shape(self, source: Source) -> tuple[int, int]:
        """The lengths of source and prefix in the tile: 16, 32, 64, ... up to the longest, and a
        multiple of 16.
        """
        bucket = max(16, 1 << (len(source.tokens) - 1).bit_length())
        return min(bucket, self.longest), 16 * -(-len(source.prefix) // 16)

    def _tile(self, sources: Sequence[Source], bucket: int, prefix: int) -> list[list[Found]]:
        """Hypotheses of at most `rows` sources of one shape."""
        ids = self.model.config
        tokens = np.full((self.rows, bucket), ids.pad_id, np.int32)
        for row, source in enumerate(sources):
            tokens[row, : len(source.tokens)] = source.tokens
        settings = self.decoding.settings(
            self.decoding.longest(bucket),
            start=ids.start_id, eos=ids.eos_id, pad=ids.pad_id, token_scores=self.token_scores,
        )  # fmt: skip
        asked = self._asked(sources, prefix)
        memory, state = _begin(self.model, self.params, tokens, asked, settings=settings)
        for until in _cache_lengths(settings.max_length):
            state = _go_on(
                self.model, self.params, memory, state,
                settings=settings, until=until, vocabulary=self.vocabulary,
            )  # fmt: skip
            if not beam_search.any_live(state):
                break
        hypotheses = jax.tree.map(np.asarray, state.finished)
        if np.isnan(hypotheses.scores).any() or np.isnan(state.live.scores).any():
            raise ValueError("the model's output is not a number (NaN): did its training diverge?")
        return [
            [
                _found(jax.tree.map(lambda leaf, at=(row, i): leaf[at], hypotheses), settings)
                for i in np.flatnonzero(hypotheses.scores[row] > -np.inf)
            ]
            for row in range(len(sources))
        ]

    def _asked(self, sources: Sequence[Source], prefix: int) -> beam_search.Rows:
        """What is asked of the rows; those that fill up have nothing to decode."""
        least = np.zeros(self.rows, np.int32)
        most, forced = least.copy(), np.full((self.rows, prefix), -1, np.int32)
        noise = np.zeros((self.rows, 2), np.uint32)
        for row, source in enumerate(sources):
            least[row] = self.decoding.shortest(len(source.tokens))
            most[row] = self.decoding.longest(len(source.tokens))
            forced[row, : len(source.prefix)] = source.prefix
            own = f"{self.decoding.seed} {list(source.tokens)}".encode()
            noise[row] = np.frombuffer(hashlib.sha256(own).digest()[:8], np.uint32)
        return beam_search.Rows(
            jnp.asarray(most),
            min_lengths=jnp.asarray(least) if self.decoding.min_length_ratio else None,
            prefix=jnp.asarray(forced) if prefix else None,
            noise=jnp.asarray(noise) if self.decoding.temperature else None,
        )


@functools.partial(jax.jit, static_argnames=("model", "settings"))
def _begin(
    model: Transformer,
    params: Any,
    source: Int[Array, "B S"],
    asked: beam_search.Rows,
    *,
    settings: beam_search.BeamSettings,
) -> tuple[Memory, beam_search.State]:
    """Encodes, and sets up the search."""
    variables = {"params": params}
    encoded = model.apply(variables, source, method="encode")
    memory: Any = model.apply(variables, encoded, source, method="memory")
    rows = source.shape[0] * settings.beams
    cache = model.apply(
        variables, rows, _cache_lengths(settings.max_length)[0], method="empty_cache"
    )
    return memory, beam_search.start(cache, rows=asked, settings=settings)


@functools.partial(jax.jit, static_argnames=("model", "settings", "until", "vocabulary"))
def _go_on(
    model: Transformer,
    params: Any,
    memory: Memory,
    state: beam_search.State,
    *,
    settings: beam_search.BeamSettings,
    until: int,
    vocabulary: int,
) -> beam_search.State:
    """Searches up to `until` tokens, with a cache of that length."""
    variables = {"params": params}
    rows = state.last.shape[0]
    longer: Any = model.apply(variables, rows, until, method="empty_cache")
    cache = jax.tree.map(
        lambda new, old: new.at[tuple(map(slice, old.shape))].set(old), longer, state.cache
    )

    def step(tokens: Int[Array, "N"], cache: Any) -> tuple[Array, KVCache]:
        logits, cache = model.apply(variables, tokens, memory, cache, method="decode_step")
        return logits[:, :vocabulary], cache

    return beam_search.extend(step, state._replace(cache=cache), settings=settings, until=until)


def trace(
    model: Transformer,
    params: Any,
    decoding: Decoding,
    *,
    source: jax.ShapeDtypeStruct,
    place: Callable[[jax.ShapeDtypeStruct], jax.ShapeDtypeStruct],
) -> jax.stages.Traced:
    """The first steps of a search, after the encoder, traced from shapes alone.

    place: given a shape of the memory or the search's state, the same with its sharding.
    """
    ids = model.config
    settings = decoding.settings(
        decoding.longest(source.shape[1]), start=ids.start_id, eos=ids.eos_id, pad=ids.pad_id
    )
    most: Any = jax.ShapeDtypeStruct(source.shape[:1], jnp.int32)
    asked = beam_search.Rows(most)
    begun = jax.eval_shape(
        functools.partial(_begin, model, settings=settings), params, source, asked
    )
    memory, state = jax.tree.map(place, begun)
    until = _cache_lengths(settings.max_length)[0]
    vocabulary = ids.target_vocabulary
    step = functools.partial(
        _go_on, model, settings=settings, until=until, vocabulary=vocabulary
    )  # with all parameters, the encoder's too: they lie on the devices
    return jax.jit(step, keep_unused=True).trace(params, memory, state)


def _cache_lengths(longest: int) -> list[int]:
    """[16, 32, 64, 80] for 80. A step's time grows with the cache, and most outputs are short;
    only the lengths that come up are ever compiled."""
    return [*itertools.takewhile(lambda n: n < longest, (16 << i for i in range(32))), longest]


def _found(one: beam_search.Hypotheses, settings: beam_search.BeamSettings) -> Found:
    """A hypothesis of a tile: tokens [T], a score, and token scores [T] if they are kept."""
    tokens = one.tokens.tolist()
    ends = [i for i, token in enumerate(tokens) if token in (settings.eos, settings.pad)]
    length = len(tokens) if not ends else ends[0] + (tokens[ends[0]] == settings.eos)
    token_scores = [] if one.token_scores is None else one.token_scores[:length].tolist()
    return Found(tokens[:length], token_scores, float(one.scores))
