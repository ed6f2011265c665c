"""The Transformer against T5's equations in float64 NumPy, and against itself: decoding, packing,
depth, precision."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from mmt.model import moe, product
from mmt.model.config import REMAT
from mmt.model.transformer import Config, Transformer
from mmt.plan import flops

SMALL = Config(
    vocab_size=40, emb_dim=12, num_heads=2, head_dim=5, mlp_dim=16,
    encoder_layers=2, decoder_layers=3,
)  # fmt: skip
# Tests compile more than they compute.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})

EXPERTS = {"moe_period": 2, "moe": moe.MoeConfig(num_experts=4, group_size=8)}
VARIANTS = {
    "dense": SMALL,
    "tied, two vocabularies": dataclasses.replace(SMALL, tied_logits=True, target_vocab_size=30),
    "experts and a rest": dataclasses.replace(SMALL, **EXPERTS),
    "switch in every layer, relu": dataclasses.replace(
        SMALL,
        mlp_activations=("relu",),
        moe_period=1,
        moe=moe.MoeConfig(num_experts=3, router=moe.switch_top1),
    ),
}


def build(config):
    """A model and parameters of T5's sizes, drawn by NumPy (which need not be compiled)."""
    model, ones, random = Transformer(config), jnp.ones((1, 2), jnp.int32), np.random.default_rng(0)
    shapes = jax.eval_shape(model.init, jax.random.key(0), ones, ones)["params"]

    def draw(path, shape):
        name = path[-1].key
        if name == "scale":
            return jnp.asarray(random.normal(1, 0.2, shape.shape), jnp.float32)
        scale = {"embedding": 1.0, "router": 3.0}.get(name, 0.3)  # routers: decisive ones
        return jnp.asarray(random.normal(0, scale, shape.shape), jnp.float32)

    return model, jax.tree_util.tree_map_with_path(draw, nn.meta.unbox(shapes))


def batch(rows=3, source=7, target=6, *, vocabulary=30, seed=0):
    """Sources and shifted targets with padding at the ends."""
    random = np.random.default_rng(seed)
    s = random.integers(2, vocabulary, (rows, source)).astype(np.int32)
    t = random.integers(2, vocabulary, (rows, target)).astype(np.int32)
    t[:, 0] = 0
    s[1, source - 3 :] = 0
    t[1, target - 2 :] = 0
    return jnp.asarray(s), jnp.asarray(t)


# ---------------------------------------------------------------- T5 in NumPy


