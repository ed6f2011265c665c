"""A Transformer in a search: its special tokens, and how many programs are compiled."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from mmt.decoding import Decoding
from mmt.decoding.bucketing import BucketedBatches, Source
from mmt.model.transformer import Config, Transformer
from mmt.translate import model_search
from mmt.translate.model_search import TransformerSearch

BEAM = Decoding(nbest=4, max_length_ratio=1.0)


@pytest.fixture(scope="module")
def trained():
    """A model and parameters, at random."""
    model = Transformer(Config(
        vocab_size=20, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32, encoder_layers=1,
        decoder_layers=1,
    ))  # fmt: skip
    tokens = jnp.ones((1, 4), jnp.int32)
    return model, nn.unbox(jax.jit(model.init)(jax.random.key(0), tokens, tokens)["params"])


def make(trained, decoding=BEAM):
    model = TransformerSearch(*trained, vocabulary=20)
    return BucketedBatches(model, decoding, batch_size=8, longest=64, token_scores=True)


def sources(count, seed=0):
    random = np.random.default_rng(seed)
    return [Source([*random.integers(3, 20, random.integers(1, 15)).tolist(), 1])
            for _ in range(count)]  # fmt: skip


def test_ids_are_the_models_and_a_diverged_model_is_an_error(trained):
    model, params = trained
    model = type(model)(dataclasses.replace(model.config, pad_id=0, eos_id=2, start_id=3))
    texts = [Source([*source.tokens[:-1], 2]) for source in sources(9)]
    results = make((model, params)).search(texts)
    for source in (source for each in results for source in each):
        assert 0 not in source.tokens and 2 not in source.tokens[:-1] and source.tokens[-1] == 2
    broken = jax.tree.map(lambda leaf: leaf * np.nan, params)
    with pytest.raises(ValueError, match="not a number .*diverge"):
        make((model, broken)).search(texts)


def test_few_programs_are_compiled(trained):
    make(trained).search(sources(30))
    before = model_search.prefill._cache_size(), model_search.decode_segment._cache_size()
    make(trained).search(sources(30, seed=1))
    make(trained, dataclasses.replace(BEAM, seed=5)).search(sources(3, seed=2))
    assert (model_search.prefill._cache_size(), model_search.decode_segment._cache_size()) == before
