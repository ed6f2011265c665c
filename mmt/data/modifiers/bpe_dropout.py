"""BPE-dropout: other divisions of the same text into pieces."""

import heapq
from collections.abc import Sequence

from mmt.data.modifiers.texts import Chance
from mmt.data.vocabulary import Vocabulary

DROPOUT = 0.1  # as in the paper, which chose it on development sets


class BpeDropout:
    """Divides encoded texts again, with randomly omitted merges (Provilkov et al. 2020).

    Each text is split into characters. Then pairs of neighbours are merged as in BPE, the earliest
    learnt merge first, but each merge is omitted with probability `dropout` (Algorithm 1). Tags,
    bytes and other special pieces stay. The distribution is that of SentencePiece's sampling; that
    one draws from a global generator, so a resumed run could not repeat it.

    Raises:
      ValueError: a vocabulary that is not BPE.
    """

    def __init__(self, vocabulary: Vocabulary, dropout: float = DROPOUT):
        self._dropout = dropout
        self._ranks = vocabulary.merges()
        self._ids = {piece: vocabulary.id(piece) for piece in self._ranks}
        self._pieces = {number: piece for piece, number in self._ids.items()}

    def __call__(self, ids: Sequence[int], chance: Chance) -> list[int]:
        """Returns ids of the same text. chance: returns a new number in [0, 1) every time."""
        symbols: list[str | int] = []  # an id stays as it is
        for piece_id in ids:
            symbols += self._characters(piece_id)
        # Symbols merge into the left one; the right one becomes "". `previous` and `following` are
        # the indices of the remaining neighbours.
        previous = list(range(-1, len(symbols) - 1))
        following = list(range(1, len(symbols) + 1))
        queue: list[tuple[int, int, str]] = []

        def consider(left: int, right: int) -> None:
            if left < 0 or right >= len(symbols):
                return
            first, second = symbols[left], symbols[right]
            if isinstance(first, str) and isinstance(second, str):
                rank = self._ranks.get(first + second)
                if rank is not None:
                    heapq.heappush(queue, (rank, left, first + second))

        for left in range(len(symbols)):
            consider(left, left + 1)
        while queue:
            _, left, piece = heapq.heappop(queue)
            right = following[left]
            if right >= len(symbols) or not symbols[left] or not symbols[right]:
                continue
            first, second = symbols[left], symbols[right]
            if not (isinstance(first, str) and isinstance(second, str)) or first + second != piece:
                continue
            if chance() < self._dropout:
                continue
            symbols[left], symbols[right] = piece, ""
            following[left] = following[right]
            if following[left] < len(symbols):
                previous[following[left]] = left
            consider(previous[left], left)
            consider(left, following[left])
        return [self._ids[s] if isinstance(s, str) else s for s in symbols if s != ""]

    def _characters(self, piece_id: int) -> list[str | int]:
        """Returns the characters of a piece; its id for one that cannot be split."""
        piece = self._pieces.get(piece_id, "")
        can_split = piece and all(character in self._ranks for character in piece)
        return [*piece] if can_split else [piece_id]
