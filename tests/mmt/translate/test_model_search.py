"""A Transformer in a search: its special tokens, and how many programs are compiled."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from mmt.decoding import Decoding
from mmt.decoding.bucketing import BucketedBatches, Source
from mmt.decoding.constraints import RequiredPhrase, WordEdges
from mmt.model import inference
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


class Counted(TransformerSearch):
    """Notes the rows of each batch that sources left."""

    kept: list[list[int]] = []

    def take(self, parts, rows, *, settings):
        self.kept.append(rows.tolist())
        return super().take(parts, rows, settings=settings)


@pytest.mark.parametrize("form", ["scanned", "separate layers", "glossary"])
def test_a_quarter_of_the_rows_goes_on_when_the_others_are_done(trained, monkeypatch, form):
    """Eighteen of 20 sources have one token, and so does each of their translations."""
    monkeypatch.setattr(Counted, "kept", [])
    if form == "separate layers":
        trained = inference.for_inference(*trained, "float32")
    words = WordEdges(np.zeros(20, bool), np.zeros(20, bool))
    phrases = (RequiredPhrase(((7, 8),)),) if form == "glossary" else ()
    long = [Source([*range(3 + i, 16 + i), 1]) for i in range(2)]
    texts = [long[0], *(Source([token, 1]) for token in range(2, 20)), long[1]]
    texts = [text._replace(phrases=phrases) for text in texts]
    decoding = dataclasses.replace(BEAM, min_length_ratio=1.0)
    whole = BucketedBatches(
        Counted(*trained, vocabulary=20), decoding, batch_size=32, longest=64, token_scores=True,
        edges=words,
    )  # fmt: skip
    expected = whole.search(texts)
    assert not Counted.kept
    found = dataclasses.replace(whole, fixed=False).search(texts)
    kept = np.flatnonzero(np.isin(Counted.kept[0], [18, 19]))
    assert kept.tolist() == [0, 1]  # sorted: the two long ones
    assert [len(rows) for rows in Counted.kept] == [8, 4]
    for one, other in zip(found, expected, strict=True):
        assert [best.tokens for best in one] == [best.tokens for best in other]
        np.testing.assert_allclose(
            [best.score for best in one], [best.score for best in other], atol=1e-4
        )
        np.testing.assert_allclose(one[0].token_scores, other[0].token_scores, atol=1e-4)
