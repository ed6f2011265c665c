"""Searches in segments: rows that go on together fill batches, and done ones leave them.

The segments of one cache length have one program, which every row meets in a batch of the same
shape, whatever rows share it. So its result does not depend on them, and no row waits for another
one longer than a cache lasts.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Bool, Int

from mmt.decoding import beam_search
from mmt.decoding.beam_search import Hypotheses, RowLimits, State
from mmt.decoding.settings import BeamSettings

_SHORTEST = 16  # tokens of the shortest cache
_STEPS = 8  # of the shortest segment
_FEWEST = 4  # rows: CPUs compute products of fewer rows in bfloat16 and int8 slowly
_LEAST = 4  # rows of the batches with long caches


class SearchSegment(NamedTuple):
    """Steps of a search that a batch does together.

    Attributes:
        end: the steps of the search when it is done.
        cache_length: tokens that the cache has room for.
        rows: rows of a full batch.
    """

    end: int
    cache_length: int
    rows: int


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
        cache_length: int,
        language_ids: Int[np.ndarray, "B"] | None = None,
    ) -> tuple[Any, State]:
        """Encodes the source. Returns what decoding needs of it, and a search before its first
        step with a cache of `cache_length` tokens.
        """
        ...

    def decode_segment(
        self,
        encoded: Any,
        state: State,
        *,
        settings: BeamSettings,
        cache_length: int,
        end: int,
        fewest: int = 0,
    ) -> State:
        """Continues the search to `end` tokens, with a cache of `cache_length`, or until at most
        `fewest` rows are not done.
        """
        ...

    def take(
        self,
        parts: Sequence[tuple[Any, State]],
        rows: Int[np.ndarray, "R"],
        *,
        settings: BeamSettings,
    ) -> tuple[Any, State]:
        """Returns rows of several batches after the same step as one: what decoding needs of them,
        and their search. The rows of all are counted through; -1 is a row without a hypothesis.
        """
        ...


class Rows(NamedTuple):
    """Rows of a batch.

    Attributes:
        sources: the number of each row's source; -1 for a row without one.
        encoded: what decoding needs of the sources.
        state: their search.
    """

    sources: Int[np.ndarray, "B"]
    encoded: Any
    state: State


class SegmentedSearch:
    """Searches batches of one shape, segment by segment.

    Rows that are not done after a segment wait until rows of other batches fill a batch with them.
    The longer their cache, the smaller is their batch, since few rows run for long.

    Args:
        model: functions of the model.
        settings: settings of the search.
        batch_size: rows of a full batch in the first segment.
        fixed: whether batches of fewer sources are filled up, so that every row meets the same
            programs. Else they have the least power of two that suffices, from 4, and a batch goes
            on with a quarter of its rows as soon as the others are done.
    """

    def __init__(
        self, model: SearchModel, settings: BeamSettings, *, batch_size: int, fixed: bool
    ) -> None:
        self._model, self._settings = model, settings
        self._fixed = fixed
        self._segments = segments(settings.max_length, batch_size)
        self._waiting: list[Rows | None] = [None] * len(self._segments)
        self._found: dict[int, Hypotheses] = {}

    @property
    def cache_length(self) -> int:
        """Returns the length of the cache that `prefill` makes."""
        return self._segments[0].cache_length

    def search(self, batches: Iterable[Rows]) -> dict[int, Hypotheses]:
        """Returns the hypotheses of each source, on the host, by its number.

        A row whose search met NaN has it as score.
        """
        for batch in batches:
            self._run(batch, 0)
        for number, segment in enumerate(self._segments):
            if (rows := self._waiting[number]) is not None:
                self._waiting[number] = None
                places = np.flatnonzero(rows.sources >= 0)
                size = rows_of(len(places), segment.rows, self._fixed)
                self._run(self._take([rows], places, size), number)
        return self._found

    def _run(self, rows: Rows, number: int) -> None:
        """Searches rows to the end of a segment."""
        number = self._last(rows, number)
        segment = self._segments[number]
        while True:
            fewest = self._fewest(len(rows.sources))
            state = self._model.decode_segment(
                rows.encoded, rows.state, settings=self._settings,
                cache_length=segment.cache_length, end=segment.end, fewest=fewest,
            )  # fmt: skip
            rows = rows._replace(state=state)
            live = np.asarray(beam_search.live_rows(state))
            if number == len(self._segments) - 1 and live.sum() > fewest:
                live = np.zeros_like(live)  # at the maximum length
            if not live.all():
                self._note(rows, ~live)
            rows = rows._replace(sources=np.where(live, rows.sources, -1))
            if not live.any():
                return
            if live.sum() > fewest:
                self._go_on(rows, number + 1)
                return
            rows = self._take([rows], np.flatnonzero(live), fewest)

    def _last(self, rows: Rows, number: int) -> int:
        """Returns the segment after which a batch stops.

        Where few other rows could join it, it goes on while its cache suffices, which spares calls.
        """
        segment, size = self._segments[number], self._segments[0].rows
        if size > _LEAST and 2 * np.count_nonzero(rows.sources >= 0) > segment.rows:
            return number
        while (
            number + 1 < len(self._segments)
            and self._segments[number + 1].cache_length == segment.cache_length
            and self._waiting[number + 1] is None
        ):
            number += 1
        return number

    def _fewest(self, rows: int) -> int:
        """Returns how many rows of a batch are kept when the others are done; 0: all stay."""
        return 0 if self._fixed or rows // 4 < _FEWEST else rows // 4

    def _go_on(self, rows: Rows, number: int) -> None:
        """Runs the next segment of rows, as far as they fill batches; the others wait."""
        waiting, size = self._waiting[number], self._segments[number].rows
        parts = [rows] if waiting is None else [waiting, rows]
        places = np.flatnonzero(np.concatenate([part.sources for part in parts]) >= 0)
        while len(places) >= size:
            self._run(self._take(parts, places[:size], size), number)
            places = places[size:]
        if len(places) and (waiting is not None or len(rows.sources) > size):
            rows = self._take(parts, places, size)
        self._waiting[number] = rows if len(places) else None

    def _take(self, parts: Sequence[Rows], places: Int[np.ndarray, "R"], size: int) -> Rows:
        """Returns `size` rows: those at some places, counted through the parts, then empty ones."""
        sources = np.concatenate([part.sources for part in parts])
        if len(parts) == 1 and size == len(sources) and (np.delete(sources, places) < 0).all():
            return parts[0]
        places = np.concatenate([places, np.full(size - len(places), -1, places.dtype)])
        encoded, state = self._model.take(
            [(part.encoded, part.state) for part in parts], places, settings=self._settings
        )
        return Rows(np.where(places >= 0, sources[places], -1), encoded, state)

    def _note(self, rows: Rows, done: Bool[np.ndarray, "B"]) -> None:
        """Keeps the hypotheses of rows that are done."""
        best = jax.tree.map(np.asarray, beam_search.best(rows.state, self._settings))
        broken = np.isnan(rows.state.live.scores).any(axis=1, keepdims=True)
        best = best._replace(scores=np.where(broken, np.nan, best.scores))
        for row in np.flatnonzero(done & (rows.sources >= 0)):
            of_row = jax.tree.map(lambda leaf, row=row: leaf[row], best)
            self._found[int(rows.sources[row])] = of_row


def rows_of(sources: int, batch_size: int, fixed: bool) -> int:
    """Returns the rows of a batch for a number of sources."""
    if fixed:
        return batch_size
    return min(batch_size, max(_FEWEST, 1 << (sources - 1).bit_length()))


def segments(longest: int, batch_size: int) -> list[SearchSegment]:
    """Returns the segments of a search of `longest` tokens.

    A step's time grows with the length of the cache, and most translations are short. So the cache
    grows, and the batches of a longer one have fewer rows and longer segments. A length is compiled
    when the first search reaches it.

    >>> [(segment.end, segment.cache_length, segment.rows) for segment in segments(90, 32)][3:]
    [(32, 32, 16), (40, 64, 8), (48, 64, 8), (56, 64, 8), (64, 64, 8), (80, 90, 4), (90, 90, 4)]
    """
    found: list[SearchSegment] = []
    least, end, cache, rows = min(_LEAST, batch_size), 0, _SHORTEST, batch_size
    while end < longest:
        if end == cache:
            cache, rows = 2 * cache, max(least, rows // 2)
        end = min(end + max(_STEPS, cache // 8), longest)
        found.append(SearchSegment(end, min(cache, longest), rows))
    return found
