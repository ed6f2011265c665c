"""Routing by language: layer and model in float64 loops, packed rows, decoding, settings."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from mmt.model import moe
from mmt.model.config import Config
from mmt.model.transformer import Transformer
from tests.mmt.model.test_transformer import SMALL, T5, batch, build

# Tests compile more than they compute.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
F32 = jnp.dtype("float32")
LANGUAGES = 3
EXPERTS = moe.MoeConfig(num_experts=4, group_size=8)


# ---------------------------------------------------------------- the layer


def layer(**options):
    config = moe.MoeConfig(num_experts=4, group_size=16, **options)
    return moe.MoeMlp(
        hidden=8, activations=("gelu", "linear"), dtype=F32, config=config, languages=5
    )


@pytest.fixture
def tokens():
    x = jax.random.normal(jax.random.key(3), (6, 7, 5))
    random = np.random.default_rng(0)
    padding_mask = jnp.asarray(random.random((6, 7)) > 0.2)
    return x, padding_mask, jnp.asarray(random.integers(0, 5, (6, 7)), jnp.int32)


def parameters(module, x, padding_mask, language_ids):
    init = functools.partial(module.init, enable_dropout=False)
    run = jit(lambda key: init(key, x, padding_mask, language_ids=language_ids))
    params = nn.meta.unbox(run(jax.random.key(0)))["params"]
    params["router"] *= 10  # clear preferences
    if "router_bias" in params:
        params["router_bias"] += jnp.asarray([0.3, 0.0, -0.2, 0.1])
    return params


def in_loops(params, tokens, choices):
    """One token after another, in float64; the gates depend on the token's language only."""
    p = {name: np.asarray(leaf, np.float64) for name, leaf in params.items() if name != "shared"}
    x, padding_mask, language_ids = (np.asarray(array) for array in tokens)
    result = np.zeros(x.shape)
    for at in np.argwhere(padding_mask).tolist():
        token = x[*at].astype(np.float64)
        gates = np.exp(p["router"][language_ids[*at]])
        gates /= gates.sum()
        chosen = np.argsort(-(gates + p.get("router_bias", 0)))[:choices]
        total = gates[chosen].sum() if choices == 2 else 1
        for e in chosen:
            weights = {name: p[name][e] for name in ("wi_0", "wi_1", "wo")}
            result[*at] += gates[e] / total * mlp_in_loops(weights, token)
        if "gate" in p:
            shared = {name: np.asarray(w, np.float64) for name, w in params["shared"].items()}
            g = 1 / (1 + np.exp(-token @ p["gate"][:, 0]))
            result[*at] = (1 - g) * mlp_in_loops(shared, token) + g * result[*at]
    return result


def mlp_in_loops(weights, token):
    a, b = token @ weights["wi_0"], token @ weights["wi_1"]
    gelu = 0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)))
    return (gelu * b) @ weights["wo"]


@pytest.mark.parametrize(
    "choices, options",
    [
        (2, {}),
        (1, {"router": moe.switch_top1}),
        (2, {"shared_mlp_dim": 6, "gate_budget": 0.8, "balance_rate": 0.01}),
    ],
    ids=["gshard", "switch", "conditional routing and a bias"],
)
def test_the_layer_is_a_sum_over_the_experts_of_the_language(choices, options, tokens):
    x, padding_mask, language_ids = tokens
    module = layer(**options)
    params = parameters(module, x, padding_mask, language_ids)
    assert params["router"].shape == (5, 4)
    run = functools.partial(module.apply, mutable=["routing"])
    y, sown = jit(run)({"params": params}, x, padding_mask, language_ids=language_ids)
    real = np.asarray(padding_mask)  # the shared MLP computes padding too
    np.testing.assert_allclose(y[real], in_loops(params, tokens, choices)[real], rtol=1e-4,
                               atol=1e-5)  # fmt: skip
    expert = np.asarray(sown["routing"]["moe"][0][0]).reshape(-1, choices)[: real.size]
    for language in range(5):
        of_language = expert[np.asarray(language_ids).ravel() == language]
        assert len(np.unique(of_language, axis=0)) == 1


