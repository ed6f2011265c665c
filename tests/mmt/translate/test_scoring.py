"""Likelihoods of translations are the model's own."""

import jax
import jax.numpy as jnp
import numpy as np

from eval import contrastive
from tests.helpers.tiny_translator import make, train_vocabulary


def test_likelihoods_are_those_of_single_rows(tmp_path):
    vocabulary = train_vocabulary(tmp_path)
    translator = make(vocabulary, spare=3, batch_size=2)
    texts = [("eins zwei", "drei"), ("vier", "elf zwölf fünf Montag"), ("fünf", "sechs")]
    apply = jax.jit(translator.model.apply)
    expected = []
    for source, target in texts:
        ids = [*vocabulary.encode(f"<2eng> {source}"), 1], [*vocabulary.encode(target), 1]
        sources, targets = (jnp.array([each], jnp.int32) for each in ids)
        inputs = jnp.pad(targets, ((0, 0), (1, 0)))[:, :-1]
        logits = np.asarray(apply({"params": translator.params}, sources, inputs), np.float64)
        rows = logits[0, :, : vocabulary.size]
        rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
        expected.append(sum(rows[i, token] for i, token in enumerate(ids[1])))
    found = contrastive.log_likelihoods(translator, texts)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
