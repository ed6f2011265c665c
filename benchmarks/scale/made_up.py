"""Made-up pairs of any number, in a stream: sizes of languages, text, and lengths in tokens."""

import functools
import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Int32

from mmt import languages

TARGET = "eng_Latn"
RATIO = 2e5  # of the largest language to the smallest; GShard: about 2 billion pairs to 10,000
GROUP = 4096  # pairs that are made at once
WORDS = 20_000
SHORT, LONG = 3, 18  # words per side in the median


def sizes(pairs: int, count: int, names: list[str] | None = None) -> dict[str, int]:
    """Returns the pairs of `count` languages that fall geometrically, as in GShard's figure 1.

    They sum to `pairs`; each language has at least one.
    """
    weights = RATIO ** -np.linspace(0, 1, count)
    each = np.maximum((weights / weights.sum() * pairs).astype(np.int64), 1)
    each[0] += pairs - each.sum()
    if each[0] < 1:
        raise ValueError(f"{pairs} pairs are too few for {count} languages")
    return dict(zip(names or _codes(count), each.tolist(), strict=True))


def texts(seed: int, pairs: int, words: int) -> Iterator[list[tuple[str, str]]]:
    """Yields groups of pairs with `words` words per side in the median.

    Lengths are log-normal. The frequency of words is Zipf's, and frequent words are short.
    """
    random = np.random.default_rng(seed)
    lexicon = _lexicon()
    for start in range(0, pairs, GROUP):
        lengths = _lengths(random, 2 * min(GROUP, pairs - start), words)
        ranks = np.exp(random.random(lengths.sum()) * math.log(WORDS)).astype(int) - 1
        chosen = lexicon[ranks].tolist()
        ends = lengths.cumsum().tolist()
        places = zip(ends, lengths.tolist(), strict=True)
        sides = [" ".join(chosen[end - length : end]) for end, length in places]
        yield list(zip(sides[::2], sides[1::2], strict=True))


def token_lengths(seed: int, pairs: int) -> Iterator[Int32[np.ndarray, "n 2"]]:
    """Yields tokens of source and target without EOS: log-normal, 24 in the median.

    A part of a million is repeated, so that writing takes longer than making.
    """
    part = np.roll(_million(), seed * 10_007, axis=0)
    for start in range(0, pairs, len(part)):
        yield part[: pairs - start]


def tab_separated(groups: Iterator[list[tuple[str, str]]]) -> Iterator[str]:
    """Yields the text of each group as lines of TSV."""
    for group in groups:
        yield "".join(f"{source}\t{target}\n" for source, target in group)


@functools.cache
def _million() -> np.ndarray:
    return _lengths(np.random.default_rng(0), 2 << 20, 24).astype(np.int32).reshape(-1, 2)


def _lengths(random: np.random.Generator, count: int, median: int) -> np.ndarray:
    return np.maximum(random.lognormal(math.log(median), 0.6, count), 1).astype(np.int64)


@functools.cache
def _lexicon() -> np.ndarray:
    """Returns the words by frequency; the n-th has about log2(n) letters."""
    random = np.random.default_rng(0)
    letters = np.array(list("aeioukmnlprstvzd"))
    sizes = np.clip(np.log2(np.arange(1, WORDS + 1)).astype(int), 2, 12)
    return np.array(["".join(random.choice(letters, size)) for size in sizes], object)


def _codes(count: int) -> list[str]:
    codes = [language.code for language in languages.all_languages() if language.code != TARGET]
    if count > len(codes):
        raise ValueError(f"{count} languages; allowed: at most {len(codes)}")
    return codes[:count]
