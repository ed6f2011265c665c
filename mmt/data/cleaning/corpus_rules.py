"""Cleaning rules that use more than one pair: length ratios, test sets and earlier pairs.

As in rules.py a function makes the rule. Rules with growing state document its size.
"""

import functools
import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mmt.data.cache.origins import OVERLAP
from mmt.data.cleaning.rules import UNSPACED, Dropped, Rule, RuleContext, normalised
from mmt.data.pair import Pair

JUDGED = 20  # characters of the longer side; ratios of shorter pairs vary too much
_BIN = 1 / 256  # in the logarithm of a ratio
_LEAST_SPREAD = 0.1

TestSets = Mapping[str, Mapping[str, Sequence[str]]]  # name -> FLORES code -> lines, both sides


class LengthHistogram:
    """A histogram of the logarithms of target / source characters of a language's pairs."""

    def __init__(self, bins: Mapping[int, int] | None = None) -> None:
        self.bins: dict[int, int] = dict(bins or {})

    def add(self, pair: Pair) -> None:
        """Counts a pair if its longer side has at least JUDGED characters."""
        if (ratio := _log_ratio(pair)) is not None:
            bin_index = round(ratio / _BIN)
            self.bins[bin_index] = self.bins.get(bin_index, 0) + 1

    def update(self, other: "LengthHistogram") -> None:
        """Adds the counts of another file."""
        for bin_index, count in other.bins.items():
            self.bins[bin_index] = self.bins.get(bin_index, 0) + count

    def learnt(self) -> "LengthRatios":
        """Returns median and spread."""
        median = _median(self.bins)
        distances: dict[int, int] = {}
        for bin_index, count in self.bins.items():
            distance = abs(bin_index - median)
            distances[distance] = distances.get(distance, 0) + count
        return LengthRatios(sum(self.bins.values()), median * _BIN, _median(distances) * _BIN)


class LengthRatios(NamedTuple):
    """Length ratios of a language: the number of `pairs`, and median and spread of the logarithms.

    The spread is the median absolute deviation (MAD). Both are exact to 1/256.
    """

    pairs: int = 0
    median: float = 0.0
    mad: float = 0.0


def ratio(context: RuleContext, *, deviations: float = 4.0, pairs: int = 100) -> Rule:
    """Drops a pair whose length ratio is unusual for its language.

    The logarithm of the ratio is more than `deviations` standard deviations (1.4826 MAD; at least
    0.1) from the median. Both are learnt from the corpus. Pairs under 20 characters are not judged,
    nor languages with fewer than `pairs` pairs.
    """
    if deviations <= 0 or pairs < 2:
        raise ValueError(
            f"deviations is {deviations}, pairs {pairs}; allowed: deviations over 0, pairs over 1"
        )
    learnt = context.learnt or LengthRatios()
    if learnt.pairs < pairs:
        return lambda pair: pair
    tolerance = deviations * max(1.4826 * learnt.mad, _LEAST_SPREAD)
    low, high = learnt.median - tolerance, learnt.median + tolerance

    def rule(pair: Pair) -> Pair | Dropped:
        log_ratio = _log_ratio(pair)
        if log_ratio is None or low <= log_ratio <= high:
            return pair
        detail = (
            f"{len(pair.target)} / {len(pair.source)} characters are {math.exp(log_ratio):.2f}; "
            f"usual are {math.exp(low):.2f} to {math.exp(high):.2f}"
        )
        return Dropped("ratio", detail)

    return rule


class TestSetOverlap:
    """Finds overlap with test sets: equal lines, and common n-grams of words.

    Takes about 100 bytes per distinct n-gram, 10 MB for two sides of 2,000 sentences.
    """

    def __init__(self, tests: TestSets, source: str, target: str, words: int) -> None:
        self._words, self._names = words, list(tests)
        self._sides = []
        for side, code in (("source", source), ("target", target)):
            unit = UNSPACED.get(code[-4:], 0)
            indexes = [
                (name, _index(tuple(by_language[code]), words, unit))
                for name, by_language in tests.items()
                if code in by_language
            ]
            self._sides.append((side, unit, indexes))

    def __call__(self, pair: Pair) -> dict[str, str]:
        """Returns a description of the overlap by test set."""
        overlapped: dict[str, str] = {}
        for side, unit, indexes in self._sides:
            if indexes:
                line, ngrams = _ngrams(getattr(pair, side), self._words, unit)
            for name, (lines, grams) in indexes:
                if line in lines:
                    overlapped.setdefault(name, f"the {side} is one of its lines")
                elif not grams.isdisjoint(ngrams):
                    detail = f"the {side} has {self._words} consecutive words of it"
                    overlapped.setdefault(name, detail)
        if not overlapped:
            return overlapped
        return {name: overlapped[name] for name in self._names if name in overlapped}


def overlap(context: RuleContext, *, words: int = 8) -> Rule:
    """Drops a pair with a side that equals a line of a test set, or shares consecutive words.

    A side must share `words` words with a line, ignoring case and punctuation. In scripts without
    spaces, two characters count as a word (Chinese, Japanese), or four (Thai, Lao, Khmer, Burmese,
    Tibetan). The corpus's [validation] and [test] are always test sets.
    """
    if words < 2:
        raise ValueError(f"words is {words}; allowed: 2 and more")
    overlaps = TestSetOverlap(context.overlap or {}, context.language, context.target, words)

    def rule(pair: Pair) -> Pair | Dropped:
        overlapped = overlaps(pair)
        if not overlapped:
            return pair
        return Dropped(OVERLAP + " + ".join(overlapped), "; ".join(overlapped.values()))

    return rule


