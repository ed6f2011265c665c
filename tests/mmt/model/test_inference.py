"""The forms of a model for inference against the model as it was trained."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt.decoding import Decoding
from mmt.decoding.bucketing import BucketedBatches, Source
from mmt.model import inference
from mmt.model.inference import WEIGHTS, for_inference
from mmt.model.product import Quantized, SeparateExperts, product, quantize
from mmt.model.stack import cross_attention
from mmt.translate.model_search import TransformerSearch
from tests.mmt.model.test_transformer import VARIANTS, batch, build


@pytest.fixture(scope="module", params=list(VARIANTS))
def trained(request):
    return build(VARIANTS[request.param])


@functools.partial(jax.jit, static_argnums=0)
def logits(model, params, source, target):
    return model.apply({"params": params}, source, target)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_logits_are_those_of_the_trained_model(trained, weights):
    model, params = trained
    source, target = batch()
    want = np.asarray(logits(model, params, source, target))
    got = np.asarray(logits(*for_inference(model, params, weights), source, target))
    real = np.ones(target.shape, bool)
    real[1, -2:] = False
    error = np.abs(got - want)[real].max() / np.abs(want[real]).std()
    least, most = {"float32": (0, 1e-5), "bfloat16": (1e-5, 0.3), "int8": (1e-5, 0.5)}[weights]
    if model.config.moe_period and weights != "float32":  # a token may choose another expert
        error = np.median(np.abs(got - want)[real]) / np.abs(want[real]).std()
        least, most = 0, 0.2
    assert least <= error <= most, error


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("tied", [True, False])
def test_no_program_converts_a_whole_table(weights, tied):
    config = dataclasses.replace(VARIANTS["dense"], vocab_size=1237, emb_dim=24, tied_logits=tied)
    model, params = for_inference(*build(config), weights)
    program = jax.jit(logits, static_argnums=0).lower(model, params, *batch()).compile().as_text()
    stored = {"float32": ("f32", "f32"), "bfloat16": ("u16", "bf16"), "int8": ("s8", "s8")}[weights]
    table, kernel = stored[0] + "[1237,24]", stored[1] + "[24,1237]"
    found = set(re.findall(r"\w+\[1237,24\]|\w+\[24,1237\]", program))
    assert found == ({table} if tied and weights == "float32" else {table, kernel})


def test_cross_attention_is_that_of_the_trained_model(trained):
    model, params = trained
    source, target = batch()

    @functools.partial(jax.jit, static_argnums=0)
    def attention(model, params):
        _, sown = model.apply({"params": params}, source, target, mutable=["attention"])
        return cross_attention(sown["attention"])

    want, got = attention(model, params), attention(*for_inference(model, params, "float32"))
    assert want.shape == (3, 3, 6, 7)
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_kernels_are_stored_in_few_bits_and_the_rest_in_float32(trained):
    model, params = trained
    _, stored = for_inference(model, params, "int8")
    layer = stored["decoder"]["block_0"]["layers_0"]
    attention = layer["self_attention"]
    assert isinstance(attention["out"], Quantized)
    assert attention["out"].scale.shape == (1, 1, 12)
    assert attention["query"].scale.shape == (1, 2, 5)
    assert stored["source_embed"]["embedding"].scale.shape == (40, 1)
    assert layer["self_norm"]["scale"].dtype == jnp.float32
    assert stored["decoder"]["relative_bias"]["embedding"].dtype == jnp.float32


@pytest.mark.parametrize("weights", WEIGHTS)
def test_separate_experts_compute_what_experts_in_one_array_do(monkeypatch, weights):
    model, params = build(VARIANTS["experts and a rest"])
    separate = for_inference(model, params, weights)
    monkeypatch.setattr(inference, "_MAX_SEPARATE", 2)
    together = for_inference(model, params, weights)
    kinds = [
        {isinstance(leaf, SeparateExperts) for leaf in jax.tree.leaves(
            tree, is_leaf=lambda leaf: isinstance(leaf, SeparateExperts))}
        for _, tree in (separate, together)
    ]  # fmt: skip
    assert kinds == [{True, False}, {False}]
    both = [logits(model, params, *batch()) for model, params in (separate, together)]
    np.testing.assert_array_equal(*both)


def test_a_product_in_int8_is_that_of_the_rounded_matrices():
    random = np.random.default_rng(0)
    x, kernel = random.standard_normal((5, 64)), random.standard_normal((64, 9))
    x[2] = 0.0
    sx, sk = np.abs(x).max(1, keepdims=True) / 127, np.abs(kernel).max(0) / 127
    sx[2] = 1.0
    want = np.rint(x / sx) * sx @ (np.rint(kernel / sk) * sk)
    got = product(jnp.asarray(x, jnp.float32), quantize(jnp.asarray(kernel, jnp.float32), (0,)))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert np.abs(got - x @ kernel).max() < 0.5


def test_an_unknown_type_is_an_error():
    with pytest.raises(ValueError, match="weights: 'int4'; allowed: float32, bfloat16, int8"):
        for_inference(*build(VARIANTS["dense"]), "int4")


@pytest.mark.parametrize(
    "variant, beam", [("dense", 1), ("experts and a rest", 3), ("tied, two vocabularies", 3)]
)
def test_the_search_finds_what_it_finds_with_the_trained_model(variant, beam):
    model, params = build(VARIANTS[variant])
    random = np.random.default_rng(1)
    sources = [Source([*random.integers(3, 30, n).tolist(), 1]) for n in (3, 9, 14)]
    decoding = Decoding(beam=beam, nbest=beam, max_length_ratio=1.5)

    def search(model, params):
        vocabulary = model.config.target_vocabulary
        searched = TransformerSearch(model, params, vocabulary=vocabulary)
        return BucketedBatches(searched, decoding, batch_size=4, longest=64).search(sources)

    for want, got in zip(search(model, params), search(*for_inference(model, params, "float32")),
                         strict=True):  # fmt: skip
        assert [hypothesis.tokens for hypothesis in got] == [each.tokens for each in want]
        np.testing.assert_allclose([h.score for h in got], [h.score for h in want], rtol=1e-4)


@pytest.mark.parametrize("scanned", [True, False])
def test_reordered_hypotheses_attend_to_their_own_tokens(scanned):
    """Beams are exchanged and copied at every step; logits are those of the whole history."""
    model, params = build(VARIANTS["dense"])
    if not scanned:
        model, params = for_inference(model, params, "float32")
    variables, (source, _), beams = {"params": params}, batch(), 3
    random, rows, length = np.random.default_rng(2), len(source), 6
    encoded = jax.jit(lambda: model.apply(variables, source, method="encode"))()
    cross_kv = jax.jit(lambda: model.apply(variables, encoded, source, method="cross_kv"))()
    cache = model.apply(variables, rows, length, beams, method="empty_cache")
    history = np.zeros((rows, beams, 0), np.int32)
    step = jax.jit(lambda *arguments: model.apply(variables, *arguments, method="decode_step"))
    for _ in range(length):
        tokens = random.integers(2, 30, (rows, beams, 1)).astype(np.int32)
        history = np.concatenate([history, tokens], axis=-1)
        got, cache = step(jnp.asarray(tokens.reshape(-1)), cross_kv, cache)
        decoded = history.shape[-1]
        whole = np.pad(history, ((0, 0), (0, 0), (0, length - decoded))).reshape(-1, length)
        want = logits(model, params, jnp.repeat(source, beams, axis=0), jnp.asarray(whole))
        np.testing.assert_allclose(got, want[:, decoded - 1], rtol=1e-3, atol=2e-4)
        parents = random.integers(0, beams, (rows, beams))
        cache = cache.reorder(jnp.asarray(parents, jnp.int32))
        history = np.take_along_axis(history, parents[..., None], axis=1)


def test_small_batches_have_fewer_rows_and_the_same_results():
    model, params = for_inference(*build(VARIANTS["dense"]), "float32")
    search = TransformerSearch(model, params, vocabulary=model.config.target_vocabulary)
    fixed = BucketedBatches(search, Decoding(beam=2), batch_size=16, longest=64)
    few = dataclasses.replace(fixed, fixed=False)
    sources = [Source([5, 6, 7, 1])]
    assert few.search(sources)[0][0].tokens == fixed.search(sources)[0][0].tokens


def test_a_model_trained_in_bfloat16_computes_in_float32():
    config = dataclasses.replace(VARIANTS["dense"], dtype="bfloat16")
    model, _ = for_inference(*build(config), "bfloat16")
    assert model.config == dataclasses.replace(config, scan_layers=False, dtype="float32")
