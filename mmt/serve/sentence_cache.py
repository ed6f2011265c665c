"""`SentenceCache`: an LRU cache of the translations of sentences.

A translation depends only on its sentence, with its context if it has any, and on the key of its
batch (model, languages, decoding options, glossary, length, and whether it has a risk), not on
other sentences. So a cached one is exact.
"""

from collections import OrderedDict

from mmt.serve.models import BatchKey
from mmt.serve.scheduler import Sentence
from mmt.translate import Translation

_OVERHEAD = 200  # approximate bytes of an entry without its characters
_RISK = 600  # approximate bytes of a risk


class SentenceCache:
    """A cache of translations, up to a number of characters. Only one thread may use it."""

    def __init__(self, characters: int) -> None:
        self._max_size, self._size = characters, 0
        self._entries: OrderedDict[Sentence, Translation] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        """Returns the size of all entries, in characters."""
        return self._size

    def get(self, sentence: Sentence) -> Translation | None:
        """Returns the translation of a sentence, or None."""
        sentence = _without_glossary(sentence)
        translation = self._entries.get(sentence)
        if translation is not None:
            self._entries.move_to_end(sentence)
        return translation

    def put(self, sentence: Sentence, translation: Translation) -> None:
        """Stores the translation of a sentence; drops others to make room."""
        sentence = _without_glossary(sentence)
        if (old := self._entries.pop(sentence, None)) is not None:
            self._size -= _size(sentence, old)
        size = _size(sentence, translation)
        if size > self._max_size:
            return
        self._entries[sentence] = translation
        self._size += size
        while self._size > self._max_size:
            self._size -= _size(*self._entries.popitem(last=False))


def _without_glossary(sentence: Sentence) -> Sentence:
    """Returns the sentence with a digest in place of its glossary.

    Each request has a glossary of its own, which may be larger than thousands of entries.
    """
    key = sentence.key
    if not isinstance(key, BatchKey) or key.glossary is None:
        return sentence
    return sentence._replace(key=(key._replace(glossary=None), key.glossary.digest))


def _size(sentence: Sentence, translation: Translation) -> int:
    size = _OVERHEAD + len(sentence.text) + (_RISK if translation.risk else 0)
    for hypothesis in translation.hypotheses:
        size += len(hypothesis.text)
        if hypothesis.alignment is not None:
            size += hypothesis.alignment.weights.nbytes
    return size
