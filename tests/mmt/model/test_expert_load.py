"""Choices of experts by language, and their gates, against sums of one token after another."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from mmt.model import moe, transformer
from mmt.model.expert_load import expert_load, gate_mass

LANGUAGES = 3


CONFIG = transformer.Config(
    vocab_size=30, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=16, encoder_layers=2,
    decoder_layers=1, moe_period=1, moe=moe.MoeConfig(num_experts=4, group_size=7),
)  # fmt: skip


def test_every_token_counts_for_its_language():
    """Packed rows: each segment has a language; padding and the group's filling do not count."""
    random = np.random.default_rng(0)
    encoder = np.array([[1, 1, 2, 2, 2, 0, 0], [1, 1, 1, 1, 2, 3, 3]])
    decoder = np.array([[1, 2, 2, 0, 0], [1, 1, 2, 3, 3]])
    of_segment = [[0, 2, 1], [0, 1, 0, 2]]  # by row; segment 0 is padding
    of_segment = [[0, *row[1:]] for row in of_segment]
    ids = np.array([[of_segment[row][s] for s in line] for row, line in enumerate(decoder)])
    features = {
        "encoder_input_tokens": random.integers(3, 30, encoder.shape),
        "decoder_input_tokens": random.integers(3, 30, decoder.shape),
        "encoder_segment_ids": encoder, "decoder_segment_ids": decoder,
    }  # fmt: skip
    features = {name: jnp.asarray(value, jnp.int32) for name, value in features.items()}
    ids, model = jnp.asarray(ids, jnp.int32), transformer.Transformer(CONFIG)

    @jax.jit
    def both():
        tokens = features["encoder_input_tokens"], features["decoder_input_tokens"]
        params = model.init(jax.random.key(0), *tokens)["params"]
        load = expert_load(model, params, features, ids, languages=LANGUAGES)
        return load, model.apply({"params": params}, **features, mutable=["routing"])[1]

    load, sown = both()
    chosen = jax.tree_util.tree_leaves_with_path(sown["routing"])
    for stack, segments, layers in (("encoder", encoder, 2), ("decoder", decoder, 1)):
        expert = next(leaf for path, leaf in chosen if stack in str(path))
        expected = np.zeros((layers, LANGUAGES, 4))
        for layer in range(layers):
            flat = np.asarray(expert[layer]).reshape(-1, expert.shape[-1])
            for token, segment in enumerate(segments.ravel()):
                if segment:
                    language = of_segment[token // segments.shape[1]][segment]
                    for choice in flat[token]:
                        expected[layer, language, choice] += 1
        np.testing.assert_array_equal(load[stack], expected)
        assert load[stack].sum() == layers * (segments > 0).sum() * expert.shape[-1]


@pytest.mark.parametrize("router", [moe.gshard_top2, moe.switch_top1])
def test_gates_are_those_of_the_papers(router):
    """The softmax of each token's logits, its one or two largest, without experts left out."""
    experts = moe.MoeConfig(num_experts=4, router=router)
    model = transformer.Transformer(dataclasses.replace(CONFIG, moe=experts))
    random = np.random.default_rng(0)
    tokens = {"encoder": random.integers(3, 30, (3, 6)), "decoder": random.integers(3, 30, (3, 5))}
    real = {"encoder": np.ones((3, 6), int), "decoder": np.ones((3, 5), int)}
    real["encoder"][1, 2:] = real["decoder"][2, 4:] = 0
    features = {f"{stack}_input_tokens": jnp.asarray(ids) for stack, ids in tokens.items()}
    features |= {f"{stack}_segment_ids": jnp.asarray(ids) for stack, ids in real.items()}
    layers = {"encoder/0/mlp": [1, 1, 0, 1], "encoder/1/mlp": [0, 1, 0, 0],
              "decoder/0/mlp": [1, 1, 1, 1]}  # fmt: skip
    kept = {mlp: jnp.asarray(mask, bool) for mlp, mask in layers.items()}

    @jax.jit
    def both():
        made = model.init(jax.random.key(0), *map(jnp.asarray, tokens.values()))["params"]
        params = jax.tree.map(lambda leaf: leaf * 3, nn.unbox(made))  # gates that differ
        _, seen = model.apply(
            {"params": params}, **features, mutable=["intermediates"],
            capture_intermediates=lambda module, _: module.name == "mlp_norm",
        )  # fmt: skip
        return params, seen["intermediates"], gate_mass(model, params, features, kept)

    params, seen, masses = jax.tree.map(np.asarray, both())
    assert masses.keys() == layers.keys()
    for mlp, mask in layers.items():
        stack, number, _ = mlp.split("/")
        inputs = seen[stack]["blocks"]["layers_0"]["mlp_norm"]["__call__"][0][int(number)]
        columns = params[stack]["blocks"]["layers_0"]["mlp"]["router"][int(number)]
        expected = {name: np.zeros(4) for name in ("mass", "tokens", "replaced")}
        for row, position in zip(*np.nonzero(real[stack]), strict=True):
            logits = inputs[row, position].astype(float) @ columns
            whole, some = (weights_of(logits, allowed, router) for allowed in ([1] * 4, mask))
            for expert, weight in some.items():
                expected["mass"][expert] += weight
                expected["tokens"][expert] += 1
                expected["replaced"][expert] += weight / sum(some.values()) * sum(whole.values())
        assert masses[mlp].total == real[stack].sum()
        for name, values in expected.items():
            np.testing.assert_allclose(getattr(masses[mlp], name), values, rtol=1e-4, atol=1e-5)


def weights_of(logits, allowed, router):
    """The weights of a token's experts among those that are allowed, by expert."""
    powers = {i: np.exp(logits[i]) for i in range(len(logits)) if allowed[i]}
    gates = {i: power / sum(powers.values()) for i, power in powers.items()}
    best = sorted(gates, key=gates.get, reverse=True)
    if router is moe.switch_top1:
        return {best[0]: gates[best[0]]}
    both = sum(gates[i] for i in best[:2])
    return {i: gates[i] / both for i in best[:2]}
