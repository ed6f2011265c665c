"""The log-likelihoods that a model gives to translations, without a search."""

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from mmt.data.vocabulary import find_tag
from mmt.translate import Translator


def log_likelihoods(
    translator: Translator, pairs: Sequence[tuple[str, str]], *, source: str | None = None
) -> Float[np.ndarray, "n"]:
    """Returns the log-probability of each translation of (source, translation), end included.

    The translations are into English, and the sources fit the model. A model that routes by
    language needs `source`.
    """
    config, sides = translator.model.config, translator.vocabularies
    language = translator.language_id(source) if translator.routes_by_language else 0
    tag = ""
    if translator.tagged:
        tag = find_tag(sides["source"], "eng", trained=translator.manifest.target) + " "
    sources = sides["source"].encode_all([tag + text for text, _ in pairs])
    targets = sides["target"].encode_all([text for _, text in pairs])
    encoded = list(zip(sources, targets, strict=True))
    shapes = [tuple(max(16, 1 << len(ids).bit_length()) for ids in pair) for pair in encoded]
    scores = np.zeros(len(pairs), np.float64)
    rows = translator.batch_size
    by_shape = {shape: [i for i, each in enumerate(shapes) if each == shape]
                for shape in sorted(set(shapes))}  # fmt: skip
    batches = [(shape, indices[start : start + rows]) for shape, indices in by_shape.items()
               for start in range(0, len(indices), rows)]  # fmt: skip
    with translator.layout.active() if translator.layout else contextlib.nullcontext():
        for shape, batch in batches:
            arrays = [np.full((rows, length), config.pad_id, np.int32) for length in shape]
            for row, i in enumerate(batch):
                for array, ids in zip(arrays, encoded[i], strict=True):
                    array[row, : len(ids) + 1] = [*ids, config.eos_id]
            values = _log_likelihood(
                translator.model, translator.params, *arrays, language, size=sides["target"].size
            )
            scores[batch] = np.asarray(values)[: len(batch)]
    return scores


@functools.partial(jax.jit, static_argnames=("model", "size"))
def _log_likelihood(
    model: Any,
    params: Any,
    sources: Int[Array, "B S"],
    targets: Int[Array, "B T"],
    language: int,
    *,
    size: int,
) -> Float[Array, "B"]:
    """Returns the log-probability of each row; `size` logits have pieces."""
    config = model.config
    inputs = jnp.pad(targets, ((0, 0), (1, 0)), constant_values=config.start_id)[:, :-1]
    languages = jnp.full_like(targets, language)
    counted = targets != config.pad_id
    logits = model.apply({"params": params}, sources, inputs, decoder_language_ids=languages)
    log_probabilities = jax.nn.log_softmax(logits[..., :size])
    of_tokens = jnp.take_along_axis(log_probabilities, targets[..., None], axis=-1)
    return jnp.sum(of_tokens[..., 0] * counted, axis=1)
