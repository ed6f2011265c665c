"""The layers against their equations in float64 NumPy."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from mmt.model import layers

F32 = jnp.dtype("float32")


def init(module, *arguments, **options):
    """Parameters of `module`, without their axis names."""
    return nn.meta.unbox(module.init(jax.random.key(0), *arguments, **options))


def normal(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def hugging_face_bucket(distance, bidirectional, buckets=32, max_distance=128):
    """Returns the bucket of a distance by the scalar arithmetic of T5's first publication."""
    offset, n = 0, -distance
    if bidirectional:
        buckets //= 2
        offset, n = (buckets, -n) if n < 0 else (0, n)
    else:
        n = max(n, 0)
    exact = buckets // 2
    if n < exact:
        return offset + n
    far = exact + int(math.log(n / exact) / math.log(max_distance / exact) * (buckets - exact))
    return offset + min(far, buckets - 1)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_relative_buckets_are_t5s(bidirectional):
    distances = np.arange(-300, 301)
    got = layers.relative_bucket(jnp.asarray(distances)[None], bidirectional=bidirectional)[0]
    want = [hugging_face_bucket(int(d), bidirectional) for d in distances]
    # At powers of two float32 and float64 logarithms may fall on either side of a bucket's edge.
    differ = distances[np.asarray(got) != want]
    assert set(np.abs(differ)) <= {16, 32, 64, 128}, differ


def test_relative_buckets_of_the_docstring():
    of = {-3: 3, -15: 15, -16: 16, -40: 23, -127: 31, -1000: 31, 2: 0}
    got = layers.relative_bucket(jnp.asarray([list(of)]), bidirectional=False)[0]
    assert got.tolist() == list(of.values())


def test_the_alignment_loss_is_that_of_the_mean_weight_over_heads():
    """By hand in float64, before dropout, and 0 without an aligned key."""
    attention = layers.Attention(heads=2, head_dim=3, dropout_rate=0.5, dtype=F32, features=6)
    x, source = normal(2, 4, 6), normal(2, 5, 6, seed=1)
    mask = jnp.asarray([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]], bool)[:, None, None]
    alignment = jnp.array([[0, 3, -1, 2], [-1, 1, 4, -1]])  # key 4 is masked
    params = init(attention, source, method="project")
    key_value = attention.apply(params, source, method="project")
    _, sown = attention.apply(
        params, x, key_value, mask=mask, alignment=alignment, enable_dropout=True,
        rngs={"dropout": jax.random.key(1)}, mutable=["intermediates"],
    )  # fmt: skip
    (nll,) = sown["intermediates"]["alignment_nll"]
    query, key = (np.asarray(params["params"][name], np.float64) for name in ("query", "key"))
    for row in range(2):
        for step, position in enumerate(alignment[row].tolist()):
            weights = []
            for head in range(2):
                q = np.asarray(x[row, step], np.float64) @ query[:, head]
                scores = np.asarray(source[row], np.float64) @ key[:, head] @ q
                exp = np.where(mask[row, 0, 0], np.exp(scores), 0.0)
                weights.append(exp / exp.sum())
            expected = -np.log(np.mean(weights, axis=0)[position] + 1e-9) if position >= 0 else 0.0
            assert nll[row, step] == pytest.approx(expected, rel=1e-5, abs=1e-6)
    _, sown = attention.apply(params, x, key_value, mask=mask, mutable=["intermediates"])
    assert not sown


def test_relative_bias_looks_up_the_bucket_of_every_pair():
    bias = layers.RelativeBias(heads=3, bidirectional=True)
    queries, keys = jnp.arange(4), jnp.arange(7)
    params = init(bias, queries, keys)
    got = bias.apply(params, queries, keys)
    table = params["params"]["embedding"]
    assert got.shape == (1, 3, 4, 7)
    for q in range(4):
        for k in range(7):
            np.testing.assert_array_equal(
                got[0, :, q, k], table[hugging_face_bucket(k - q, bidirectional=True)]
            )


def test_rms_norm_in_float32():
    x = normal(2, 3, 8) * 100
    norm = layers.RMSNorm(jnp.dtype("bfloat16"))
    scale = normal(8, seed=1)
    got = norm.apply({"params": {"scale": scale}}, x)
    x64 = np.asarray(x, np.float64)
    want = x64 / np.sqrt((x64**2).mean(-1, keepdims=True) + 1e-6) * np.asarray(scale)
    assert got.dtype == jnp.bfloat16
    np.testing.assert_array_equal(got, jnp.asarray(want, jnp.bfloat16))