def test_with_capacity_for_all_every_gradient_is_that_of_the_sum(tokens):
    """In training, the table's gradient among them."""
    x, padding_mask, language_ids = tokens
    module = layer(router=moe.switch_top1, capacity_factor=4.0)
    params = parameters(module, x, padding_mask, language_ids)

    def ours(params, x):
        return module.apply({"params": params}, x, padding_mask, True, language_ids,
                            rngs={"dropout": jax.random.key(0)})  # fmt: skip

    def plain(p, x):
        gates = jax.nn.softmax(p["router"])[language_ids]
        hidden = nn.gelu(jnp.einsum("btd,edf->btef", x, p["wi_0"]))
        hidden = hidden * jnp.einsum("btd,edf->btef", x, p["wi_1"])
        outputs = jnp.einsum("btef,efd->bted", hidden, p["wo"])
        gates = jnp.where(gates >= gates.max(-1, keepdims=True), gates, 0.0)
        return jnp.einsum("bte,bted->btd", gates, outputs) * padding_mask[..., None]

    gradients = [
        jit(jax.grad(lambda *a, f=f: jnp.sum(jnp.sin(f(*a))), (0, 1)))(params, x)
        for f in (ours, plain)
    ]
    assert np.abs(gradients[0][0]["router"]).max(axis=1).all()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), *gradients)


def test_jitter_does_not_move_a_language(tokens):
    x, padding_mask, language_ids = tokens
    calm = layer(router=moe.switch_top1, capacity_factor=4.0)
    params = {"params": parameters(calm, x, padding_mask, language_ids)}
    noisy = calm.clone(config=dataclasses.replace(calm.config, jitter=0.5))
    rngs = {"dropout": jax.random.key(0)}
    y = [
        jit(lambda params, m=m: m.apply(params, x, padding_mask, True, language_ids, rngs=rngs))
        for m in (calm, noisy)
    ]
    np.testing.assert_array_equal(y[0](params), y[1](params))


# ---------------------------------------------------------------- the model


class RoutedT5(T5):
    """T5 whose routers see the language of a row, in the stacks that route by language."""

    def __call__(self, source, target, languages):
        self.languages = languages
        return super().__call__(source, target)

    def stack(self, name, *arguments):
        self.by_language = getattr(self.c, f"{name}_routing") == "language"
        return super().stack(name, *arguments)

    def router_logits(self, router, x, at):
        if self.by_language:
            return router[self.languages[at[0]]]
        return super().router_logits(router, x, at)


@pytest.fixture(
    scope="module",
    params=[("language", "language"), ("token", "language"), ("language", "token")],
    ids=" ".join,
)
def variant(request):
    encoder, decoder = request.param
    model, params = build(dataclasses.replace(
        SMALL, moe_period=2, moe=EXPERTS, languages=LANGUAGES,
        encoder_routing=encoder, decoder_routing=decoder,
    ))  # fmt: skip
    return model, params, jit(model.apply)


def of_rows(languages, target):
    return jnp.asarray(languages, jnp.int32)[:, None] * jnp.ones_like(target)


def test_logits_are_t5s_with_the_experts_of_each_rows_language(variant):
    model, params, apply = variant
    source, target = batch()
    real = np.asarray(target != 0) | (np.arange(target.shape[1]) == 0)
    results = []
    for languages in ([2, 0, 1], [0, 1, 2]):
        logits = apply(
            {"params": params}, source, target, decoder_language_ids=of_rows(languages, target)
        )
        want = RoutedT5(model.config, params)(source, target, languages)
        np.testing.assert_allclose(logits[real], want[real], rtol=1e-3, atol=2e-4)
        results.append(logits)
    assert np.abs(results[0] - results[1]).max() > 0.1