class TextCounter:
    """Counts up to `room` distinct texts by 64-bit hashes.

    It takes 14 to 27 bytes per text, allocated at the start.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        size = 1 << max(3, (3 * room // 2).bit_length())  # a third to two thirds are used
        self._mask = size - 1
        self._keys, self._counts = array("Q", bytes(8 * size)), array("B", bytes(size))

    def add(self, text: object) -> int:
        """Adds a text; returns how often it was added before, up to 255."""
        key = hash(text) & 0xFFFFFFFFFFFFFFFF or 1
        keys, mask = self._keys, self._mask
        slot = key & mask
        while keys[slot] != key:
            if not keys[slot]:
                if not self._room:
                    raise ValueError("more distinct texts than `room`")
                self._room -= 1
                keys[slot] = key
                break
            slot = (slot + 1) & mask
        count = self._counts[slot]
        self._counts[slot] = min(count + 1, 255)
        return count

    def count(self, text: object) -> int:
        """Returns how often a text was added, up to 255."""
        key = hash(text) & 0xFFFFFFFFFFFFFFFF or 1
        slot = key & self._mask
        while self._keys[slot] and self._keys[slot] != key:
            slot = (slot + 1) & self._mask
        return self._counts[slot]


def duplicates(context: RuleContext, *, minhash: float = 0.0) -> Rule:
    """Drops a pair that repeats an earlier pair of its language, in any entry.

    Case, punctuation and spaces are ignored. It takes 14 to 27 bytes per pair.

    minhash: also drops pairs whose 5-grams of characters have about this Jaccard similarity (0.5 to
        1; 0: off) with an earlier kept pair; needs datasketch and about 5 KB per pair.
    """
    if minhash and not 0.5 <= minhash <= 1:
        raise ValueError(f"minhash is {minhash}; allowed: 0.5 to 1, or 0 for exact duplicates only")
    is_near_duplicate = _near_duplicate_finder(context, minhash) if minhash else None
    seen = _shared_state(context, "duplicates", lambda: TextCounter(context.pairs))

    def rule(pair: Pair) -> Pair | Dropped:
        text = "".join(normalised(pair.source)), "".join(normalised(pair.target))
        if any(text) and seen.add(text):
            return Dropped("duplicates", "an earlier pair is equal")
        if is_near_duplicate and is_near_duplicate(" ".join(text)):
            return Dropped("duplicates: near", "an earlier pair is similar")
        return pair

    return rule


def one_side(context: RuleContext, *, most: int = 8) -> Rule:
    """Drops a pair whose source or target has occurred `most` times in its language, in any entry.

    Case, punctuation and spaces are ignored. It takes 28 to 54 bytes per pair.
    """
    if not 0 < most < 256:
        raise ValueError(f"most is {most}; allowed: 1 to 255")
    seen = _shared_state(
        context, "one_side", lambda: (TextCounter(context.pairs), TextCounter(context.pairs))
    )

    def rule(pair: Pair) -> Pair | Dropped:
        texts = normalised(pair.source), normalised(pair.target)
        for side, text, earlier in zip(("source", "target"), texts, seen, strict=True):
            if earlier.count(text) >= most:
                return Dropped("one_side", f"the {side} has occurred {most} times")
        for text, earlier in zip(texts, seen, strict=True):
            earlier.add(text)
        return pair

    return rule


def _shared_state(context: RuleContext, name: str, make: Any) -> Any:
    """Returns the state that the rules of several entries share."""
    states = {} if context.seen is None else context.seen
    return states.setdefault(name, make()) if name not in states else states[name]


def _near_duplicate_finder(context: RuleContext, threshold: float) -> Any:
    try:
        from datasketch import MinHash, MinHashLSH
    except ImportError as error:
        raise ValueError(f"minhash needs `pip install datasketch`: {error}") from error
    key = f"near {threshold}"
    index = _shared_state(context, key, lambda: MinHashLSH(threshold=threshold, num_perm=64))

    def near(text: str) -> bool:
        signature = MinHash(num_perm=64)
        signature.update_batch([text[i : i + 5].encode() for i in range(max(1, len(text) - 4))])
        if index.query(signature):
            return True
        index.insert(len(index.keys), signature)
        return False

    return near


def _log_ratio(pair: Pair) -> float | None:
    source, target = len(pair.source), len(pair.target)
    if not source or not target or max(source, target) < JUDGED:
        return None
    return math.log(target / source)


def _median(counts: Mapping[int, int]) -> int:
    """Returns the lower median of a histogram; 0 for an empty one."""
    half, below = (sum(counts.values()) + 1) // 2, 0
    for value in sorted(counts):
        below += counts[value]
        if below >= half:
            return value
    return 0


def _ngrams(line: str, order: int, unit: int) -> tuple[int, list[int]]:
    """Returns the hashes of a line (0 without words) and of its n-grams, valid in one process."""
    words: Sequence[str] = normalised(line)
    if unit:  # without spaces, punctuation alone separates words
        words, order = "".join(words), order * unit
    line_hash = hash(words) if words else 0
    return line_hash, [hash(words[i : i + order]) for i in range(len(words) - order + 1)]


@functools.lru_cache(maxsize=64)
def _index(lines: tuple[str, ...], order: int, unit: int) -> tuple[frozenset[int], frozenset[int]]:
    line_hashes: set[int] = set()
    ngram_hashes: set[int] = set()
    for line in lines:
        line_hash, line_ngrams = _ngrams(line, order, unit)
        line_hashes.add(line_hash)
        ngram_hashes.update(line_ngrams)
    return frozenset(line_hashes - {0}), frozenset(ngram_hashes)
