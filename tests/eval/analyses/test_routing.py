"""Rows about routing: every token is counted once, in any packing."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from eval.analyses import routing
from eval.testsets import Sentences, TestSet
from mmt.data import vocabulary as vocab
from mmt.data.cache.manifest import Manifest
from mmt.model import moe, parameter_names, transformer
from mmt.translate import Translator

WORDS = "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf Montag Dienstag".split()
GERMAN = Sentences(tuple(WORDS), tuple(f"{a} {b}" for a, b in zip(WORDS, WORDS[::-1], strict=True)))
FRENCH = Sentences(tuple(a + "s" for a in WORDS), tuple(WORDS[::-1]))
BOTH = TestSet("toy", "eng_Latn", {"deu_Latn": GERMAN, "fra_Latn": FRENCH})


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """Random weights; 2 encoder and 3 decoder layers, the second of each with experts."""
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.model"
    texts = [f"<2eng> {a} {b}s" for a in WORDS for b in WORDS]
    vocab.train(texts, path, size=320, tags=["<2eng>"])
    vocabulary = vocab.Vocabulary.load(path)
    model = transformer.Transformer(
        transformer.Config(
            vocab_size=vocabulary.size, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32,
            encoder_layers=2, decoder_layers=3, moe_period=2, moe=moe.MoeConfig(num_experts=4),
        )
    )  # fmt: skip
    tokens = jnp.ones((1, 4), jnp.int32)
    params = nn.unbox(jax.jit(model.init)(jax.random.key(0), tokens, tokens)["params"])
    both = dict.fromkeys(("source", "target"), vocabulary)
    manifest = Manifest(
        name="toy", target="eng_Latn", languages=("deu_Latn", "fra_Latn"), counts={"train": {}},
        corpus_hash="", vocabulary_hash={side: v.hash for side, v in both.items()},
        vocabulary_size={side: v.size for side, v in both.items()},
    )  # fmt: skip
    return Translator(model, params, vocabularies=both, manifest=manifest, max_source_length=24)


def with_moe(translator, **changes):
    config = translator.model.config
    config = dataclasses.replace(config, moe=dataclasses.replace(config.moe, **changes))
    return dataclasses.replace(translator, model=transformer.Transformer(config))


def rows(translator, testset=BOTH, **options):
    routed = routing.routing(translator, testset, system="s", checkpoint="s/1", **options)
    return {(row.layer, row.source): row for row in routed}


def test_every_layer_with_experts_and_every_language_has_a_row(translator):
    routed = rows(translator)
    assert set(routed) == {
        (layer, code) for layer in ("encoder.2", "decoder.2") for code in BOTH.languages
    }
    vocabulary = translator.vocabularies["source"]
    for (layer, code), row in routed.items():
        lines = BOTH.languages[code]
        texts = lines.references if layer.startswith("dec") else ["<2eng> " + s for s in lines[0]]
        assert row.tokens == sum(len(vocabulary.encode(text)) + 1 for text in texts)
        shares = np.array(row.load)
        entropy = -sum(share * np.log(share) for share in shares if share) / np.log(4)
        assert row.entropy == pytest.approx(entropy, abs=1e-3)


def test_the_tag_is_that_of_the_vocabulary(translator, tmp_path):
    path = tmp_path / "vocabulary.model"
    vocab.train([f"<2en> {word}s" for word in WORDS * 9], path, size=320, tags=["<2en>"])
    other = vocab.Vocabulary.load(path)
    both = dict.fromkeys(("source", "target"), other)
    manifest = dataclasses.replace(
        translator.manifest, vocabulary_hash=dict.fromkeys(both, other.hash)
    )
    spelled = dataclasses.replace(translator, vocabularies=both, manifest=manifest)
    (tokens,) = {row.tokens for (layer, code), row in rows(spelled).items()
                 if (layer, code) == ("encoder.2", "deu_Latn")}  # fmt: skip
    assert tokens == sum(len(other.encode(f"<2en> {word}")) + 1 for word in WORDS)


def test_a_language_is_routed_as_if_it_were_alone(translator):
    together = rows(translator)
    for code, lines in BOTH.languages.items():
        alone = rows(translator, TestSet("toy", "eng_Latn", {code: lines}), rows=3)
        for layer in ("encoder.2", "decoder.2"):
            assert alone[layer, code].load == together[layer, code].load


def test_the_gate_of_conditional_routing_is_measured_by_language(translator):
    """A language's gate is that of its tokens alone; a kernel of zeros opens all gates by half."""
    assert {row.gate for row in rows(translator).values()} == {None}
    gated = with_moe(translator, shared_mlp_dim=8, gate_budget=0.8)
    tokens = jnp.ones((1, 4), jnp.int32)
    params = nn.unbox(jax.jit(gated.model.init)(jax.random.key(1), tokens, tokens)["params"])
    flat = parameter_names.to_flat(params, gated.model.config)
    rng = np.random.default_rng(0)
    flat["decoder/1/mlp/gate"] = rng.normal(size=flat["decoder/1/mlp/gate"].shape)
    flat["encoder/1/mlp/gate"] = np.zeros_like(flat["encoder/1/mlp/gate"])
    params = parameter_names.from_flat(flat, gated.model)
    gated = dataclasses.replace(gated, params=params)
    routed = rows(gated)
    for code, lines in BOTH.languages.items():
        assert routed["encoder.2", code].gate == 0.5
        alone = rows(gated, TestSet("toy", "eng_Latn", {code: lines}), rows=3)
        assert alone["decoder.2", code].gate == pytest.approx(routed["decoder.2", code].gate)
    assert routed["decoder.2", "deu_Latn"].gate != routed["decoder.2", "fra_Latn"].gate


