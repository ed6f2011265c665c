"""`TransformerSearch`: compiled prefill and decode segments of a `Transformer`, for a search."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from mmt.decoding import Decoding, beam_search, segments
from mmt.decoding.beam_search import RowLimits, State
from mmt.decoding.settings import BeamSettings
from mmt.model.ensemble import Ensemble, Members
from mmt.model.kv_cache import CrossKV, KVCache
from mmt.model.transformer import Transformer

Model = Transformer | Ensemble
EncodedSource = CrossKV | Members


@dataclasses.dataclass(frozen=True)
class TransformerSearch:
    """A `segments.SearchModel` of a Transformer, or of an ensemble, and its parameters.

    Attributes:
        model: the model.
        params: its parameters.
        vocabulary: number of logits that count; a model may have more, which have no piece.
    """

    model: Model
    params: Any
    vocabulary: int

    @property
    def pad(self) -> int:
        return self.model.config.pad_id

    @property
    def eos(self) -> int:
        return self.model.config.eos_id

    @property
    def start(self) -> int:
        return self.model.config.start_id

    def prefill(
        self,
        source: Int[np.ndarray, "B S"],
        limits: RowLimits,
        *,
        settings: BeamSettings,
        cache_length: int,
        source_length: int,
        language_ids: Int[np.ndarray, "B"] | None = None,
    ) -> tuple[EncodedSource, State]:
        """See `segments.SearchModel`."""
        return prefill(
            self.model, self.params, source, limits, language_ids,
            settings=settings, cache_length=cache_length, source_length=source_length,
        )  # fmt: skip

    def decode_segment(
        self,
        encoded: EncodedSource,
        state: State,
        *,
        settings: BeamSettings,
        cache_length: int,
        end: int,
        fewest: int = 0,
    ) -> State:
        """See `segments.SearchModel`."""
        return decode_segment(
            self.model, self.params, encoded, state, np.int32(end), np.int32(fewest),
            settings=settings, cache_length=cache_length, vocabulary=self.vocabulary,
        )  # fmt: skip

    def take(
        self,
        parts: Sequence[tuple[EncodedSource, State]],
        rows: Int[np.ndarray, "R"],
        *,
        settings: BeamSettings,
    ) -> tuple[EncodedSource, State]:
        """See `segments.SearchModel`."""
        return take(tuple(parts), rows, settings=settings)


@functools.partial(
    jax.jit, static_argnames=("model", "settings", "cache_length", "source_length")
)
def prefill(
    model: Model,
    params: Any,
    source: Int[Array, "B S"],
    limits: RowLimits,
    language_ids: Int[Array, "B"] | None = None,
    *,
    settings: BeamSettings,
    cache_length: int,
    source_length: int,
) -> tuple[EncodedSource, State]:
    """Encodes `source`, fills it up to `source_length` tokens, and starts a search with a cache of
    `cache_length` tokens.
    """
    variables = {"params": params}
    encoded = model.apply(variables, source, language_ids=language_ids, method="encode")
    cross_kv: Any = model.apply(variables, encoded, source, language_ids, method="cross_kv")
    rows = source.shape[0]
    cache = model.apply(variables, rows, cache_length, settings.beams, method="empty_cache")
    return cross_kv.padded(source_length), beam_search.start(
        cache, limits=limits, settings=settings
    )


@functools.partial(
    jax.jit, static_argnames=("model", "settings", "cache_length", "vocabulary")
)
def decode_segment(
    model: Model,
    params: Any,
    cross_kv: EncodedSource,
    state: State,
    end: Int[Array, ""] | int,
    fewest: Int[Array, ""] | int = 0,
    *,
    settings: BeamSettings,
    cache_length: int,
    vocabulary: int,
) -> State:
    """Continues a search to `end` tokens, with a cache of `cache_length`, or until at most `fewest`
    rows are not done.
    """
    variables = {"params": params}
    rows = state.last.shape[0] // settings.beams
    longer: Any = model.apply(variables, rows, cache_length, settings.beams, method="empty_cache")
    cache = jax.tree.map(
        lambda new, old: new.at[tuple(map(slice, old.shape))].set(old), longer, state.cache
    )

    def step(tokens: Int[Array, "N"], cache: Any) -> tuple[Array, KVCache | Members]:
        logits, cache = model.apply(variables, tokens, cross_kv, cache, method="decode_step")
        return logits[:, :vocabulary], cache

    state = state._replace(cache=cache)
    return beam_search.extend(step, state, settings=settings, max_step=end, fewest=fewest)


@functools.partial(jax.jit, static_argnames="settings")
def take(
    parts: Sequence[tuple[EncodedSource, State]], rows: Int[Array, "R"], *, settings: BeamSettings
) -> tuple[EncodedSource, State]:
    """Returns encoded sources and the search of rows of several batches."""
    (first, *others), states = zip(*parts, strict=True)
    state = beam_search.take(states, rows, settings=settings)
    return first.take(jnp.maximum(rows, 0), *others), state


def trace(
    model: Model,
    params: Any,
    decoding: Decoding,
    *,
    source: jax.ShapeDtypeStruct,
    place: Callable[[jax.ShapeDtypeStruct], jax.ShapeDtypeStruct],
) -> jax.stages.Traced:
    """Traces the first segment of a search, after the encoder, from shapes only.

    Args:
        model: the model.
        params: shapes of its parameters.
        decoding: options of the search.
        source: shape of the source tokens [B S].
        place: returns a shape of the encoded source or of the search state with its sharding.
    """
    config = model.config
    settings = decoding.settings(
        decoding.longest(source.shape[1]),
        start=config.start_id, eos=config.eos_id, pad=config.pad_id,
    )  # fmt: skip
    max_lengths: Any = jax.ShapeDtypeStruct(source.shape[:1], jnp.int32)
    cache_length = segments.segments(settings.max_length, source.shape[0])[0].cache_length
    languages = jax.ShapeDtypeStruct(source.shape[:1], jnp.int32) if config.languages else None
    shapes = jax.eval_shape(
        functools.partial(
            prefill, model,
            settings=settings, cache_length=cache_length, source_length=source.shape[1],
        ),
        params, source, RowLimits(max_lengths), languages,
    )  # fmt: skip
    cross_kv, state = jax.tree.map(place, shapes)
    segment = functools.partial(
        decode_segment, model,
        settings=settings, cache_length=cache_length, vocabulary=config.target_vocabulary,
    )  # fmt: skip
    # All parameters are arguments, the encoder's too, because they occupy the devices.
    return jax.jit(segment, keep_unused=True).trace(params, cross_kv, state, cache_length)