@pytest.mark.parametrize("axes", [1, 2])
def test_contract_is_tensordot_in_value_and_gradient(axes):
    x, kernel = normal(2, 3, 4, 5), normal(5, 6, 7) if axes == 1 else normal(4, 5, 6)
    x = x[:, :, 0] if axes == 1 else x

    def loss(product):
        return lambda x, kernel: jnp.sum(jnp.sin(product(x, kernel)))

    ours = loss(lambda x, kernel: layers.contract(x, kernel, axes=axes))
    plain = loss(lambda x, kernel: jnp.tensordot(x, kernel, axes))
    for got, want in zip(
        jax.tree.leaves(jax.value_and_grad(ours, (0, 1))(x, kernel)),
        jax.tree.leaves(jax.value_and_grad(plain, (0, 1))(x, kernel)),
        strict=True,
    ):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def attention_in_numpy(p, x, source, mask, bias):
    p, x, source = jax.tree.map(lambda a: np.asarray(a, np.float64), (p, x, source))
    query = np.einsum("bqd,dhk->bhqk", x, p["query"])
    key = np.einsum("bsd,dhk->bhsk", source, p["key"])
    value = np.einsum("bsd,dhk->bhsk", source, p["value"])
    scores = np.einsum("bhqk,bhsk->bhqs", query, key) + np.asarray(bias)
    scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("bhqs,bhsk,hkd->bqd", weights, value, p["out"])


@pytest.fixture(scope="module")
def attention():
    module = layers.Attention(heads=2, head_dim=4, dropout_rate=0.5, dtype=F32, features=6)
    x, source = normal(3, 5, 6), normal(3, 7, 6, seed=1)
    memory = (jnp.zeros((3, 2, 7, 4)),) * 2
    params = init(module, x, memory, mask=jnp.ones((1, 1, 1, 7), bool))
    return module, params, x, source


def test_attention(attention):
    module, params, x, source = attention
    mask = np.random.default_rng(2).random((3, 1, 5, 7)) < 0.7
    mask[..., 0] = True
    bias = normal(1, 2, 5, 7, seed=3)
    memory = module.apply(params, source, method="project")
    got = module.apply(params, x, memory, mask=jnp.asarray(mask), bias=bias)
    want = attention_in_numpy(params["params"], x, source, mask, bias)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias_shape", [None, (1, 2, 5, 7), (1, 2, 1, 7)])
def test_the_gradients_of_attention_are_those_of_its_formula(attention, bias_shape):
    module, params, x, source = attention
    mask = jnp.asarray(np.random.default_rng(2).random((3, 1, 5, 7)) < 0.7).at[..., 0].set(True)
    bias = None if bias_shape is None else normal(*bias_shape, seed=3)

    def ours(params, x, source, bias):
        memory = module.apply(params, source, method="project")
        return jnp.sum(jnp.sin(module.apply(params, x, memory, mask=mask, bias=bias)))

    def formula(params, x, source, bias):
        p = params["params"]
        query = jnp.einsum("bqd,dhk->bhqk", x, p["query"])
        key = jnp.einsum("bsd,dhk->bhsk", source, p["key"])
        value = jnp.einsum("bsd,dhk->bhsk", source, p["value"])
        scores = jnp.einsum("bhqk,bhsk->bhqs", query, key) + (0.0 if bias is None else bias)
        weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf))
        return jnp.sum(jnp.sin(jnp.einsum("bhqs,bhsk,hkd->bqd", weights, value, p["out"])))

    wanted = jax.grad(formula, argnums=(0, 1, 2, 3))(params, x, source, bias)
    got = jax.grad(ours, argnums=(0, 1, 2, 3))(params, x, source, bias)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), got, wanted)


def test_the_gradient_of_the_attention_bias_is_the_sum_over_rows(attention):
    module, params, x, source = attention
    memory = module.apply(params, source, method="project")
    mask = jnp.ones((1, 1, 1, 7), bool)

    def loss(bias, rows):
        memory_of = tuple(part[rows] for part in memory)
        y = module.apply(params, x[rows], memory_of, mask=mask, bias=bias)
        return jnp.sum(jnp.sin(y))

    bias = normal(1, 2, 5, 7, seed=3)
    one_by_one = sum(jax.grad(loss)(bias, np.array([row])) for row in range(3))
    np.testing.assert_allclose(jax.grad(loss)(bias, np.arange(3)), one_by_one, atol=1e-5)


