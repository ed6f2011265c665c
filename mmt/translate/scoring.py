"""Scores given translations in one teacher-forced pass: no search, so any text can be scored."""

import contextlib
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from mmt.decoding import Decoding
from mmt.decoding.beam_search import length_penalty
from mmt.translate import alignment
from mmt.translate.model_search import Model
from mmt.translate.translation import Hypothesis
from mmt.translate.translator import Translator

_MAX_LOGITS = 1 << 27  # of a batch: 512 MiB


def score(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    *,
    source: str | None = None,
    target: str | None = None,
    decoding: Decoding | None = None,
) -> list[Hypothesis]:
    """Returns the translation of each pair (line, translation) with its score and token scores.

    The score is that which a search would give the same tokens: their log-probability, end token
    included, divided by the length penalty of `decoding`; with `alpha` 0 the log-probability. A
    line is not split into sentences. Scores do not depend on other pairs.

    A pair that is longer than the model reads or a search writes has the score nan and no tokens.

    Args:
        translator: the model.
        pairs: lines and translations.
        source: language of the lines, which only a model that routes by language needs.
        target: language of the translations, as in `Translator.translate`.
        decoding: its `alpha` and `penalty` are used; None is `translator.default_decoding`.

    Raises:
        ValueError: for a language that the model does not have, or needs.

    >>> translator = Translator.load("runs/demo/multilingual")                     # doctest: +SKIP
    >>> score(translator, [("3 Stunden", "3 hours")])[0].score                     # doctest: +SKIP
    -0.0021
    """
    translator.check_language(source, target)
    decoding = translator.default_decoding if decoding is None else decoding
    vocabulary, longest = translator.vocabularies["target"], translator.max_source_length
    tag = translator.tag(target)
    lines = [f"{tag} {line}" if tag else line for line, _ in pairs]
    encoded = list(
        zip(
            translator.vocabularies["source"].encode_all(lines),
            vocabulary.encode_all([translation for _, translation in pairs]),
            strict=True,
        )
    )
    fitting = [
        i for i, (line, translation) in enumerate(encoded)
        if len(line) < longest and len(translation) < decoding.longest(longest)
    ]  # fmt: skip
    scores = _token_scores(translator, [encoded[i] for i in fitting], source, target)
    scored = [Hypothesis(translation, math.nan) for _, translation in pairs]
    for i, of_tokens in zip(fitting, scores, strict=True):
        tokens = [*encoded[i][1], translator.model.config.eos_id]
        penalty = float(length_penalty(len(tokens), decoding.settings(len(tokens))))
        scored[i] = scored[i]._replace(
            score=math.fsum(of_tokens) / penalty,
            tokens=tuple(map(vocabulary.piece, tokens)),
            token_scores=tuple(of_tokens),
        )
    return scored


def word_links(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    scored: Sequence[Hypothesis],
    *,
    source: str | None = None,
    target: str | None = None,
) -> list[list[tuple[int, int]]]:
    """Returns (source word, target word) of each word of each translation, as `Alignment` does.

    A pair without a score, which does not fit the model, has none.
    """
    fitting = [i for i, each in enumerate(scored) if each.tokens]
    aligned = translator.align([pairs[i] for i in fitting], source=source, target=target)
    links = [list[tuple[int, int]]() for _ in pairs]
    for i, of_pair in zip(fitting, aligned, strict=True):
        links[i] = of_pair.word_links(*pairs[i])
    return links


def _token_scores(
    translator: Translator,
    encoded: Sequence[tuple[list[int], list[int]]],
    source: str | None,
    target: str | None,
) -> list[list[float]]:
    """Returns the log-probabilities of the tokens of each translation, end token included."""
    config, scores = translator.model.config, [list[float]() for _ in encoded]
    language = translator.language_id(source, target) if translator.routes_by_language else 0
    size, rows_of = translator.vocabularies["target"].size, functools.partial(_rows, translator)
    with translator.layout.active() if translator.layout else contextlib.nullcontext():
        model, params = translator.combined()
        for shape, batch in alignment.batches(encoded, rows_of):
            sources, inputs = alignment.inputs(translator.model, [encoded[i] for i in batch], shape)
            targets = np.full_like(inputs, config.pad_id)
            for row, i in enumerate(batch):
                targets[row, : len(encoded[i][1]) + 1] = [*encoded[i][1], config.eos_id]
            values = np.asarray(
                _log_probabilities(
                    model, params, sources, inputs, targets,
                    np.full(shape[0], language, np.int32), size=size,
                )
            )  # fmt: skip
            for row, i in enumerate(batch):
                scores[i] = values[row, : len(encoded[i][1]) + 1].tolist()
    return scores


def _rows(translator: Translator, length: int) -> int:
    """Returns the rows of a batch: `batch_size`, or fewer, so that its logits are not too many."""
    parts = translator.layout.parts("batch") if translator.layout else 1
    fitting = _MAX_LOGITS // (length * translator.model.config.target_vocabulary)
    return min(translator.batch_size, max(1, fitting // parts) * parts)


@functools.partial(jax.jit, static_argnames=("model", "size"))
def _log_probabilities(
    model: Model,
    params: Any,
    sources: Int[Array, "B S"],
    inputs: Int[Array, "B T"],
    targets: Int[Array, "B T"],
    language_ids: Int[Array, "B"],
    *,
    size: int,
) -> Float[Array, "B T"]:
    """Returns the log-probability of each target token; only the first `size` logits are pieces."""
    languages = jnp.broadcast_to(language_ids[:, None], inputs.shape)
    variables = {"params": params}
    logits: Any = model.apply(variables, sources, inputs, decoder_language_ids=languages)
    log_probabilities = jax.nn.log_softmax(logits[..., :size])
    return jnp.take_along_axis(log_probabilities, targets[..., None], axis=-1)[..., 0]
