"""Hashed character n-grams of lines: the features of language identification.

Letters and their marks count, in lower case; everything else, such as emoji, separates words. An
n-gram lies within a word and the two boundaries of the word. Letters outside the alphabet become
one symbol, so that text in any unknown script has the same n-grams.
"""

import functools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt
from scipy import sparse

ORDER = 5  # letters of the longest n-gram
MAX_CHARACTERS = 400  # of a line; more characters change nothing
_BOUNDARY, _UNKNOWN = 0, 1  # code points that stand for no letter
CODE_POINTS = 0x110000
_LAST_LETTER = 0x40000
_LETTERS = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc"}  # categories; Me are enclosing marks
_VARIATION_SELECTORS = slice(0xFE00, 0xFE10)
_SEED = 0x811C9DC5  # of the hash; 0 would hide a boundary in front


@dataclass(frozen=True, eq=False)
class Ngrams:
    """The n-grams of `lines` lines.

    Attributes:
        counts: a row for each order and line (all lines of order 1 first), a column for each
            bucket; an n-gram that occurs twice has two entries.
        scale: 1 / sqrt(n-grams) of each line; 0 for a line without letters.
    """

    counts: sparse.csr_array
    scale: Float[np.ndarray, "N"]

    def project(self, embedding: Float[np.ndarray, "B D"]) -> Float[np.ndarray, "N D"]:
        """Returns the sum of the embeddings of each line's n-grams, times its scale."""
        sums = (self.counts @ embedding).reshape(ORDER, len(self.scale), -1)
        return sums.sum(0) * self.scale[:, None]

    def gradient(
        self, gradient: Float[np.ndarray, "N D"]
    ) -> tuple[Int[np.ndarray, "U"], Float[np.ndarray, "U D"]]:
        """Returns the buckets in use and the gradient of their embeddings, from that of `project`.
        """
        transposed = self.counts.T.tocsr()
        used = np.flatnonzero(np.diff(transposed.indptr))
        compact = sparse.csr_array(
            (transposed.data, transposed.indices, transposed.indptr[np.append(used, -1)]),
            shape=(len(used), transposed.shape[1]),
        )
        return used, compact @ np.tile(gradient * self.scale[:, None], (ORDER, 1))


def extract(
    lines: Sequence[str], *, alphabet: Int[np.ndarray, "A"], buckets: int
) -> Ngrams:
    """Returns the n-grams of lines. buckets: a power of two. alphabet: sorted code points."""
    points, line = letters(lines)
    in_alphabet = np.zeros(CODE_POINTS, bool)
    in_alphabet[alphabet] = True
    inside = points != _BOUNDARY
    points = np.where(in_alphabet[points] | ~inside, points, _UNKNOWN).astype(np.uint32)
    columns, sizes = [], []
    value, valid = np.full_like(points, _SEED), np.ones(len(points), bool)
    for order in range(1, ORDER + 1):
        size = max(len(points) - order + 1, 0)
        with np.errstate(over="ignore"):
            value = value[:size] * np.uint32(0x01000193) + points[order - 1 :]
        if order > 2:  # the letters between the first and the last are of one word
            valid = valid[:size] & inside[order - 2 :][:size]
        positions = np.flatnonzero(inside if order == 1 else valid[:size])
        columns.append(_bucket(value[positions], buckets))
        of_line = line[np.where(inside[positions], positions, positions + 1)]
        sizes.append(np.bincount(of_line, minlength=len(lines)))
    indices = np.concatenate(columns)
    ends = np.cumsum(np.concatenate(sizes))
    counts = sparse.csr_array(
        (np.ones(len(indices), np.float32), indices, np.append(0, ends).astype(np.int32)),
        shape=(ORDER * len(lines), buckets),
    )
    total = np.sum(sizes, axis=0)
    scale = np.where(total, 1 / np.sqrt(np.maximum(total, 1)), 0).astype(np.float32)
    return Ngrams(counts, scale)


def letters(lines: Sequence[str]) -> tuple[Int[np.ndarray, "C"], Int[np.ndarray, "C"]]:
    """Returns the code points of all lines, and the number of each one's line.

    One boundary (0) follows each word and each line, and precedes the first one.
    """
    starts = (line[:MAX_CHARACTERS].replace("\n", " ") for line in lines)
    text = unicodedata.normalize("NFC", "\n".join(["", *starts, ""])).lower()
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.int32)
    line = np.cumsum(points == ord("\n"), dtype=np.int32) - 1
    points = np.where(is_letter()[points], points, _BOUNDARY)
    is_kept = np.append(True, (points[1:] != _BOUNDARY) | (points[:-1] != _BOUNDARY))
    return points[is_kept], line[is_kept]


@functools.cache
def is_letter() -> Bool[np.ndarray, "P"]:
    """Returns for every code point whether it is a letter or a mark of letters.

    Variation selectors and enclosing marks are parts of emoji (a heart in colour, a key), not of
    words.
    """
    table = np.zeros(CODE_POINTS, bool)
    table[:_LAST_LETTER] = [
        unicodedata.category(chr(point)) in _LETTERS for point in range(_LAST_LETTER)
    ]
    table[_VARIATION_SELECTORS] = False
    return table


def _bucket(value: UInt[np.ndarray, "G"], buckets: int) -> Int[np.ndarray, "G"]:
    with np.errstate(over="ignore"):
        value = value * np.uint32(0x9E3779B1)
        value = (value ^ (value >> np.uint32(15))) * np.uint32(0x85EBCA77)
    return (value >> np.uint32(33 - buckets.bit_length())).astype(np.int32)