def test_a_query_that_sees_nothing_stays_finite(attention):
    module, params, x, source = attention
    memory = module.apply(params, source, method="project")
    y = module.apply(params, x, memory, mask=jnp.zeros((1, 1, 1, 7), bool))
    assert np.isfinite(y).all()


def test_dropout_of_attention_is_alike_for_all_queries(attention):
    module, params, x, source = attention
    memory = module.apply(params, source, method="project")
    same = jnp.broadcast_to(x[:, :1], x.shape)  # equal queries: only dropout could tell them apart
    options = {"mask": jnp.ones((1, 1, 1, 7), bool), "enable_dropout": True}
    y = module.apply(params, same, memory, rngs={"dropout": jax.random.key(1)}, **options)
    z = module.apply(params, same, memory, rngs={"dropout": jax.random.key(2)}, **options)
    np.testing.assert_allclose(y, jnp.broadcast_to(y[:, :1], y.shape), atol=1e-6)
    assert not np.allclose(y, z)


@pytest.mark.parametrize("activations", [("gelu", "linear"), ("relu",)])
def test_mlp(activations):
    mlp = layers.Mlp(hidden=5, activations=activations, dropout_rate=0.0, dtype=F32)
    x, padding_mask = normal(2, 3, 4), jnp.ones((2, 3), bool)
    params = init(mlp, x, padding_mask)
    p = {name: np.asarray(w, np.float64) for name, w in params["params"].items()}
    x64 = np.asarray(x, np.float64)
    h = x64 @ p["wi_0"]
    if activations == ("relu",):
        h = np.maximum(h, 0)
    else:
        h = 0.5 * h * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        h = h * (x64 @ p["wi_1"])
    y = mlp.apply(params, x, padding_mask)
    np.testing.assert_allclose(y, h @ p["wo"], rtol=1e-4, atol=1e-5)


def test_an_unknown_token_id_is_not_silently_another_token():
    embed = layers.Embed(size=5, features=3, dtype=F32)
    params = init(embed, jnp.zeros((1, 2), jnp.int32))
    y = embed.apply(params, jnp.asarray([[4, 5]]))
    assert np.isfinite(y[0, 0]).all() and np.isnan(y[0, 1]).all()


def test_a_table_of_bits_has_the_rows_of_bfloat16():
    embed = layers.Embed(size=5, features=3, dtype=F32)
    tokens = jnp.asarray([[4, 0, 5]])
    table = init(embed, tokens)["params"]["embedding"].astype(jnp.bfloat16)
    stored = jax.lax.bitcast_convert_type(table, jnp.uint16)
    rows = embed.apply({"params": {"embedding": stored}}, tokens)
    assert rows.dtype == F32 and np.isnan(rows[0, 2]).all()
    np.testing.assert_array_equal(rows[0, :2], np.asarray(table.astype(F32))[[4, 0]])


def test_initial_standard_deviations_are_t5s():
    d, heads, k, f, vocab = 64, 4, 48, 160, 600
    x = jnp.zeros((1, 2, d))
    attention = init(
        layers.Attention(heads, k, 0.0, F32, d),
        x,
        (jnp.zeros((1, heads, 2, k)),) * 2,
        mask=jnp.ones((1, 1, 1, 2), bool),
    )["params"]
    mlp = init(layers.Mlp(f, ("gelu", "linear"), 0.0, F32), x, jnp.ones((1, 2), bool))["params"]
    embed = init(layers.Embed(vocab, d, F32), jnp.zeros((1, 2), jnp.int32))["params"]
    logits = init(layers.Logits(vocab, F32), x)["params"]
    for values, deviation in (
        (attention["query"], (d * k) ** -0.5),
        (attention["key"], d**-0.5),
        (attention["value"], d**-0.5),
        (attention["out"], (heads * k) ** -0.5),
        (mlp["wi_0"], d**-0.5),
        (mlp["wi_1"], d**-0.5),
        (mlp["wo"], f**-0.5),
        (embed["embedding"], 1.0),
        (logits["kernel"], d**-0.5),
    ):
        assert float(values.std()) == pytest.approx(deviation, rel=0.04)
