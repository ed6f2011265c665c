"""Monolingual text as training examples: span corruption (T5, mT5) and prefix language modelling.

A cache stores the text once, as targets without inputs, in a separate component (see `mixing`).
Noise spans are chosen when a line is drawn: they differ by epoch and are equal for equal seeds. The
lengths of both sides depend on the line alone, so rows are packed and tokens counted without making
examples. Source and target share one vocabulary.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Int

from mmt.data.mixture_sampler import uniform

Ids = list[int]

_IS_PREFIX, _CUT = np.uint64(0x5DEECE66D), np.uint64(0xBB67AE85)  # two hashes of a line's number


@dataclass(frozen=True)
class Denoising:
    """Options of the examples of monolingual lines; defaults of T5 and mT5 (Raffel et al. 2020).

    In span corruption (3.1.4), the source has a sentinel in place of each noise span. The target
    has each sentinel followed by the tokens of its span. EOS follows, as in T5's released code; the
    figure in the paper has a last sentinel. All placements of noise spans are equally likely. T5's
    code always ends in a noise span, which would always remove the end of a short line.

    Attributes:
      density: the fraction of a line's tokens in noise spans.
      span: the mean length of a noise span, in tokens.
      prefix_lm: the fraction of lines for prefix language modelling instead: a line is cut at
        random, and the target is the second part (T5's 3.2.3; UL2's S-denoiser).

    Raises:
      ValueError: a value out of range.
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

    Args:
      options: of the examples.
      sentinels: ids of the sentinels, in order; a line has at most this number of noise spans.

    >>> denoiser = Denoiser(Denoising(density=0.4, span=2.0), [99, 98])
    >>> denoiser.examples([list(range(10))], np.array([0]), [1])
    [([99, 3, 4, 5, 6, 7, 98, 9], [99, 0, 1, 2, 98, 8])]
    """

    def __init__(self, options: Denoising, sentinels: Sequence[int]):
        if not sentinels:
            raise ValueError(
                "span corruption needs sentinels, which the vocabulary does not have; train one on "
                "a corpus with [monolingual] text"
            )
        self._options, self._sentinels = options, list(sentinels)

    def lengths(self, tokens: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n 2"]:
        """Returns the lengths of source and target, without EOS, of lines 0 ... n - 1."""
        count, lines = np.asarray(tokens, np.int64), np.arange(len(tokens))
        noise, spans = self._noise(count)
        sides = np.stack([count - noise + spans, noise + spans], axis=1)
        cut = _prefix_lengths(lines, count)
        return np.where(
            self._is_prefix(lines)[:, None], np.stack([cut, count - cut], axis=1), sides
        ).astype(np.int32)

    def examples(
        self, texts: Sequence[Sequence[int]], lines: Int[np.ndarray, "n"], keys: Sequence[int]
    ) -> list[tuple[Ids, Ids]]:
        """Returns source and target of each line, given the line numbers and the keys of the noise.
        """
        count = np.array([len(tokens) for tokens in texts], np.int64)
        noise, spans = (column.tolist() for column in self._noise(count))
        cuts = np.where(self._is_prefix(lines), _prefix_lengths(lines, count), -1).tolist()
        return [
            (list(tokens[:cut]), list(tokens[cut:])) if cut >= 0 else self._noised(tokens, *of_line)
            for tokens, cut, *of_line in zip(texts, cuts, noise, spans, keys, strict=True)
        ]

    def _noised(self, tokens: Sequence[int], noise: int, spans: int, key: int) -> tuple[Ids, Ids]:
        random_number = random.Random(key).random
        kept_lengths = _segments(len(tokens) - noise + 2, spans + 1, random_number)
        kept_lengths[0] -= 1  # a line may begin or end with a noise span
        noise_lengths = _segments(noise, spans, random_number)
        source: Ids = []
        target: Ids = []
        start = 0
        for sentinel, kept, span in zip(self._sentinels, kept_lengths, noise_lengths, strict=False):
            source += [*tokens[start : start + kept], sentinel]
            target += [sentinel, *tokens[start + kept : start + kept + span]]
            start += kept + span
        return source + list(tokens[start:]), target

    def _noise(
        self, count: Int[np.ndarray, "n"]
    ) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"]]:
        """Returns the numbers of noise tokens and noise spans of lines of `count` tokens.

        At least one token is noise; of two or more tokens at least one is kept. Spans do not touch.
        """
        noise = np.clip(np.round(count * self._options.density), 1, np.maximum(count - 1, 1))
        spans = np.maximum(np.round(noise / self._options.span), 1)
        max_spans = np.minimum(len(self._sentinels), np.maximum(count - noise, 1))
        return noise.astype(np.int64), np.minimum(spans, max_spans).astype(np.int64)

    def _is_prefix(self, lines: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        return uniform(lines.astype(np.uint64) ^ _IS_PREFIX) < self._options.prefix_lm


def _prefix_lengths(
    lines: Int[np.ndarray, "n"], count: Int[np.ndarray, "n"]
) -> Int[np.ndarray, "n"]:
    """Returns the positions that divide lines into prefix and rest; neither is empty if possible.
    """
    fraction = uniform(lines.astype(np.uint64) ^ _CUT)
    return np.minimum(1 + (fraction * (count - 1)).astype(np.int64), count - 1)


def _segments(total: int, parts: int, chance: Callable[[], float]) -> list[int]:
    """Splits `total` into `parts` lengths of 1 or more; all splits are equally likely."""
    cuts: set[int] = set()
    while len(cuts) < parts - 1:
        cuts.add(1 + int(chance() * (total - 1)))
    return [end - start for start, end in pairwise([0, *sorted(cuts), total])]