class T5:
    """T5 1.1's forward pass, layer by layer, in float64."""

    def __init__(self, config, params):
        self.c = config
        self.p = jax.tree.map(lambda x: np.asarray(x, np.float64), params)

    def __call__(self, source, target):
        s, t = np.asarray(source), np.asarray(target)
        seen = s != 0
        x = self.stack("encoder", self.p["source_embed"]["embedding"][s], seen[:, None, :])
        table = self.p["target_embed" if self.c.target_vocab_size else "source_embed"]["embedding"]
        causal = np.tril(np.ones((t.shape[1],) * 2, bool))[None]
        y = self.stack("decoder", table[t], causal, x, seen)
        if self.c.tied_logits:
            return y * self.c.emb_dim**-0.5 @ table.T
        return y @ self.p["logits"]["kernel"]

    def stack(self, name, x, mask, encoded=None, seen=None):
        p = self.p[name]
        bias = self.bias(p["relative_bias"]["embedding"], x.shape[1], name == "encoder")
        for layer in self.layers(p):
            h = self.norm(x, layer["self_norm"])
            x = x + self.attention(layer["self_attention"], h, h, mask, bias)
            if encoded is not None:
                h = self.norm(x, layer["cross_norm"])
                x = x + self.attention(layer["cross_attention"], h, encoded, seen[:, None, :], 0.0)
            x = x + self.feed_forward(layer["mlp"], self.norm(x, layer["mlp_norm"]))
        return self.norm(x, p["norm"])

    def layers(self, p):
        """Returns each layer's parameters, from the scanned blocks and the remainder."""
        blocks, remainder = p.get("blocks", {}), p.get("rest", {})
        for i in range(len(jax.tree.leaves(blocks)[0]) if blocks else 0):
            for name in sorted(blocks):
                yield jax.tree.map(lambda x, i=i: x[i], blocks[name])
        for name in sorted(remainder):
            yield remainder[name]

    def norm(self, x, p):
        return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-6) * p["scale"]

    def attention(self, p, x, source, mask, bias):
        q, k, v = (
            np.einsum("btd,dhk->bhtk", of, p[name])
            for name, of in (("query", x), ("key", source), ("value", source))
        )
        scores = np.where(mask[:, None], np.einsum("bhqk,bhsk->bhqs", q, k) + bias, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        return np.einsum("bhqs,bhsk,hkd->bqd", weights, v, p["out"])

    def bias(self, table, length, bidirectional):
        buckets = len(table) // 2 if bidirectional else len(table)
        result = np.zeros((table.shape[1], length, length))
        for q in range(length):
            for k in range(length):
                n = abs(q - k) if bidirectional else max(q - k, 0)
                if n >= buckets // 2:
                    scale = (buckets - buckets // 2) / math.log(128 / (buckets // 2))
                    far = buckets // 2 + int(math.log(n / (buckets // 2)) * scale)
                    n = min(far, buckets - 1)
                result[:, q, k] = table[n + (buckets if bidirectional and k > q else 0)]
        return result

    def feed_forward(self, p, x):
        if "router" not in p:
            return self.mlp(p, x)
        result = np.zeros_like(x)
        choices = 2 if self.c.moe.router is moe.gshard_top2 else 1
        for at in np.ndindex(x.shape[:2]):
            logits = self.router_logits(p["router"], x, at)
            gates = np.exp(logits - logits.max())
            gates /= gates.sum()
            chosen = np.argsort(-gates)[:choices]
            total = gates[chosen].sum() if choices == 2 else 1.0
            for e in chosen:
                expert_weights = {name: w[e] for name, w in p.items() if name != "router"}
                result[at] += gates[e] / total * self.mlp(expert_weights, x[at])
        return result

    def router_logits(self, router, x, at):
        return x[at] @ router

    def mlp(self, p, x):
        gelu = lambda h: 0.5 * h * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))  # noqa: E731
        if self.c.mlp_activations == ("relu",):
            return np.maximum(x @ p["wi_0"], 0) @ p["wo"]
        return (gelu(x @ p["wi_0"]) * (x @ p["wi_1"])) @ p["wo"]


@pytest.fixture(scope="module", params=VARIANTS)
def variant(request):
    model, params = build(VARIANTS[request.param])
    return model, params, jit(model.apply)


def test_logits_are_t5s(variant):
    model, params, apply = variant
    source, target = batch()
    got, want = apply({"params": params}, source, target), T5(model.config, params)(source, target)
    assert got.dtype == jnp.float32
    padding_mask = np.asarray(target != 0) | (np.arange(target.shape[1]) == 0)
    np.testing.assert_allclose(got[padding_mask], want[padding_mask], rtol=1e-3, atol=2e-4)


def test_decoding_step_by_step_gives_the_teacher_forced_logits(variant):
    model, params, apply = variant
    source, target = batch()
    variables, beams = {"params": params}, 2

    @jit
    def start(source):
        encoded = model.apply(variables, source, method="encode")
        cache = model.apply(variables, len(source) * beams, target.shape[1], method="empty_cache")
        return model.apply(variables, encoded, source, method="cross_kv"), cache

    traces = []

    @jit
    def step(tokens, memory, cache):
        traces.append(1)
        return model.apply(variables, tokens, memory, cache, method="decode_step")

    memory, cache = start(source)
    for leaf in jax.tree.leaves(cache):
        assert leaf.ndim < 2 or leaf.shape[1] == len(source) * beams
    # The second beam holds other tokens, which the first must not notice.
    tokens = np.stack([target, np.asarray(target)[::-1]], axis=1)
    both = [apply(variables, source, jnp.asarray(tokens[:, beam])) for beam in range(beams)]
    for t in range(target.shape[1]):
        logits, cache = step(jnp.asarray(tokens[:, :, t].reshape(-1)), memory, cache)
        logits = logits.reshape(len(source), beams, -1)
        for beam in range(beams):
            # Teacher forcing cannot tell a row's padding from its tokens after the row's end.
            within = np.asarray(tokens[:, beam, 1 : t + 1] != 0).all(-1)
            np.testing.assert_allclose(
                logits[within, beam], both[beam][within, t], rtol=1e-3, atol=1e-4
            )
    assert len(traces) == 1


