"""`SentenceCache`: translations of sentences, the least recently used dropped first.

A translation depends only on its sentence and on the key of its batch (model, languages, decoding
options, length, and whether it has a risk), not on other sentences. So a kept translation is exact.
"""

from collections import OrderedDict

from mmt.serve.scheduler import Sentence
from mmt.translate import Translation

_OVERHEAD = 200  # about the bytes of an entry without its characters
_RISK = 600  # about the bytes of a risk


class SentenceCache:
    """Keeps the translations of sentences, up to a number of characters. One thread uses it."""

    def __init__(self, characters: int) -> None:
        self._most, self._size = characters, 0
        self._kept: OrderedDict[Sentence, Translation] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """Returns the size of all entries, in characters."""
        return self._size

    def get(self, sentence: Sentence) -> Translation | None:
        """Returns the translation of a sentence, or None."""
        translation = self._kept.get(sentence)
        if translation is not None:
            self._kept.move_to_end(sentence)
        return translation

    def put(self, sentence: Sentence, translation: Translation) -> None:
        """Keeps the translation of a sentence; drops others to make room."""
        if (old := self._kept.pop(sentence, None)) is not None:
            self._size -= _size(sentence, old)
        size = _size(sentence, translation)
        if size > self._most:
            return
        self._kept[sentence] = translation
        self._size += size
        while self._size > self._most:
            self._size -= _size(*self._kept.popitem(last=False))


def _size(sentence: Sentence, translation: Translation) -> int:
    size = _OVERHEAD + len(sentence.text) + (_RISK if translation.risk else 0)
    for hypothesis in translation.hypotheses:
        size += len(hypothesis.text)
        if hypothesis.alignment is not None:
            size += hypothesis.alignment.weights.nbytes
    return size
