"""New pieces of a BPE vocabulary, learnt on text of new languages.

Text that the vocabulary has divided into its pieces is merged further. New merges come after all
old ones, so the ids and the order of the old merges stay. A new piece is
a letter without a piece, or joins two pieces of a word that are often neighbours in the new
languages, and hardly ever in the old ones: their text keeps its pieces.
"""

import heapq
import itertools
import re
import struct
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from mmt.data.vocabulary import Vocabulary

COVERAGE = 0.9999  # of the characters of the new text, as in `vocabulary.train`
LEAST = 10  # occurrences of a piece in the new text
LONGEST = 16  # characters of a piece, as SentencePiece's default

_SPACE = "\u2581"
_WORD = re.compile(f"{_SPACE}[^{_SPACE}]*|[^{_SPACE}]+")
_BYTE = re.compile("<0x([0-9A-F]{2})>")


def learn(
    vocabulary: Vocabulary,
    new: Iterable[str],
    old: Iterable[str],
    *,
    most: int,
    overlap: float,
) -> list[str]:
    """Returns up to `most` new pieces in the order of their merges; characters come first.

    Args:
      vocabulary: a BPE vocabulary.
      new: texts of the new languages.
      old: texts of the old languages.
      most: the number of pieces; there are fewer if none is left that occurs LEAST times.
      overlap: how frequent a new piece may be in the old text, relative to its frequency in the new
        text. With 0 the old texts keep their pieces exactly.

    Raises:
      ValueError: the vocabulary is not BPE.
    """
    return _Learner(vocabulary, new, old, overlap).pieces(most)


def extended(model: bytes, pieces: Sequence[str], first: int) -> bytes:
    """Returns a SentencePiece model with further pieces, which get the next ids.

    A model is a message of protocol buffers; a repeated field may go on at its end.

    first: the rank of the first new merge.
    """
    return model + b"".join(
        _field(0x0A, _field(0x0A, piece.encode()) + b"\x15" + struct.pack("<f", -(first + number)))
        for number, piece in enumerate(pieces)
    )


def next_rank(vocabulary: Vocabulary) -> int:
    """Returns the rank of a merge that comes after all others. Raises ValueError if it is not BPE.
    """
    return 1 + max(vocabulary.merges().values(), default=-1)


