"""Choices of experts by language, against counts of one token after another."""

import jax
import jax.numpy as jnp
import numpy as np

from mmt.model import moe, transformer
from mmt.model.expert_load import expert_load

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