def test_packed_rows_give_what_single_rows_give(variant):
    model, params, apply = variant
    source, target = batch(rows=2, source=5, target=4)
    source, target = source.at[1].set(source[0, ::-1]), target.at[1, 1:].set(target[0, :0:-1])
    alone = apply({"params": params}, source, target)
    pack = lambda x: jnp.pad(x.reshape(1, -1), ((0, 0), (0, 2)))  # noqa: E731
    segments = lambda n: pack(jnp.repeat(jnp.arange(1, 3)[:, None], n, axis=1))  # noqa: E731
    packed = apply(
        {"params": params},
        pack(source),
        pack(target),
        encoder_segment_ids=segments(5),
        decoder_segment_ids=segments(4),
    )
    assert np.isfinite(packed).all()
    np.testing.assert_allclose(packed[0, :8].reshape(2, 4, -1), alone, rtol=1e-3, atol=1e-4)


def test_a_row_does_not_depend_on_the_others_nor_on_padding(variant):
    model, params, apply = variant
    source, target = batch(rows=4)
    base = apply({"params": params}, source, target)
    others_s, others_t = batch(rows=4, seed=1)
    changed = apply(
        {"params": params}, source.at[1:].set(others_s[1:]), target.at[1:].set(others_t[1:])
    )
    np.testing.assert_array_equal(changed[0], base[0])
    longer = apply({"params": params}, *(jnp.pad(x, ((0, 0), (0, 3))) for x in (source, target)))
    np.testing.assert_allclose(longer[0, : target.shape[1]], base[0], rtol=1e-3, atol=1e-4)


# ---------------------------------------------------------------- training, depth, precision


def training(model):
    """Compiled (params, seed) -> ((loss, measures), gradients), in training."""

    def loss(params, seed):
        options = {"rngs": {"dropout": jax.random.key(seed)}, "mutable": ["intermediates"]}
        logits, state = model.apply({"params": params}, *batch(), enable_dropout=True, **options)
        measures = moe.summarize(state.get("intermediates", {}))
        return jnp.mean(jnp.sin(logits)) + 0.01 * measures.get("moe_aux_loss", 0.0), measures

    return jit(jax.value_and_grad(loss, has_aux=True))


@pytest.fixture(scope="module")
def trained():
    """A model with experts, a rest and dropout, its parameters, and its `training`."""
    model, params = build(dataclasses.replace(SMALL, dropout_rate=0.3, **EXPERTS))
    return model, params, training(model)


def test_every_parameter_learns_and_measures_come_out(trained):
    _, params, step = trained
    (loss, measures), gradients = step(params, 0)
    assert np.isfinite(loss)
    assert set(measures) == set(moe.MEASURES)
    assert all(np.isfinite(m) and np.shape(m) == () for m in measures.values())
    flat = jax.tree_util.tree_leaves_with_path(gradients)
    assert [path for path, g in flat if not np.isfinite(g).all() or not g.any()] == []
    (other, _), _ = step(params, 1)
    assert float(other) != float(loss)  # dropout is drawn by its key


@pytest.mark.parametrize(
    "policy",
    ["full", *(pytest.param(name, marks=pytest.mark.slow) for name in ("none", "minimal"))],
)
def test_remat_changes_nothing(trained, policy):
    model, params, step = trained
    (loss, _), gradients = step(params, 0)
    remat = Transformer(dataclasses.replace(model.config, remat=policy))
    (other, _), others = training(remat)(params, 0)
    np.testing.assert_allclose(other, loss, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), others, gradients
    )


