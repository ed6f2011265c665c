"""Places the tags of a source in its translation, by the words' alignment."""

import numpy as np
from jaxtyping import Float

from mmt.documents import MarkedText, by_attention
from mmt.translate import placeholders
from mmt.translate.alignment import Alignment


def place_tags(source: MarkedText, text: str, alignment: Alignment) -> MarkedText:
    """Returns the translation `text` with the tags of its source; a placeholder is one word."""
    spans = placeholders.words_and_placeholders(text)
    attention = _attention(spans, alignment, len(source.text))
    of_source: dict[str, list[tuple[int, int]]] = {}
    for start, end in placeholders.spans(source.text):
        of_source.setdefault(source.text[start:end], []).append((start, end))
    for row, (start, end) in enumerate(spans):
        if same := of_source.get(text[start:end]):
            first, last = same.pop(0)
            attention[row] = 0
            attention[row, first:last] = 1 / (last - first)
    return by_attention(source, text, spans, attention)


def _attention(
    spans: list[tuple[int, int]], alignment: Alignment, length: int
) -> Float[np.ndarray, "words characters"]:
    """Returns the share of each target word's attention that each source character has.

    A word without attention attends to the source character at the same relative position.
    """
    by_token = np.zeros((len(alignment.target), length), np.float32)
    for column, (start, end) in enumerate(alignment.source):
        if end > start:
            by_token[:, start:end] = alignment.weights[:, column, None] / (end - start)
    attention = np.zeros((len(spans), length), np.float32)
    for row, (start, end) in enumerate(spans):
        for token, (first, last) in enumerate(alignment.target):
            if first < end and last > start:
                attention[row] += by_token[token]
    total = attention.sum(axis=1, keepdims=True)
    if length:
        unattended = np.flatnonzero(total[:, 0] <= 0)
        attention[unattended, unattended * length // max(len(spans), 1)] = 1
    return attention / np.where(total > 0, total, 1)
