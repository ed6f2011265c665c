"""Searches in segments of a few steps: rows that are done leave their batch, and others join it.

All segments of one cache length run one compiled program on batches of one shape. So the result of
a row does not depend on the other rows of its batch, and no row waits for others longer than one
cache length.
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
_FEWEST = 4  # rows of several sources; smaller batches would need further programs to compile
_FEWEST_HYPOTHESES = 2  # CPUs compute products of one row in bfloat16 and int8 slowly
_LEAST = 4  # rows of the batches with long caches


class SearchSegment(NamedTuple):
    """A number of steps of a search, after which rows may leave their batch.

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
        source_length: int,
        language_ids: Int[np.ndarray, "B"] | None = None,
    ) -> tuple[Any, State]:
        """Encodes the source. Returns the encoded source, filled up to `source_length` tokens, and
        a search before its first step with a cache of `cache_length` tokens.
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
        """Returns the encoded sources and the search of rows of several batches, which have done
        the same number of steps. `rows` counts through the batches; -1 is an empty row.
        """
        ...


class Rows(NamedTuple):
    """A batch of rows.

    Attributes:
        sources: the number of each row's source; -1 for an empty row.
        encoded: the encoded sources.
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
            programs. If not, a batch has as many rows as `rows_of` returns, and shrinks to a
            quarter of them as soon as the others are done.
    """

    def __init__(
        self, model: SearchModel, settings: BeamSettings, *, batch_size: int, fixed: bool
    ) -> None:
        self._model, self._settings = model, settings
        self._fixed = fixed
        self._segments = segments(settings.max_length, batch_size)
        self._waiting: list[Rows | None] = [None] * len(self._segments)
        self._hypotheses: dict[int, Hypotheses] = {}

    @property
    def cache_length(self) -> int:
        """Returns the length of the cache that `prefill` makes."""
        return self._segments[0].cache_length

    def search(self, batches: Iterable[Rows]) -> dict[int, Hypotheses]:
        """Returns the hypotheses of each source, on the host, by its number.

        The scores of a row whose search met NaN are NaN.
        """
        for batch in batches:
            self._run(batch, 0)
        for number, segment in enumerate(self._segments):
            if (rows := self._waiting[number]) is not None:
                self._waiting[number] = None
                indices = np.flatnonzero(rows.sources >= 0)
                beams = self._settings.beams
                size = rows_of(len(indices), segment.rows, self._fixed, beams=beams)
                self._run(self._take([rows], indices, size), number)
        return self._hypotheses

    def _run(self, rows: Rows, number: int) -> None:
        """Searches rows to the end of a segment."""
        number = self._last_segment(rows, number)
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
                self._store_finished(rows, ~live)
            rows = rows._replace(sources=np.where(live, rows.sources, -1))
            if not live.any():
                return
            if live.sum() > fewest:
                self._continue(rows, number + 1)
                return
            rows = self._take([rows], np.flatnonzero(live), fewest)

    def _last_segment(self, rows: Rows, number: int) -> int:
        """Returns the number of the segment after which a batch stops.

        A batch that few other rows could join continues while its cache suffices: fewer calls.
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
        """Returns the number of rows that a batch of `rows` shrinks to; 0: it does not shrink."""
        return 0 if self._fixed or rows // 4 < _FEWEST else rows // 4

    def _continue(self, rows: Rows, number: int) -> None:
        """Runs a segment of the rows that fill a batch, with those that wait; the others wait."""
        waiting, size = self._waiting[number], self._segments[number].rows
        parts = [rows] if waiting is None else [waiting, rows]
        indices = np.flatnonzero(np.concatenate([part.sources for part in parts]) >= 0)
        while len(indices) >= size:
            self._run(self._take(parts, indices[:size], size), number)
            indices = indices[size:]
        if len(indices) and (waiting is not None or len(rows.sources) > size):
            rows = self._take(parts, indices, size)
        self._waiting[number] = rows if len(indices) else None

    def _take(self, parts: Sequence[Rows], indices: Int[np.ndarray, "R"], size: int) -> Rows:
        """Returns `size` rows: those at `indices`, counted through the parts, then empty ones."""
        sources = np.concatenate([part.sources for part in parts])
        if len(parts) == 1 and size == len(sources) and (np.delete(sources, indices) < 0).all():
            return parts[0]
        indices = np.concatenate([indices, np.full(size - len(indices), -1, indices.dtype)])
        encoded, state = self._model.take(
            [(part.encoded, part.state) for part in parts], indices, settings=self._settings
        )
        return Rows(np.where(indices >= 0, sources[indices], -1), encoded, state)

    def _store_finished(self, rows: Rows, is_done: Bool[np.ndarray, "B"]) -> None:
        """Stores the hypotheses of rows that are done; NaN scores if the search met NaN."""
        best = jax.tree.map(np.asarray, beam_search.best(rows.state, self._settings))
        broken = np.isnan(rows.state.live.scores).any(axis=1, keepdims=True)
        best = best._replace(scores=np.where(broken, np.nan, best.scores))
        for row in np.flatnonzero(is_done & (rows.sources >= 0)):
            of_row = jax.tree.map(lambda leaf, row=row: leaf[row], best)
            self._hypotheses[int(rows.sources[row])] = of_row


def rows_of(sources: int, batch_size: int, fixed: bool, *, beams: int) -> int:
    """Returns the rows of a batch for a number of sources.

    >>> [rows_of(count, 32, fixed=False, beams=4) for count in (1, 2, 4, 5, 31)]
    [1, 4, 4, 8, 32]
    >>> rows_of(1, 32, fixed=False, beams=1), rows_of(1, 32, fixed=True, beams=4)
    (2, 32)
    """
    if fixed:
        return batch_size
    least = _FEWEST if sources > 1 else max(1, _FEWEST_HYPOTHESES // beams)
    return min(batch_size, max(least, 1 << (sources - 1).bit_length()))


def segments(longest: int, batch_size: int) -> list[SearchSegment]:
    """Returns the segments of a search of `longest` tokens.

    A step's time grows with the length of the cache, and most translations are short. So the cache
    grows during a search. With a longer cache, batches have fewer rows and segments more steps. A
    cache length is compiled when the first search reaches it.

    >>> [(segment.end, segment.cache_length, segment.rows) for segment in segments(90, 32)][3:]
    [(32, 32, 16), (40, 64, 8), (48, 64, 8), (56, 64, 8), (64, 64, 8), (80, 90, 4), (90, 90, 4)]
    """
    result: list[SearchSegment] = []
    least, end, cache, rows = min(_LEAST, batch_size), 0, _SHORTEST, batch_size
    while end < longest:
        if end == cache:
            cache, rows = 2 * cache, max(least, rows // 2)
        end = min(end + max(_STEPS, cache // 8), longest)
        result.append(SearchSegment(end, min(cache, longest), rows))
    return result
