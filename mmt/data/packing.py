"""Packs examples into rows of a batch, and makes the arrays of a batch.

`Packer` uses lengths only, first fit over a few open rows; `assemble` writes the tokens.
`virtual_shards.py` determines the order of examples.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Int32, Shaped

from mmt.data.cache.records import Decoded
from mmt.data.vocabulary import EOS, PAD

Batch = dict[str, Shaped[np.ndarray, "rows _"]]


class PackedExample(NamedTuple):
    """The location of an example, and its lengths.

    Attributes:
      draw: its index in the mixture.
      language, record: the id of its language, and its index among the language's records.
      source, target: tokens of both sides, with EOS.
      changed: the modified or noised example, as `records.encode` writes it; None: as stored.
    """

    draw: int
    language: int
    record: int
    source: int
    target: int
    changed: bytes | None = None


Row = list[PackedExample]


class Packer:
    """Packs examples into rows of `source` and `target` tokens, first fit, in the order given.

    Up to `open_rows` rows are open. An example goes into the oldest one with room for both sides.
    If there is none, a new row is opened; if that exceeds the limit, the oldest is finished. So no
    example waits forever. With `open_rows` 0 every example is a row.

    >>> packer = Packer(8, 8, open_rows=1)
    >>> first, second, third = (PackedExample(i, 0, i, 4, 3) for i in range(3))
    >>> packer.add(first), packer.add(second)
    (None, None)
    >>> packer.add(third) == [first, second]
    True
    """

    def __init__(self, source: int, target: int, *, open_rows: int):
        self.open: list[Row] = []
        self._room: list[tuple[int, int]] = []  # free tokens of each open row
        self._size = (source, target)
        self._open_rows = open_rows

    def add(self, example: PackedExample) -> Row | None:
        """Places the example; returns a row if one is finished by it."""
        for index, (source, target) in enumerate(self._room):
            if example.source <= source and example.target <= target:
                self.open[index].append(example)
                self._room[index] = (source - example.source, target - example.target)
                return None
        self.open.append([example])
        self._room.append((self._size[0] - example.source, self._size[1] - example.target))
        if len(self.open) <= self._open_rows:
            return None
        self._room.pop(0)
        return self.open.pop(0)

    def restore(self, rows: list[Row]) -> None:
        """Continues with these open rows."""
        self.open = rows
        self._room = [
            (
                self._size[0] - sum(example.source for example in row),
                self._size[1] - sum(example.target for example in row),
            )
            for row in rows
        ]


def assemble(
    rows: Sequence[Row],
    decoded: Decoded,
    *,
    source: int,
    target: int,
    pad: int = PAD,
    eos: int = EOS,
    start: int = PAD,
    alignment: Int32[np.ndarray, "T"] | None = None,
) -> Batch:
    """Returns the batch of `rows`.

    With source = target = 6, the row of [5 6] -> [7], [8] -> [9 2] is

        encoder_input_tokens    5 6 1 8 1 0
        encoder_segment_ids     1 1 1 2 2 0
        encoder_positions       0 1 2 0 1 0
        decoder_target_tokens   7 1 9 2 1 0
        decoder_input_tokens    0 7 0 9 2 0
        decoder_loss_weights    1 1 1 1 1 0      (float32, all else int32)

    with decoder_segment_ids, decoder_positions and decoder_language_ids in the same way.

    Args:
      rows: the examples of each row; empty rows are padding.
      decoded: the tokens of all examples.
      source, target: tokens per row.
      pad, eos, start: the ids of padding, of the end of every text, and before every target.
      alignment: per token of `decoded.targets`, the index of its source token in the example, or
        -1. It adds `decoder_alignment`, the index in the row: 1 -1 3 -1 -1 -1 for 1 0 -1.
    """
    examples = [example for row in rows for example in row]
    row_lengths = np.array(list(map(len, rows)), np.int64)
    row_indices = np.repeat(np.arange(len(rows)), row_lengths)
    segment = np.arange(len(examples)) - (np.cumsum(row_lengths) - row_lengths)[row_indices] + 1
    languages = np.array([example.language for example in examples], np.int64)
    source_length = np.array([example.source for example in examples], np.int64)
    target_length = np.array([example.target for example in examples], np.int64)
    _check_records(decoded, source_length, target_length, languages)
    encoder = _Layout((len(rows), source), source_length, row_indices)
    decoder = _Layout((len(rows), target), target_length, row_indices)
    outputs = decoder.with_eos(decoded.targets, eos)
    shifted = np.where(decoder.positions == 0, start, np.roll(outputs, 1))
    batch = {
        "encoder_input_tokens": encoder.fill(encoder.with_eos(decoded.inputs, eos), pad),
        "encoder_segment_ids": encoder.fill(encoder.spread(segment)),
        "encoder_positions": encoder.fill(encoder.positions),
        "decoder_input_tokens": decoder.fill(shifted, pad),
        "decoder_target_tokens": decoder.fill(outputs, pad),
        "decoder_loss_weights": decoder.fill(np.ones_like(outputs)).astype(np.float32),
        "decoder_segment_ids": decoder.fill(decoder.spread(segment)),
        "decoder_positions": decoder.fill(decoder.positions),
        "decoder_language_ids": decoder.fill(decoder.spread(languages)),
    }
    if alignment is not None:
        aligned = encoder.in_row(alignment, decoded.target_lengths)
        batch["decoder_alignment"] = decoder.fill(decoder.with_eos(aligned, -1), -1)
    return batch


def spread_to_tokens(
    values: Int32[np.ndarray, "examples"], rows: Sequence[Row], segments: Int32[np.ndarray, "B T"]
) -> Int32[np.ndarray, "B T"]:
    """Returns the value of each token's example, and 0 for padding.

    >>> row = [PackedExample(0, 0, 0, 2, 2), PackedExample(1, 0, 1, 2, 1)]
    >>> segments = np.array([[1, 1, 2, 0]], np.int32)
    >>> spread_to_tokens(np.array([7, 9], np.int32), [row], segments).tolist()
    [[7, 7, 9, 0]]
    """
    starts = np.cumsum([0, *map(len, rows)])[:-1]
    example_indices = np.where(segments > 0, starts[:, None] + segments - 1, -1)
    return np.append(values, np.int32(0))[example_indices]


def _check_records(
    decoded: Decoded,
    source_length: Int[np.ndarray, "n"],
    target_length: Int[np.ndarray, "n"],
    languages: Int[np.ndarray, "n"],
) -> None:
    """Raises ValueError if the records are not those of the lengths."""
    if not (
        np.array_equal(decoded.input_lengths + 1, source_length)
        and np.array_equal(decoded.target_lengths + 1, target_length)
        and np.array_equal(decoded.languages, languages)
    ):
        raise ValueError("the cache's records do not match its lengths; build the cache again")


class _Layout:
    """Positions of the tokens of one side: the examples of a row follow each other."""

    def __init__(
        self,
        shape: tuple[int, int],
        lengths: Int[np.ndarray, "n"],
        row_indices: Int[np.ndarray, "n"],
    ):
        starts = np.cumsum(lengths) - lengths  # of each example among all tokens
        new_row = np.diff(row_indices, prepend=-1) > 0
        row_start = np.maximum.accumulate(np.where(new_row, starts, 0))
        self._shape = shape
        self._lengths = lengths
        self.positions = np.arange(lengths.sum()) - np.repeat(starts, lengths)
        self._is_text = self.positions < np.repeat(lengths - 1, lengths)
        self._columns = starts - row_start  # of each example's first token
        first_indices = row_indices * shape[1] + self._columns
        self._index = np.repeat(first_indices, lengths) + self.positions

    def with_eos(self, tokens: Int32[np.ndarray, "_"], eos: int) -> Int[np.ndarray, "tokens"]:
        filled = np.full(len(self.positions), eos, np.int64)
        filled[self._is_text] = tokens
        return filled

    def in_row(
        self, positions: Int32[np.ndarray, "_"], counts: Int[np.ndarray, "n"]
    ) -> Int32[np.ndarray, "_"]:
        """Returns positions in examples, `counts` of each example, as positions in the row."""
        in_row = positions + np.repeat(self._columns, counts)
        return np.where(positions < 0, -1, in_row).astype(np.int32)

    def spread(self, per_example: Int[np.ndarray, "n"]) -> Int[np.ndarray, "tokens"]:
        return np.repeat(per_example, self._lengths)

    def fill(
        self, values: Int[np.ndarray, "tokens"], padding: int = 0
    ) -> Int32[np.ndarray, "rows length"]:
        array = np.full(self._shape, padding, np.int32)
        array.ravel()[self._index] = values
        return array
