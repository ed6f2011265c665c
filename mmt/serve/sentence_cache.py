"""`SentenceCache`: translations of sentences, the least recently used dropped first.

A translation depends only on its sentence and on the key of its batch (model, languages, decoding
options and length), not on other sentences. So a kept translation is exact.
"""

from collections import OrderedDict

from mmt.serve.scheduler import Sentence
from mmt.translate import Hypothesis

_OVERHEAD = 200  # about the bytes of an entry without its characters


class SentenceCache:
    """Keeps the hypotheses of sentences, up to a number of characters. One thread uses it."""

    def __init__(self, characters: int) -> None:
        self._most, self._size = characters, 0
        self._kept: OrderedDict[Sentence, tuple[Hypothesis, ...]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """Returns the size of all entries, in characters."""
        return self._size

    def get(self, sentence: Sentence) -> tuple[Hypothesis, ...] | None:
        """Returns the hypotheses of a sentence, or None."""
        hypotheses = self._kept.get(sentence)
        if hypotheses is not None:
            self._kept.move_to_end(sentence)
        return hypotheses

    def put(self, sentence: Sentence, hypotheses: tuple[Hypothesis, ...]) -> None:
        """Keeps the hypotheses of a sentence; drops others to make room."""
        if (old := self._kept.pop(sentence, None)) is not None:
            self._size -= _size(sentence, old)
        size = _size(sentence, hypotheses)
        if size > self._most:
            return
        self._kept[sentence] = hypotheses
        self._size += size
        while self._size > self._most:
            self._size -= _size(*self._kept.popitem(last=False))


def _size(sentence: Sentence, hypotheses: tuple[Hypothesis, ...]) -> int:
    size = _OVERHEAD + len(sentence.text)
    for hypothesis in hypotheses:
        size += len(hypothesis.text)
        if hypothesis.alignment is not None:
            size += hypothesis.alignment.weights.nbytes
    return size
