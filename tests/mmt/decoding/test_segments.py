"""Rows that go on for long fill batches of their own; each gets the hypotheses of its source."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt.decoding import beam_search
from mmt.decoding.beam_search import RowLimits
from mmt.decoding.segments import Rows, SearchModel, SegmentedSearch, rows_of, segments
from mmt.decoding.settings import BeamSettings

END, WORD, LONGEST = 1, 5, 80


class Steps(NamedTuple):
    """A cache of the steps that each hypothesis has done."""

    done: jax.Array

    def reorder(self, parents):
        return Steps(self.done)

    def take(self, rows, *others):
        together = jnp.concatenate([self.done, *(other.done for other in others)])
        return Steps(together.reshape(-1, 2)[rows].reshape(-1))


class Counting:
    """A model whose translations have as many tokens as the source says; it notes its batches."""

    pad, eos, start = 0, END, 0

    def __init__(self):
        self.batches: list[tuple[int, int]] = []  # rows, last step of the segment

    def prefill(self, source, limits, *, settings, cache_length, source_length, language_ids=None):
        cache = Steps(jnp.zeros(2 * len(source), jnp.int32))
        return jnp.asarray(source[:, 0]), beam_search.start(
            cache, limits=limits, settings=settings
        )

    def decode_segment(self, encoded, state, *, settings, cache_length, end, fewest=0):
        assert end <= cache_length
        self.batches.append((len(encoded), end))

        def step(tokens, cache):
            ends = (cache.done + 1 >= jnp.repeat(encoded, 2))[:, None]
            ids = jnp.arange(8)
            logits = jnp.where(ids == jnp.where(ends, END, WORD), 9.0, 0.0)
            return jnp.where((encoded < 0).any(), jnp.nan, logits), Steps(cache.done + 1)

        return beam_search.extend(
            step, state, settings=settings, max_step=end, fewest=fewest
        )

    def take(self, parts, rows, *, settings):
        encoded, states = zip(*parts, strict=True)
        taken = jnp.concatenate(encoded)[jnp.maximum(rows, 0)]
        return taken, beam_search.take(states, jnp.asarray(rows), settings=settings)


def search(lengths, *, fixed, size=16):
    """Returns the tokens found for each source, and the batches."""
    model = Counting()
    assert isinstance(model, SearchModel)
    settings = BeamSettings(LONGEST, beams=2, early_stopping="unlikely")
    segmented = SegmentedSearch(model, settings, batch_size=size, fixed=fixed)

    def batches():
        for start in range(0, len(lengths), size):
            given = lengths[start : start + size]
            rows = rows_of(len(given), size, fixed, beams=2)
            source, numbers = np.zeros((rows, 1), np.int32), np.full(rows, -1)
            source[: len(given), 0] = given
            numbers[: len(given)] = range(start, start + len(given))
            limits = RowLimits(jnp.where(jnp.arange(rows) < len(given), LONGEST, 0))
            encoded, state = model.prefill(
                source, limits, settings=settings, cache_length=segmented.cache_length,
                source_length=1,
            )
            yield Rows(numbers, encoded, state)

    return segmented.search(batches()), model.batches


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("count", [1, 3, 16, 50])
def test_every_source_gets_its_own_hypotheses(count, fixed):
    lengths = np.random.default_rng(count).integers(1, LONGEST, count).tolist()
    found, _ = search(lengths, fixed=fixed)
    assert sorted(found) == list(range(count))
    for number, length in enumerate(lengths):
        tokens = found[number].tokens[0].tolist()
        assert tokens == [WORD] * (length - 1) + [END] + [0] * (LONGEST - length)


def test_long_rows_of_many_batches_share_smaller_ones():
    lengths = ([3] * 12 + [12] * 2 + [30, 70]) * 8
    _, batches = search(lengths, fixed=True)
    assert [batches.count((16, end)) for end in (8, 16)] == [8, 2]
    assert [batches.count((8, end)) for end in (24, 32)] == [2, 2]
    assert [batches.count((4, end)) for end in (40, 48, 56, 64, 80)] == [2] * 5
    assert len(batches) == 24


def test_segments_of_one_cache_length_have_batches_of_one_size():
    ends = [each[:2] for each in segments(LONGEST, 16)]
    assert ends == [(8, 16), (16, 16), (24, 32), (32, 32), (40, 64), (48, 64), (56, 64), (64, 64),
                    (80, 80)]  # fmt: skip
    assert [each.rows for each in segments(LONGEST, 64)][::2] == [64, 32, 16, 16, 8]
    assert len(segments(5000, 64)) == 33
    assert segments(5, 4) == [(5, 5, 4)]


def test_a_row_does_not_wait_for_a_full_batch_at_the_end():
    found, batches = search([70, 2], fixed=False)
    assert batches == [(4, 16), (1, 32), (1, 64), (1, 80)] and len(found) == 2


def test_a_quarter_goes_on_when_the_others_are_done():
    found, batches = search([2] * 14 + [12, 13], fixed=False)
    assert batches == [(16, 8), (4, 8), (4, 16)] and len(found) == 16


def test_a_row_that_is_not_a_number_is_noted_as_such():
    found, _ = search([-1, 3], fixed=True)
    assert np.isnan(found[0].scores).any()


def test_batches_without_sources_are_filled_up_only_if_fixed():
    counts = (1, 2, 4, 5, 16)
    assert [rows_of(count, 16, fixed=False, beams=4) for count in counts] == [1, 4, 4, 8, 16]
    assert [rows_of(count, 16, fixed=False, beams=1) for count in counts] == [2, 4, 4, 8, 16]
    assert rows_of(1, 1, fixed=False, beams=1) == 1
    assert [rows_of(count, 16, fixed=True, beams=4) for count in counts] == [16] * 5