def test_a_model_that_routes_by_language_sends_a_language_to_its_experts(translator):
    """By the model's ids, which differ from the test set's; in training some are dropped."""
    config = dataclasses.replace(
        translator.model.config, languages=3, decoder_routing="language",
        moe=moe.MoeConfig(num_experts=4, router=moe.switch_top1, group_size=24),
    )  # fmt: skip
    model = transformer.Transformer(config)
    tokens = jnp.ones((1, 4), jnp.int32)
    params = nn.unbox(jax.jit(model.init)(jax.random.key(0), tokens, tokens)["params"])
    mlp = params["decoder"]["blocks"]["layers_1"]["mlp"]
    mlp["router"] = 9.0 * jnp.eye(4)[None, jnp.asarray([3, 2, 0])]
    languages = ("aeb_Arab", "deu_Latn", "fra_Latn")
    manifest = dataclasses.replace(translator.manifest, languages=languages)
    routed = rows(dataclasses.replace(translator, model=model, params=params, manifest=manifest))
    assert routed["decoder.2", "deu_Latn"].load == (0.0, 0.0, 1.0, 0.0)
    assert routed["decoder.2", "fra_Latn"].load == (1.0, 0.0, 0.0, 0.0)
    assert len(set(routed["encoder.2", "deu_Latn"].load)) > 2
    assert routed["decoder.2", "deu_Latn"].drop_rate > 0


def test_tokens_are_dropped_only_if_capacity_is_too_small(translator):
    def dropped(factor):
        routed = rows(with_moe(translator, capacity_factor=factor, group_size=48)).values()
        return [row.drop_rate for row in routed]

    assert dropped(4.0) == [0.0] * 4  # room for all
    assert sum(dropped(0.1)) > 2.0 > sum(dropped(1.0))


def test_rows_are_packed_as_the_run_was_trained(translator, tmp_path):
    encode = translator.vocabularies["target"].encode
    lengths = [len(encode(line)) + 1 for line in GERMAN.references]
    longest = sorted(lengths)[len(lengths) // 2]
    text = f"TASK_FEATURE_LENGTHS = {{'inputs': 24, 'targets': {longest}}}\nBATCH_SIZE = 128\n"
    (tmp_path / "config.gin").write_text(text)
    trained = routing.as_trained(tmp_path)
    assert trained == {"rows": 32, "target_length": longest} and longest < max(lengths)
    routed = rows(translator, TestSet("toy", "eng_Latn", {"deu_Latn": GERMAN}), **trained)
    fit = sum(length for length in lengths if length <= longest)
    assert routed["decoder.2", "deu_Latn"].tokens == fit
    (tmp_path / "config.gin").write_text("SEED = 1\n")
    assert routing.as_trained(tmp_path) == {}


def test_few_sentences_suffice_and_dense_models_have_no_rows(translator):
    few = rows(translator, sentences=3)
    assert 0 < few["encoder.2", "deu_Latn"].tokens < 30
    config = dataclasses.replace(translator.model.config, moe_period=0)
    dense = dataclasses.replace(translator, model=transformer.Transformer(config))
    assert rows(dense) == {}
