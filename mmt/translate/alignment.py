"""Aligns a line with its translation by the cross-attention of one teacher-forced pass.

It needs no search: any translation can be aligned, also one that the model did not write.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from mmt.data.vocabulary import Vocabulary
from mmt.model.stack import cross_attention
from mmt.model.transformer import Transformer
from mmt.translate import casing

Span = tuple[int, int]


class Alignment(NamedTuple):
    """Characters of a line and of its translation by token, and how the tokens are aligned.

    Attributes:
        source: start and end of the source tokens in the line.
        target: start and end of the target tokens in the translation.
        weights: attention of each target token to each source token.
    """

    source: tuple[Span, ...]
    target: tuple[Span, ...]
    weights: Float[np.ndarray, "T S"]

    def shifted(self, source: int, target: int) -> "Alignment":
        """Returns the alignment of texts that begin at these characters of longer ones."""
        return Alignment(
            tuple((start + source, end + source) for start, end in self.source),
            tuple((start + target, end + target) for start, end in self.target),
            self.weights,
        )

    def word_links(self, line: str, translation: str) -> list[tuple[int, int]]:
        """Returns, for each word of the translation, the source word that it attends to most.

        Words are separated by white space, and counted from 0: (source word, target word).
        """
        sources = _tokens_of_words(line, self.source)
        targets = _tokens_of_words(translation, self.target)
        if not sources:
            return []
        of_words = np.array(
            [[self.weights[np.ix_(t, s)].sum() for s in sources] for t in targets]
        ).reshape(len(targets), len(sources))
        return [(int(source), i) for i, source in enumerate(of_words.argmax(axis=1))]


class Encoded(NamedTuple):
    """Token ids of a text without end token, and the span of each token in the text.

    The tokens of a tag before the text have empty spans.
    """

    ids: list[int]
    spans: list[Span]


def encode(vocabulary: Vocabulary, text: str, *, tag: str = "") -> Encoded:
    """Returns the tokens of a text, after those of a tag, with their spans in the text."""
    tag_text = f"{tag} " if tag else ""
    tagged_text = tag_text + text
    ids = vocabulary.encode(tagged_text)
    ends = [0]
    for decoded in vocabulary.decode_all([ids[: i + 1] for i in range(len(ids))]):
        # The first bytes of a character decode to U+FFFD; its last byte gets the span.
        ends.append(max(ends[-1], len(decoded)) if tagged_text.startswith(decoded) else ends[-1])
    starts = [max(0, end - len(tag_text)) for end in ends]
    return Encoded(ids, list(zip(starts, starts[1:], strict=False)))


def in_lower_case(pair: tuple[str, str]) -> tuple[str, str]:
    """Returns a line and its translation, in lower case if the line is in capitals.

    Lengths stay, and models know few lines in capitals.
    """
    line, translation = pair
    return (casing.lower(line), casing.lower(translation)) if casing.in_capitals(line) else pair


def join(alignments: Iterable[Alignment]) -> Alignment:
    """Returns the alignment of a text from those of its parts."""
    parts = list(alignments)
    weights = np.zeros(
        (sum(len(p.target) for p in parts), sum(len(p.source) for p in parts)), np.float32
    )
    row = column = 0
    for part in parts:
        rows, columns = part.weights.shape
        weights[row : row + rows, column : column + columns] = part.weights
        row, column = row + rows, column + columns
    return Alignment(
        tuple(span for part in parts for span in part.source),
        tuple(span for part in parts for span in part.target),
        weights,
    )


def align(
    model: Transformer,
    params: Any,
    pairs: Sequence[tuple[Encoded, Encoded]],
    language_ids: Sequence[int | None],
    *,
    batch_size: int,
) -> list[Alignment]:
    """Returns the alignment of each pair of an encoded line and its encoded translation."""
    ids = [(source.ids, target.ids) for source, target in pairs]
    aligned: dict[int, Alignment] = {}
    for shape, batch in batches(ids, lambda length: batch_size):
        tokens = inputs(model, [ids[i] for i in batch], shape)
        languages = [language_ids[i] or 0 for i in batch] + [0] * (batch_size - len(batch))
        weights = np.asarray(_attention(model, params, *tokens, np.array(languages, np.int32)))
        for row, i in enumerate(batch):
            source, target = pairs[i]
            of_pair = weights[row, : len(target.ids), : len(source.ids)]
            aligned[i] = Alignment(tuple(source.spans), tuple(target.spans), of_pair)
    return [aligned[i] for i in range(len(pairs))]


def batches(
    pairs: Sequence[tuple[list[int], list[int]]], rows_of: Callable[[int], int]
) -> Iterator[tuple[tuple[int, int], list[int]]]:
    """Yields the rows of each batch and the length of both its sides, and the indices of its pairs.

    A pair's length depends on its own texts only, and the rows of a batch on the length, so the
    result of a pair does not depend on others. One length for both sides: few programs are
    compiled.
    """
    lengths = [_bucket(max(map(len, pair)) + 1) for pair in pairs]
    for length in sorted(set(lengths)):
        members = [i for i, each in enumerate(lengths) if each == length]
        rows = rows_of(length)
        for start in range(0, len(members), rows):
            yield (rows, length), members[start : start + rows]


def inputs(
    model: Transformer, pairs: Sequence[tuple[list[int], list[int]]], shape: tuple[int, int]
) -> tuple[Int[np.ndarray, "B L"], Int[np.ndarray, "B L"]]:
    """Returns source tokens, and target tokens shifted right by the start token.

    The ids of `pairs` have no end token; that of the source is added.
    """
    config = model.config
    sources, targets = (np.full(shape, config.pad_id, np.int32) for _ in range(2))
    for row, (source, target) in enumerate(pairs):
        sources[row, : len(source) + 1] = [*source, config.eos_id]
        targets[row, : len(target) + 1] = [config.start_id, *target]
    return sources, targets


@functools.partial(jax.jit, static_argnames="model")
def _attention(
    model: Transformer,
    params: Any,
    source: Int[Array, "B S"],
    target: Int[Array, "B T"],
    language_ids: Int[Array, "B"],
) -> Float[Array, "B T S"]:
    """Returns the mean cross-attention of all layers; row t is that from which token t comes."""
    languages = jnp.broadcast_to(language_ids[:, None], target.shape)
    _, collections = model.apply(
        {"params": params}, source, target, decoder_language_ids=languages, mutable=["attention"]
    )
    return jnp.mean(cross_attention(collections["attention"]), axis=0)


def _tokens_of_words(text: str, spans: Sequence[Span]) -> list[list[int]]:
    """Returns the tokens of each word of a text: those with a character of it."""
    return [
        [i for i, (start, end) in enumerate(spans) if start < word.end() and end > word.start()]
        for word in re.finditer(r"\S+", text)
    ]


def _bucket(length: int) -> int:
    return max(16, 1 << (length - 1).bit_length())