class _Learner:
    """Words in their pieces, and how often two pieces of a word are neighbours."""

    def __init__(
        self, vocabulary: Vocabulary, new: Iterable[str], old: Iterable[str], overlap: float
    ) -> None:
        self._overlap = overlap
        self._ranks = dict(vocabulary.merges())
        self._next = next_rank(vocabulary)
        counters = [Counter(_words(texts)) for texts in (new, old)]
        words = list(dict.fromkeys(itertools.chain(*counters)))
        self._words = _divided(vocabulary, words)
        self._counts = [(counters[0][word], counters[1][word]) for word in words]
        self._total = [0, 0]
        for pieces, word_counts in zip(self._words, self._counts, strict=True):
            for side in (0, 1):
                self._total[side] += len(pieces) * word_counts[side]
        self._pairs: dict[str, list[int]] = {}  # two pieces, joined -> counts in new and old text
        self._words_of_pair: dict[str, list[int]] = {}  # two pieces, joined -> words that had them
        self._queue: list[tuple[int, str]] = []

    def pieces(self, limit: int) -> list[str]:
        """Returns the new pieces; afterwards the words are divided into them."""
        chosen = self._characters()[:limit]
        for character in chosen:
            self._rank(character)
        for word in range(len(self._words)):
            self._count(word, 1)
        self._queue = [(-counts[0], pair) for pair, counts in self._pairs.items()]
        heapq.heapify(self._queue)
        while len(chosen) < limit and (piece := self._best_pair()):
            chosen.append(piece)
            self._rank(piece)
            for word in dict.fromkeys(self._words_of_pair.pop(piece)):
                changed = self._count(word, -1)
                _merge(self._words[word], self._ranks)
                for pair in {*changed, *self._count(word, 1)}:
                    heapq.heappush(self._queue, (-self._pairs[pair][0], pair))
        return chosen

    def _rank(self, piece: str) -> None:
        self._ranks[piece] = self._next
        self._next += 1

    def _characters(self) -> list[str]:
        """Returns the characters to add, the most frequent first."""
        counts: dict[str, list[int]] = {}
        for pieces, word_counts in zip(self._words, self._counts, strict=True):
            for character in "".join(pieces):
                occurrences = counts.setdefault(character, [0, 0])
                occurrences[0] += word_counts[0]
                occurrences[1] += word_counts[1]
        covered, required = 0, COVERAGE * sum(new for new, _ in counts.values())
        characters = []
        for character, (new, old) in sorted(
            counts.items(), key=lambda item: (-item[1][0], item[0])
        ):
            if covered >= required:
                break
            covered += new
            is_printable = not unicodedata.category(character).startswith(("C", "Z"))
            if character not in self._ranks and is_printable and self._is_typical((new, old)):
                characters.append(character)
        return characters

    def _is_typical(self, counts: Sequence[int]) -> bool:
        """Returns whether these counts are frequent in the new text, and rare in the old one."""
        new, old = counts
        return new >= LEAST and old * self._total[0] <= self._overlap * new * self._total[1]

    def _best_pair(self) -> str:
        """Returns the most frequent pair that may be a piece; '' if there is none."""
        while self._queue:
            count, pair = heapq.heappop(self._queue)
            counts = self._pairs.get(pair, (0, 0))
            if counts[0] == -count and pair not in self._ranks and self._is_typical(counts):
                return pair
        return ""

    def _count(self, word: int, sign: int) -> list[str]:
        """Adds the pairs of a word to the counts (sign 1), or removes them (-1); returns the pairs.
        """
        pieces, (new_count, old_count) = self._words[word], self._counts[word]
        pairs = []
        for left, right in itertools.pairwise(pieces):
            pair = left + right
            if left not in self._ranks or right not in self._ranks or not _is_word(pair):
                continue
            counts = self._pairs.setdefault(pair, [0, 0])
            counts[0] += sign * new_count
            counts[1] += sign * old_count
            if sign > 0:
                self._words_of_pair.setdefault(pair, []).append(word)
            pairs.append(pair)
        return pairs


def _words(texts: Iterable[str]) -> Iterator[str]:
    """Yields the words of texts, each with the space before it as SentencePiece writes it."""
    for text in texts:
        yield from _WORD.findall(text.replace(" ", _SPACE))


def _divided(vocabulary: Vocabulary, words: Sequence[str]) -> list[list[str]]:
    """Returns the pieces of words; characters without a piece stand for themselves.

    A word with a tag or another special piece has none, so that it has no part in the counts.
    """
    names = [vocabulary.piece(number) for number in range(vocabulary.size)]
    special = vocabulary.special
    bytes_ = {
        number: int(match[1], 16)
        for number, name in enumerate(names)
        if special[number] and (match := _BYTE.fullmatch(name))
    }
    divided = []
    for ids in vocabulary.encode_all([word.replace(_SPACE, " ") for word in words]):
        pieces: list[str] = []
        for is_byte, run in itertools.groupby(ids, bytes_.__contains__):
            numbers = list(run)
            if is_byte:
                pieces += bytes(bytes_[number] for number in numbers).decode()
            elif special[numbers].any():
                pieces = []
                break
            else:
                pieces += [names[number] for number in numbers]
        divided.append(pieces)
    return divided


def _merge(pieces: list[str], ranks: dict[str, int]) -> None:
    """Merges neighbours as SentencePiece does: the lowest rank first, of equal ones the left."""
    while True:
        merges = [
            (rank, position)
            for position, (left, right) in enumerate(itertools.pairwise(pieces))
            if (rank := ranks.get(left + right)) is not None
        ]
        if not merges:
            return
        position = min(merges)[1]
        pieces[position : position + 2] = ["".join(pieces[position : position + 2])]


def _is_word(piece: str) -> bool:
    """Returns whether a piece is a part of a word, of letters and marks, after at most a space."""
    letters = piece.removeprefix(_SPACE)
    return len(piece) <= LONGEST and all(
        unicodedata.category(letter).startswith(("L", "M")) for letter in letters
    )


def _field(tag: int, content: bytes) -> bytes:
    """Returns a field of a protocol buffer message that has a length."""
    return bytes([tag]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Returns a number in groups of 7 bits, the lowest first."""
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
