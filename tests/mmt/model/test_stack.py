"""Stacks of layers: relative bias of the stack or of each layer, special ids, depth."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from mmt.model import parameter_names
from mmt.model.moe import MoeConfig
from mmt.model.stack import alignment_nll
from mmt.model.transformer import Config, Transformer, parameter_shapes

CONFIG = Config(
    vocab_size=30, emb_dim=12, num_heads=2, head_dim=5, mlp_dim=16,
    encoder_layers=2, decoder_layers=3, relative_buckets=8, relative_max_distance=10,
)  # fmt: skip
SOURCE = jnp.array([[5, 6, 7, 8, 9, 1], [4, 3, 1, 0, 0, 0]], jnp.int32)
TARGET = jnp.array([[0, 9, 8, 7, 6], [0, 3, 4, 0, 0]], jnp.int32)


def init(config):
    model = Transformer(config)
    return model, nn.unbox(jax.jit(model.init)(jax.random.key(0), SOURCE, TARGET)["params"])


def run(model, params, *arrays, **options):
    """Returns what the model returns, compiled as one program."""
    call = functools.partial(model.apply, **options)
    return jax.jit(lambda params, arrays: call({"params": params}, *arrays))(params, arrays)


@pytest.mark.slow
def test_a_bias_in_every_layer_is_that_of_the_stack_where_all_are_equal():
    shared, params = init(CONFIG)
    layered = Transformer(dataclasses.replace(CONFIG, relative_bias_per_layer=True))
    by_layer = parameter_names.to_flat(params, CONFIG)
    for stack, layers in (("encoder", 2), ("decoder", 3)):
        table = by_layer.pop(f"{stack}/relative_bias/embedding")
        by_layer |= {f"{stack}/{i}/relative_bias/embedding": table for i in range(layers)}
    expected = shared.apply({"params": params}, SOURCE, TARGET)
    logits = layered.apply({"params": parameter_names.from_flat(by_layer, layered)}, SOURCE, TARGET)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)
    by_layer["decoder/2/relative_bias/embedding"] = table + jnp.arange(8.0)[:, None]
    params = {"params": parameter_names.from_flat(by_layer, layered)}
    changed = layered.apply(params, SOURCE, TARGET)
    assert float(jnp.abs(changed - expected).max()) > 1e-3


@pytest.mark.slow
def test_dropout_inside_mlps_may_have_a_rate_of_its_own():
    """None is dropout_rate. Only layers without experts have it: with experts in all, none has."""

    def logits(**options):
        model = Transformer(dataclasses.replace(CONFIG, **options))
        params = init(model.config)[1]
        return model.apply(
            {"params": params}, SOURCE, TARGET, enable_dropout=True,
            rngs={"dropout": jax.random.key(1)},
        )  # fmt: skip

    usual = logits(dropout_rate=0.2)
    np.testing.assert_array_equal(usual, logits(dropout_rate=0.2, activation_dropout=0.2))
    assert np.abs(usual - logits(dropout_rate=0.2, activation_dropout=0.5)).max() > 1e-3
    without = logits()
    np.testing.assert_array_equal(without, logits(activation_dropout=0.0))
    assert np.abs(without - logits(activation_dropout=0.5)).max() > 1e-3
    experts = {"moe_period": 1, "moe": MoeConfig(num_experts=2)}
    np.testing.assert_array_equal(logits(**experts), logits(activation_dropout=0.5, **experts))


@pytest.mark.slow
def test_unrolled_layers_are_the_same_model():
    """The same parameters, their gradients, dropout masks and decoding, with experts too."""
    config = dataclasses.replace(
        CONFIG, dropout_rate=0.2, moe_period=1, moe=MoeConfig(num_experts=2), encoder_layers=3
    )
    model, params = init(config)
    unrolled = Transformer(dataclasses.replace(config, unroll=2))

    def loss_and_gradients(model):
        def loss(params):
            logits = model.apply(
                {"params": params}, SOURCE, TARGET, enable_dropout=True,
                rngs={"dropout": jax.random.key(1)},
            )  # fmt: skip
            return jnp.square(logits).mean()

        return jax.jit(jax.value_and_grad(loss))(params)

    expected, got = loss_and_gradients(model), loss_and_gradients(unrolled)
    assert jax.tree.structure(expected) == jax.tree.structure(got)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), expected, got)


@pytest.mark.parametrize("per_layer", [False, True])
def test_decoding_step_by_step_sees_the_same_bias(per_layer):
    model, params = init(dataclasses.replace(CONFIG, relative_bias_per_layer=per_layer))
    encoded = run(model, params, SOURCE, method="encode")
    memory = run(model, params, encoded, SOURCE, method="cross_kv")
    cache = model.apply({"params": params}, 2, 5, method="empty_cache")
    expected = run(model, params, SOURCE, TARGET)
    step = jax.jit(functools.partial(model.apply, {"params": params}, method="decode_step"))
    for t in range(5):
        logits, cache = step(TARGET[:, t], memory, cache)
        within = TARGET[:, t] != 0 if t else jnp.array([True, True])
        np.testing.assert_allclose(
            logits[within], expected[within, t], rtol=1e-4, atol=1e-5
        )


def test_experts_may_be_narrower_than_the_layers_without():
    moe = MoeConfig(num_experts=4, mlp_dim=6)
    shapes = parameter_names.shapes(Transformer(dataclasses.replace(CONFIG, moe_period=2, moe=moe)))
    widths = {name: shape[-1] for name, shape in shapes.items() if name.endswith("/mlp/wi_0")}
    assert widths["encoder/0/mlp/wi_0"] == 16 and widths["encoder/1/mlp/wi_0"] == 6


def test_buckets_reach_the_configured_distance():
    model, params = init(CONFIG)
    table = params["encoder"]["relative_bias"]["embedding"]
    assert table.shape == (8, 2)
    far = Transformer(dataclasses.replace(CONFIG, relative_max_distance=40))
    source = jnp.arange(2, 22, dtype=jnp.int32)[None]
    same = [run(m, params, source, TARGET[:1]) for m in (model, far)]
    assert float(jnp.abs(same[0] - same[1]).max()) > 1e-4


def test_padding_is_whatever_token_the_config_says():
    model, params = init(CONFIG)
    other = Transformer(dataclasses.replace(CONFIG, pad_id=17))
    source, target = (jnp.where(x == 0, 17, x).at[:, 0].set(x[:, 0]) for x in (SOURCE, TARGET))
    expected = run(model, params, SOURCE, TARGET)
    logits = run(other, params, source, target)
    np.testing.assert_array_equal(logits[0], expected[0])
    np.testing.assert_array_equal(logits[1, :3], expected[1, :3])
    encoded = run(other, params, source, method="encode")
    memory = run(other, params, encoded, source, method="cross_kv")
    np.testing.assert_array_equal(memory.mask, SOURCE != 0)


def test_the_program_does_not_grow_with_depth():
    def operations(layers):
        config = dataclasses.replace(
            CONFIG, encoder_layers=layers, decoder_layers=layers, moe_period=2, moe=MoeConfig(4)
        )
        model = Transformer(config)
        shapes = {"params": parameter_shapes(model)}
        return str(jax.make_jaxpr(model.apply)(shapes, SOURCE, TARGET)).count(" = ")

    assert operations(2) == operations(8)


@pytest.mark.parametrize("side", ["source", "target"])
def test_word_dropout_takes_whole_words_of_its_side_in_training_alone(side):
    """Without layers the logits of a row depend on its own word only, and are zero without it."""
    layers = {"encoder_layers": 0, "decoder_layers": 0}
    config = dataclasses.replace(CONFIG, **layers, **{f"{side}_word_dropout": 0.4})
    model, params = init(config)
    words = jax.random.randint(jax.random.key(1), (40, 50), 2, 30)

    def seen(**options):
        if side == "source":
            return model.apply({"params": params}, words, method="encode", **options)
        return model.apply({"params": params}, words, words, **options)

    whole = seen()
    embedded = seen(enable_dropout=True, rngs={"dropout": jax.random.key(2)})
    dropped = (embedded == 0).all(-1)
    assert abs(float(dropped.mean()) - 0.4) < 0.05
    np.testing.assert_allclose(embedded[~dropped], whole[~dropped], rtol=1e-4, atol=1e-6)
    assert bool((whole != 0).any(-1).all())
    other = "target" if side == "source" else "source"
    model = Transformer(dataclasses.replace(CONFIG, **layers, **{f"{other}_word_dropout": 0.4}))
    np.testing.assert_array_equal(
        seen(enable_dropout=True, rngs={"dropout": jax.random.key(2)}), whole
    )


# 0: scanned; 2: a scanned block, and a remainder
@pytest.mark.parametrize("moe_period", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_the_alignment_loss_is_that_of_the_layer(moe_period):
    """A change of a layer's queries changes the loss of this layer, and of no earlier one."""
    moe = MoeConfig(num_experts=2, group_size=8)
    config = dataclasses.replace(CONFIG, moe_period=moe_period, moe=moe)
    model, params = init(config)
    alignment = jnp.array([[0, 5, -1, 2, 3], [1, -1, -1, -1, -1]])

    def loss(params, layer):
        _, sown = model.apply(
            {"params": params}, SOURCE, TARGET,
            decoder_alignment=alignment, mutable=["intermediates"],
        )  # fmt: skip
        return alignment_nll(sown["intermediates"], layer)

    losses = jax.jit(lambda params: [loss(params, layer) for layer in range(-3, 3)])
    flat = parameter_names.to_flat(params, config)
    before = losses(params)
    for layer in range(3):
        name = f"decoder/{layer}/cross_attention/query"
        after = losses(parameter_names.from_flat(flat | {name: 3 * flat[name]}, model))
        np.testing.assert_array_equal(before[layer], before[layer + 3])
        for earlier in range(layer):  # later layers read what this one wrote
            np.testing.assert_array_equal(after[earlier], before[earlier])
        assert float(jnp.abs(after[layer] - before[layer]).max()) > 1e-3
    for nll in before:
        assert ((nll == 0) == (alignment < 0)).all()
    with pytest.raises(ValueError, match="no decoder layer 3 to align; allowed: -3 to 2"):
        jax.eval_shape(lambda params: loss(params, 3), params)