def test_remat_recomputes_the_same_products_in_bfloat16(trained, monkeypatch):
    """The fast form of bfloat16 has a gradient of its own, which policies do not see inside."""
    monkeypatch.setattr(product, "has_bfloat16_instructions", lambda: True)
    model, params, _ = trained

    def work(policy, dtype):
        other = Transformer(dataclasses.replace(model.config, remat=policy, dtype=dtype))
        return flops.count(training(other).trace(params, 0).jaxpr).flops

    by_policy = {policy: work(policy, "float32") for policy in REMAT}
    for policy, expected in by_policy.items():
        assert work(policy, "bfloat16") == expected
        assert by_policy["none"] <= expected <= by_policy["full"]
        assert (expected == by_policy["full"]) == (policy == "full")


@pytest.mark.slow
def test_training_in_bfloat16_is_near_float32(trained):
    model, params, step = trained
    half = Transformer(dataclasses.replace(model.config, dtype="bfloat16"))
    (loss, _), gradients = training(half)(params, 0)
    assert all(np.isfinite(g).all() and g.dtype == jnp.float32 for g in jax.tree.leaves(gradients))
    assert float(loss) == pytest.approx(float(step(params, 0)[0][0]), abs=0.02)
    logits, cache = jax.eval_shape(
        lambda: (
            half.apply({"params": params}, *batch()),
            half.apply({"params": params}, 2, 3, method="empty_cache"),
        )
    )
    assert logits.dtype == jnp.float32 and cache.keys.dtype == jnp.bfloat16


def test_every_parameter_carries_logical_axes():
    model = Transformer(dataclasses.replace(SMALL, **EXPERTS))
    ones = jnp.ones((1, 2), jnp.int32)
    boxed = jax.eval_shape(model.init, jax.random.key(0), ones, ones)["params"]
    is_box = lambda x: isinstance(x, nn.LogicallyPartitioned)  # noqa: E731
    named = jax.tree_util.tree_leaves_with_path(boxed, is_leaf=is_box)
    known = {"layers", "embed", "heads", "kv", "mlp", "vocab", "expert", "relpos_buckets"}
    for path, box in named:
        assert is_box(box), path
        assert len(box.names) == len(box.value.shape), path
        assert set(box.names) <= known | {"unmodeled"}, path
        assert (box.names[0] == "layers") == ("blocks" in jax.tree_util.keystr(path)), path
        sizes = dict(zip(box.names, box.value.shape, strict=True))
        assert sizes.get("mlp", 16) == 16 and sizes.get("expert", 4) == 4, path
    assert len(named) > 30


def test_logits_start_near_unit_variance():
    config = dataclasses.replace(
        SMALL, emb_dim=64, num_heads=4, head_dim=16, mlp_dim=128, vocab_size=500, decoder_layers=1
    )
    model = Transformer(config)
    run = jit(lambda key: model.init_with_output(key, *batch())[0])
    assert 0.5 < float(run(jax.random.key(0)).std()) < 2.0


@pytest.mark.parametrize(
    "options, message",
    [
        ({"vocab_size": 0}, r"vocab_size = 0; allowed: 1 or more"),
        ({"moe_period": -1}, r"moe_period = -1; allowed: 0 or more"),
        ({"dropout_rate": 1.5}, r"dropout_rate = 1.5; allowed: 0 <= x < 1"),
        ({"target_word_dropout": 1.0}, r"target_word_dropout = 1.0; allowed: 0 <= x < 1"),
        ({"dtype": "bfloat"}, r"dtype: 'bfloat'; allowed: .*; nearest: bfloat16"),
        ({"mlp_activations": ("gellu",)}, r"mlp_activations: 'gellu'; .* nearest: gelu"),
        ({"mlp_activations": ()}, r"mlp_activations: ''"),
    ],
)
def test_impossible_settings_are_errors_that_say_what_is_allowed(options, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SMALL, **options)
