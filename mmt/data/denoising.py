"""Text of one language as training examples: span corruption (T5, mT5) and prefix language models.

A cache holds the text once, as targets without inputs, in a component of its own (see `mixing`).
Which example is made of a line is decided when it is drawn: noise is another in every epoch, and
always the same for the same seed. How long both sides are depends on the line alone, so that rows
are packed and tokens counted without making any. Source and target share one vocabulary.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Int

from mmt.data.mixing import uniform

Ids = list[int]

_IS_PREFIX, _PLACE = np.uint64(0x5DEECE66D), np.uint64(0xBB67AE85)  # two hashes of a line's number


@dataclass(frozen=True)
class Denoising:
    """What is made of monolingual lines; the defaults are T5's and mT5's (Raffel et al. 2020).

    density: the part of a line's tokens that is left out, and `span` the mean length of a gap: the
      source has a sentinel in place of each gap, the target each sentinel and what stood there
      (3.1.4; EOS follows, as in T5's released code, where the paper's figure has a last sentinel).
      Every placement of gaps is as likely. (T5's code always ends in a gap, which matters little in
      its 512 tokens of text; of a short line it would always be the end that is left out.)
    prefix_lm: the part of the lines whose end is to be written instead, after a cut anywhere (T5's
      3.2.3; UL2's S-denoiser). 0: span corruption alone; 1: a prefix language model.

    ValueError for values that are none of these.
    """

    density: float = 0.15
    span: float = 3.0
    prefix_lm: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.density < 1:
            raise ValueError(f"density is {self.density}; allowed: more than 0, less than 1")
        if not self.span >= 1:
            raise ValueError(f"span is {self.span}; allowed: a mean length of 1 or more tokens")
        if not 0 <= self.prefix_lm <= 1:
            raise ValueError(f"prefix_lm is {self.prefix_lm}; allowed: 0 ... 1, a part of lines")


class Denoiser:
    """Makes the examples of one language.

    sentinels: the ids that stand for gaps, in their order; a long line has no more gaps than these.

    >>> denoiser = Denoiser(Denoising(density=0.4, span=2.0), [99, 98])
    >>> denoiser.examples([list(range(10))], np.array([0]), [1])
    [([99, 3, 4, 5, 6, 7, 98, 9], [99, 0, 1, 2, 98, 8])]
    """

    def __init__(self, how: Denoising, sentinels: Sequence[int]):
        if not sentinels:
            raise ValueError("span corruption needs a sentinel; there is none")
        self._how, self._sentinels = how, list(sentinels)

    def lengths(self, tokens: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n 2"]:
        """The tokens of source and target, without EOS, of lines 0 ... n - 1 of so many tokens."""
        count, lines = np.asarray(tokens, np.int64), np.arange(len(tokens))
        noise, gaps = self._noise(count)
        sides = np.stack([count - noise + gaps, noise + gaps], axis=1)
        cut = _cut(lines, count)
        return np.where(
            self._is_prefix(lines)[:, None], np.stack([cut, count - cut], axis=1), sides
        ).astype(np.int32)

    def examples(
        self, texts: Sequence[Sequence[int]], lines: Int[np.ndarray, "n"], keys: Sequence[int]
    ) -> list[tuple[Ids, Ids]]:
        """Source and target of the lines of these numbers; a line's key chooses its gaps."""
        count = np.array([len(tokens) for tokens in texts], np.int64)
        noise, gaps = (one.tolist() for one in self._noise(count))
        cuts = np.where(self._is_prefix(lines), _cut(lines, count), -1).tolist()
        return [
            (list(tokens[:cut]), list(tokens[cut:])) if cut >= 0 else self._gapped(tokens, *of_line)
            for tokens, cut, *of_line in zip(texts, cuts, noise, gaps, keys, strict=True)
        ]

    def _gapped(self, tokens: Sequence[int], noise: int, gaps: int, key: int) -> tuple[Ids, Ids]:
        chance = random.Random(key).random
        kept = _segments(len(tokens) - noise + 2, gaps + 1, chance)
        kept[0] -= 1  # a line may begin or end with a gap
        left_out = _segments(noise, gaps, chance)
        source: Ids = []
        target: Ids = []
        place = 0
        for sentinel, before, gap in zip(self._sentinels, kept, left_out, strict=False):
            source += [*tokens[place : place + before], sentinel]
            target += [sentinel, *tokens[place + before : place + before + gap]]
            place += before + gap
        return source + list(tokens[place:]), target

    def _noise(
        self, count: Int[np.ndarray, "n"]
    ) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"]]:
        """How many tokens are left out, and in how many gaps, of lines of so many tokens: one or
        more, and where there are two one or more is kept; gaps do not touch.
        """
        noise = np.clip(np.round(count * self._how.density), 1, np.maximum(count - 1, 1))
        gaps = np.maximum(np.round(noise / self._how.span), 1)
        most = np.minimum(len(self._sentinels), np.maximum(count - noise, 1))
        return noise.astype(np.int64), np.minimum(gaps, most).astype(np.int64)

    def _is_prefix(self, lines: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        return uniform(lines.astype(np.uint64) ^ _IS_PREFIX) < self._how.prefix_lm


def _cut(lines: Int[np.ndarray, "n"], count: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """Where a line of a prefix language model is cut: both sides have a token where there are two.
    """
    place = uniform(lines.astype(np.uint64) ^ _PLACE)
    return np.minimum(1 + (place * (count - 1)).astype(np.int64), count - 1)


def _segments(total: int, parts: int, chance: Callable[[], float]) -> list[int]:
    """`total` cut into so many lengths of 1 or more, every way as likely."""
    cuts: set[int] = set()
    while len(cuts) < parts - 1:
        cuts.add(1 + int(chance() * (total - 1)))
    return [after - before for before, after in pairwise([0, *sorted(cuts), total])]