def test_packed_rows_of_several_languages_give_what_single_rows_give(variant):
    """The second row has one example; a source's language is that of its segment."""
    model, params, apply = variant
    source, target = batch(rows=3, source=5, target=4)
    source = jnp.where(source == 0, 7, source)
    target = target.at[1, 1:].set(target[0, :0:-1])
    languages = of_rows([2, 0, 1], target)
    alone = apply({"params": params}, source, target, decoder_language_ids=languages)
    pack = lambda x: jnp.stack([  # noqa: E731
        jnp.pad(x[:2].reshape(-1), (0, 2)), jnp.pad(x[2], (0, x.shape[1] + 2))
    ])  # fmt: skip
    segments = lambda x: pack(jnp.asarray([[1], [2], [1]]) * jnp.ones_like(x))  # noqa: E731
    packed = apply(
        {"params": params}, pack(source), pack(target),
        encoder_segment_ids=segments(source), decoder_segment_ids=segments(target),
        decoder_language_ids=pack(languages),
    )  # fmt: skip
    for row, place, start in ((0, 0, 0), (1, 0, 4), (2, 1, 0)):
        np.testing.assert_allclose(
            packed[place, start : start + 4], alone[row], rtol=1e-3, atol=1e-4
        )


def test_decoding_step_by_step_gives_the_teacher_forced_logits(variant):
    model, params, apply = variant
    source, target = batch()
    variables, beams, languages = {"params": params}, 2, jnp.asarray([2, 0, 1], jnp.int32)

    @jit
    def start(source):
        encoded = model.apply(variables, source, language_ids=languages, method="encode")
        cache = model.apply(variables, len(source) * beams, target.shape[1], method="empty_cache")
        return model.apply(variables, encoded, source, languages, method="cross_kv"), cache

    step = jit(functools.partial(model.apply, method="decode_step"))
    cross_kv, cache = start(source)
    tokens = np.stack([target, np.asarray(target)[::-1]], axis=1)
    of_targets = of_rows(languages, target)
    both = [
        apply(variables, source, jnp.asarray(tokens[:, beam]), decoder_language_ids=of_targets)
        for beam in range(beams)
    ]
    for t in range(target.shape[1]):
        logits, cache = step(variables, jnp.asarray(tokens[:, :, t].reshape(-1)), cross_kv, cache)
        logits = logits.reshape(len(source), beams, -1)
        for beam in range(beams):
            within = np.asarray(tokens[:, beam, 1 : t + 1] != 0).all(-1)
            np.testing.assert_allclose(
                logits[within, beam], both[beam][within, t], rtol=1e-3, atol=1e-4
            )


def test_a_model_that_needs_language_ids_says_so(variant):
    model, params, _ = variant
    with pytest.raises(ValueError, match="routes by language.*without language ids"):
        jax.eval_shape(model.apply, {"params": params}, *batch())


def test_tables_start_as_spread_as_the_logits_of_a_token_router():
    model = Transformer(Config(
        vocab_size=20, emb_dim=64, encoder_layers=1, decoder_layers=0, moe_period=1,
        moe=moe.MoeConfig(num_experts=64), languages=200, encoder_routing="language",
    ))  # fmt: skip
    ones = jnp.ones((1, 2), jnp.int32)
    params = nn.unbox(jit(model.init)(jax.random.key(0), ones, ones))["params"]
    table = params["encoder"]["blocks"]["layers_0"]["mlp"]["router"]
    assert table.shape == (1, 200, 64)
    assert float(table.std()) == pytest.approx(0.1**0.5, rel=0.05)


LANGUAGE = {"moe_period": 2, "decoder_routing": "language", "languages": 3}


@pytest.mark.parametrize(
    "options, message",
    [
        ({"encoder_routing": "langage"}, "encoder_routing: 'langage'.*token.*nearest: language"),
        ({"languages": 3}, "languages = 3 with encoder_routing = token and .*; allowed: 0"),
        (LANGUAGE | {"languages": 0}, "languages = 0 .*decoder_routing = language; allowed: 1 or"),
        (LANGUAGE | {"moe_period": 0}, r"decoder_routing = language, .*moe_period of 1 to 3.*is 0"),
        (
            {"moe_period": 3, "encoder_routing": "language", "languages": 3},
            r"no layer of the encoder has experts; allowed: a moe_period of 1 to 2 \(it is 3\)",
        ),
    ],
)
def test_settings_that_do_not_fit_are_errors_that_say_what_is_allowed(options, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SMALL, **options)