def test_packed_examples_are_aligned_within_themselves():
    """Two packed examples give the losses of two rows; the gradient reaches queries and keys."""
    model, params = init(CONFIG)
    packed = {
        "encoder_input_tokens": jnp.array([[5, 6, 1, 8, 9, 1]]),
        "encoder_segment_ids": jnp.array([[1, 1, 1, 2, 2, 2]]),
        "decoder_input_tokens": jnp.array([[0, 7, 0, 9, 4]]),
        "decoder_segment_ids": jnp.array([[1, 1, 2, 2, 2]]),
        "decoder_alignment": jnp.array([[1, 0, 4, -1, 3]]),
    }
    rows = {
        "encoder_input_tokens": jnp.array([[5, 6, 1], [8, 9, 1]]),
        "encoder_segment_ids": jnp.ones((2, 3), int),
        "decoder_input_tokens": jnp.array([[0, 7, 3], [0, 9, 4]]),
        "decoder_segment_ids": jnp.array([[1, 1, 0], [1, 1, 1]]),
        "decoder_alignment": jnp.array([[1, 0, -1], [1, -1, 0]]),
    }

    @jax.jit
    def loss(params, batch):
        _, sown = model.apply({"params": params}, **batch, mutable=["intermediates"])
        return alignment_nll(sown["intermediates"], -1)

    alone = loss(params, rows)
    expected = jnp.concatenate([alone[0, :2], alone[1]])[None]
    np.testing.assert_allclose(loss(params, packed), expected, rtol=1e-5)
    leaking = packed | {"decoder_alignment": jnp.array([[4, 3, 0, 1, 2]])}
    np.testing.assert_allclose(loss(params, leaking), -np.log(1e-9), rtol=1e-5)
    gradients = jax.jit(jax.grad(lambda params: loss(params, packed).sum()))(params)
    flat = parameter_names.to_flat(gradients, CONFIG)
    for name, learns in (("query", True), ("key", True), ("value", False)):
        largest = float(jnp.abs(flat[f"decoder/2/cross_attention/{name}"]).max())
        assert largest > 1e-4 if learns else largest == 0, name
