"""The layer with experts against sums over its experts in float64, and what training changes."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from mmt.model import dispatch, moe, stack
from mmt.model.config import Config

# Tests compile more than they compute.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
F32 = jnp.dtype("float32")
ROUTERS = {"gshard": moe.gshard_top2, "switch": moe.switch_top1}


def layer(router="gshard", experts=4, **options):
    config = moe.MoeConfig(num_experts=experts, router=ROUTERS[router], group_size=16, **options)
    return moe.MoeMlp(hidden=8, activations=("gelu", "linear"), dtype=F32, config=config)


def parameters(module, x, padding_mask):
    params = nn.meta.unbox(jit(module.init)(jax.random.key(0), x, padding_mask))["params"]
    params["router"] *= 10  # clear preferences
    return {"params": params}


@pytest.fixture
def tokens():
    x = jax.random.normal(jax.random.key(3), (6, 7, 5))
    padding_mask = jnp.asarray(np.random.default_rng(0).random((6, 7)) > 0.2)
    return x, padding_mask


def training(module):
    """The layer in training, compiled: (params, x, real, seed) -> y."""

    @jit
    def run(params, x, padding_mask, seed):
        return module.apply(params, x, padding_mask, True, rngs={"dropout": jax.random.key(seed)})

    return run


def every_expert(params, x, padding_mask, choices):
    """All experts on all tokens, then the sum over each token's first `choices`: no dispatch."""
    p = params["params"]
    gates = jax.nn.softmax(x @ p["router"])
    hidden = nn.gelu(jnp.einsum("btd,edf->btef", x, p["wi_0"]))
    hidden = hidden * jnp.einsum("btd,edf->btef", x, p["wi_1"])
    outputs = jnp.einsum("btef,efd->bted", hidden, p["wo"])
    top = jnp.sort(gates, axis=-1)[..., -choices][..., None]
    gates = jnp.where(gates >= top, gates, 0.0)
    if choices > 1:
        gates = gates / gates.sum(-1, keepdims=True)
    return jnp.einsum("bte,bted->btd", gates, outputs) * padding_mask[..., None]


# (GShard drops second experts at random in training.)
@pytest.mark.parametrize(
    "router, in_training", [("gshard", False), ("switch", False), ("switch", True)]
)
def test_with_capacity_for_all_the_layer_is_a_sum_over_experts(router, in_training, tokens):
    """In value and every gradient, also if all tokens choose the same expert."""
    x, padding_mask = tokens
    x = x.at[..., 0].set(1.0)
    module = layer(router, capacity_factor=4.0)
    params = parameters(module, x, padding_mask)

    def loss(run):
        return jit(jax.value_and_grad(lambda *a: jnp.sum(jnp.sin(run(*a))), (0, 1)))

    rngs = {"dropout": jax.random.key(0)}
    ours = loss(lambda p, x: module.apply(p, x, padding_mask, in_training, rngs=rngs))
    plain = loss(lambda p, x: every_expert(p, x, padding_mask, 2 if router == "gshard" else 1))
    for favour in (0.0, 40.0):
        params["params"]["router"] = params["params"]["router"].at[0, 1].add(favour)
        got, want = ours(params, x), plain(params, x)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), got, want)


@pytest.mark.parametrize("router", ROUTERS)
def test_without_training_no_token_depends_on_another(router, tokens):
    x, padding_mask = tokens
    module = layer(router)
    params = parameters(module, x, padding_mask)
    run = jit(lambda x, padding_mask: module.apply(params, x, padding_mask))
    base = run(x, padding_mask)
    for seed in range(5):
        others = jax.random.normal(jax.random.key(seed), x.shape) * 3
        changed = run(x.at[1:].set(others[1:]), padding_mask.at[1:].set(True))
        np.testing.assert_array_equal(changed[0], base[0])  # the same program: to the bit
    alone = run(x[:1], padding_mask[:1])
    np.testing.assert_allclose(alone[0], base[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("router", ROUTERS)
def test_noise_belongs_to_the_token_whatever_the_groups(router, tokens):
    x, padding_mask = tokens
    outputs = []
    for size in (42, 5):  # 42 tokens: in one group, and in 9 of 5 with three to fill up
        module = layer(router, capacity_factor=4.0, jitter=0.1)
        module = module.clone(config=dataclasses.replace(module.config, group_size=size))
        outputs.append(training(module)(parameters(module, x, padding_mask), x, padding_mask, 7))
    for other in outputs[1:]:
        np.testing.assert_allclose(other, outputs[0], rtol=1e-5, atol=1e-6)


def test_tokens_beyond_the_capacity_are_dropped(tokens):
    x, padding_mask = tokens
    module = layer("switch", capacity_factor=0.25)
    params = parameters(module, x, padding_mask)
    options = {"rngs": {"dropout": jax.random.key(0)}, "mutable": ["intermediates"]}
    y, state = jit(lambda x: module.apply(params, x, padding_mask, True, **options))(x)
    dropped = float(moe.summarize(state["intermediates"])["moe_dropped"])
    nothing = np.asarray((y == 0).all(-1))
    assert dropped > 0.3
    assert (nothing & np.asarray(padding_mask)).sum() == round(dropped * int(padding_mask.sum()))
    assert nothing[~np.asarray(padding_mask)].all()


def test_expert_dropout_and_jitter_only_in_training(tokens):
    x, padding_mask = tokens
    module = layer("switch", capacity_factor=4.0, jitter=0.3, expert_dropout=0.5)
    params = parameters(module, x, padding_mask)
    plain = jit(lambda x: module.apply(params, x, padding_mask))(x)  # needs no random numbers
    run = training(module)
    noisy = [run(params, x, padding_mask, seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(noisy[0], noisy[1])
    assert not np.allclose(noisy[0], noisy[2]) and not np.allclose(noisy[0], plain)


def test_the_router_computes_in_float32(tokens):
    x, padding_mask = tokens
    module = layer()
    params = parameters(module, x, padding_mask)
    x = x.astype(jnp.bfloat16)
    seen = {}

    def spy(logits, padding_mask, **options):
        seen["dtype"] = logits.dtype
        return moe.gshard_top2(logits, padding_mask, **options)

    config = dataclasses.replace(module.config, router=spy)
    half = module.clone(dtype=jnp.dtype("bfloat16"), config=config)
    y = jit(half.apply)(params, x, padding_mask)
    assert seen["dtype"] == jnp.float32 and y.dtype == jnp.bfloat16
    full = jit(module.apply)(params, x.astype(jnp.float32), padding_mask)
    np.testing.assert_allclose(y.astype(jnp.float32), full, atol=0.03)


def test_bfloat16_routers_differ_from_float32(tokens):
    """With the whole router in bfloat16 the output is near that of float32, but not equal."""
    x, padding_mask = tokens
    module = layer()
    params = parameters(module, x, padding_mask)
    config = dataclasses.replace(module.config, router_dtype="bfloat16")
    half = module.clone(config=config)
    in_float32, in_bfloat16 = (jit(m.apply)(params, x, padding_mask) for m in (module, half))
    assert 0 < float(jnp.abs(in_float32 - in_bfloat16).max()) < 0.1


def plain_layer(params, x, padding_mask, *, choices, capacity, losses):
    """One group in float64 loops, from tokens to loss: router, capacity, experts, both losses.

    Written for finite differences; no choice is dropped at random.
    """
    gates = np.exp(x @ params["router"])
    z = np.log(gates.sum(-1)) ** 2
    gates /= gates.sum(-1, keepdims=True)
    order = np.argsort(-gates, axis=-1)[:, :choices]
    y, counter, first = np.zeros_like(x), [0] * gates.shape[1], np.zeros(gates.shape[1])
    for k in range(choices):
        for s in np.flatnonzero(padding_mask):
            e = order[s, k]
            first[e] += k == 0
            if counter[e] < capacity:
                gate = gates[s, e] / (gates[s, order[s]].sum() if choices > 1 else 1.0)
                y[s] += gate * (np.maximum(x[s] @ params["wi_0"][e], 0) @ params["wo"][e])
            counter[e] += 1
    aux = gates.shape[1] * np.sum(first / padding_mask.sum() * gates[padding_mask].mean(0))
    return np.sin(y).sum() + losses[0] * aux + losses[1] * z[padding_mask].mean()


@pytest.mark.parametrize("favour", [0.0, 40.0])
@pytest.mark.parametrize("router, choices", [("gshard", 2), ("switch", 1)])
def test_every_gradient_of_the_layer_is_the_slope_of_plain_loops(router, choices, favour, tokens):
    """Through gates, dispatch, experts and both losses, with dropped tokens; also if all choose the
    same expert. Compares slopes along random directions.
    """
    x, padding_mask = tokens[0].reshape(1, 42, 5).at[..., 0].set(1.0), tokens[1].reshape(1, 42)
    all_wanted = functools.partial(
        lambda route, *a, uniform, **k: route(*a, uniform=0 * uniform, **k), ROUTERS[router]
    )
    config = moe.MoeConfig(4, all_wanted, group_size=42, capacity_factor=0.7)
    module = moe.MoeMlp(8, ("relu",), F32, config)
    params = parameters(module, x, padding_mask)
    params["params"]["router"] = params["params"]["router"].at[0, 1].add(favour)
    weights = 0.5, 0.01

    @jit
    @jax.value_and_grad
    def ours(both):
        options = {"rngs": {"dropout": jax.random.key(0)}, "mutable": ["intermediates"]}
        y, state = module.apply(both[0], both[1], padding_mask, True, **options)
        measured = moe.summarize(state["intermediates"])
        losses = weights[0] * measured["moe_aux_loss"] + weights[1] * measured["moe_z_loss"]
        return jnp.sum(jnp.sin(y)) + losses

    capacity = math.ceil(choices * 42 * 0.7 / 4)

    def plain(both):
        return plain_layer(
            both[0]["params"], both[1][0], np.asarray(padding_mask[0]),
            choices=choices, capacity=capacity, losses=weights,
        )  # fmt: skip

    exact = jax.tree.map(lambda a: np.asarray(a, np.float64), (params, x))
    value, gradient = ours((params, x))
    assert float(value) == pytest.approx(plain(exact), rel=1e-5)
    random, leaves = np.random.default_rng(0), jax.tree.structure(exact)
    for leaf in range(leaves.num_leaves):  # each parameter and x by itself
        for _ in range(3):
            along = jax.tree.map(np.zeros_like, exact)
            direction = jax.tree.leaves(along)[leaf]
            direction[...] = random.normal(size=direction.shape)
            up, down = (
                plain(jax.tree.map(lambda a, d: a + step * d, exact, along))  # noqa: B023
                for step in (1e-6, -1e-6)
            )
            got = sum(np.vdot(g, d) for g, d in zip(*map(jax.tree.leaves, (gradient, along)),
                                                    strict=True))  # fmt: skip
            assert got == pytest.approx((up - down) / 2e-6, rel=1e-3, abs=1e-3)


def test_dropped_tokens_pass_through_the_residual():
    """In a layer of the stack: with a capacity of zero the MLP adds nothing."""
    experts = moe.MoeConfig(2, moe.switch_top1, group_size=32, capacity_factor=0.25)
    config = Config(vocab_size=9, emb_dim=8, num_heads=2, head_dim=4, mlp_dim=16, moe=experts)
    module = stack.Layer(config, decoder=False, experts=True)
    x = jax.random.normal(jax.random.key(0), (2, 16, 8))
    places = jnp.arange(16)
    full = jnp.ones((2, 1, 16, 16), bool)
    bias = jnp.zeros((1, 2, 16, 16))
    context = stack.Context((places, places), full, jnp.ones((2, 16), bool), bias)
    carry = stack.Carry(x, None, jnp.asarray(0))
    params = nn.meta.unbox(module.init(jax.random.key(1), carry, context, False))["params"]
    options = {"rngs": {"dropout": jax.random.key(2)}, "mutable": ["intermediates"]}
    run = jit(lambda p: module.apply({"params": p}, carry, context, True, **options))
    (with_experts, _, _), state = run(params)
    params["mlp"]["wo"] *= 0
    (without, _, _), _ = run(params)
    unchanged = (with_experts == without).all(-1)
    dropped = float(moe.summarize(state["intermediates"])["moe_dropped"])
    assert dropped >= 0.5 and int(unchanged.sum()) == round(dropped * 32)


@pytest.mark.parametrize("router, choices", [("gshard", 2), ("switch", 1)])
def test_output_masking_leaves_out_whole_outputs(router, choices, tokens):
    """In training each choice's output is masked as a whole with probability p; otherwise all are
    weighted by 1 - p.
    """
    x = jax.random.normal(jax.random.key(5), (40, 25, 5))
    padding_mask = jnp.ones(x.shape[:2], bool)
    plain = layer(router, capacity_factor=4.0)
    config = dataclasses.replace(plain.config, output_masking=0.2)
    params = parameters(plain, x, padding_mask)
    masked = plain.clone(config=config)
    y, want = (jit(m.apply)(params, x, padding_mask) for m in (masked, plain))
    np.testing.assert_allclose(y, 0.8 * want, rtol=1e-5, atol=1e-7)

    options = {"rngs": {"dropout": jax.random.key(0)}, "mutable": ["intermediates"]}
    (masked_output, masked_state), (output, state) = (
        jit(lambda p, m=m: m.apply(p, x, padding_mask, True, **options))(params)
        for m in (masked, plain)
    )
    same = np.isclose(masked_output, output, rtol=1e-5, atol=1e-7).all(-1)
    none = np.asarray((masked_output == 0).all(-1))
    if choices == 1:
        assert (same | none).all()
        assert none.mean() == pytest.approx(0.2, abs=0.04)
    else:  # both left out, or none, or one of two, which GShard itself drops at random
        assert none.mean() > 0.2**2 - 0.02 and 0.8**2 - 0.05 < same.mean() < 0.8 + 0.05
        assert not (same | none).all()
    masked_measures, measures = (
        moe.summarize(sown["intermediates"]) for sown in (masked_state, state)
    )
    assert masked_measures == measures  # it is no token without room


def test_groups_are_whole_rows_if_that_costs_little():
    for rows, length, size, count in (
        (64, 64, 1024, 4), (64, 40, 1024, 4), (12, 10, 50, 3), (7, 100, 300, 3), (7, 100, 150, 7),
        (1, 1, 1024, 1), (31, 2, 8, 8),
    ):  # fmt: skip
        assert moe.groups(rows, length, size=size) == count
        assert rows * length <= count * size


def test_expert_dropout_leaves_out_hidden_units_of_an_expert():
    """40 % of them, the rest scaled up; the same for all tokens of the expert."""
    module = moe.MoeMlp(
        400, ("linear",), F32, moe.MoeConfig(2, moe.switch_top1, expert_dropout=0.4)
    )
    x = jax.random.normal(jax.random.key(0), (1, 6, 400))
    padding_mask = jnp.ones((1, 6), bool)
    eye = jnp.broadcast_to(jnp.eye(400), (2, 400, 400))
    params = {"params": {"router": jnp.zeros((400, 2)), "wi_0": eye, "wo": eye}}  # y = x / 2
    y = training(module)(params, x, padding_mask, 0)[0, :3]  # three have room: the same expert
    ratio = np.asarray(y / (x[0, :3] / 2))
    np.testing.assert_allclose(ratio, np.where(ratio > 0, 1 / 0.6, 0.0), rtol=1e-5)
    np.testing.assert_array_equal(ratio > 0, np.broadcast_to(ratio[0] > 0, ratio.shape))
    assert (ratio == 0).mean() == pytest.approx(0.4, abs=0.08)


def test_all_dispatchers_give_the_layer_the_same_numbers(tokens):
    """With the same noise: jitter, second experts, dropout inside them, masked outputs."""
    x, padding_mask = tokens
    module = layer(expert_dropout=0.4, jitter=0.1, output_masking=0.2)
    params = parameters(module, x, padding_mask)
    outputs = []
    for way in ("auto", *dispatch.DISPATCHERS):
        chosen = module.clone(config=dataclasses.replace(module.config, dispatch=way))
        outputs.append(training(chosen)(params, x, padding_mask, 1))
    for other in outputs[1:]:
        np.testing.assert_allclose(other, outputs[0], rtol=1e-5, atol=1e-6)


def test_initial_scale():
    config = moe.MoeConfig(num_experts=3, init_scale=0.1)
    module = moe.MoeMlp(hidden=300, activations=("relu",), dtype=F32, config=config)
    x = jnp.zeros((1, 2, 200))
    init = jit(module.init)(jax.random.key(0), x, jnp.ones((1, 2), bool))
    params = nn.meta.unbox(init)["params"]
    for name, fan_in in (("wi_0", 200), ("wo", 300), ("router", 200)):
        assert float(params[name].std()) == pytest.approx(math.sqrt(0.1 / fan_in), rel=0.1)


def test_summarize_is_the_mean_over_layers():
    first = {name: jnp.asarray([1.0, 2.0]) for name in moe.MEASURES}  # two scanned layers
    last = {name: jnp.asarray(6.0) for name in moe.MEASURES}
    state = {"encoder": {"mlp": {"moe": (first,)}}, "decoder": {"moe": (last,)}, "other": (1.0,)}
    assert {k: float(v) for k, v in moe.summarize(state).items()} == dict.fromkeys(
        moe.MEASURES, 3.0
    )
    assert moe.summarize({}) == {}


@pytest.mark.parametrize(
    "options",
    [
        {"num_experts": 0},
        {"group_size": 0},
        {"capacity_factor": 0.0},
        {"jitter": 1.0},
        {"expert_dropout": -0.1},
        {"output_masking": 1.0},
        {"mlp_dim": -1},
        {"init_scale": float("nan")},
        {"capacity_factor": float("inf")},
        {"num_experts": 2.5},
        {"group_size": 2**31},
        {"router": 3},
    ],
)
def test_impossible_settings_are_errors_that_say_what_is_allowed(options, as_users_have_it):
    [(name, value)] = options.items()
    with pytest.raises(ValueError, match=rf"MoeConfig.{name} = {value}; allowed"):
        moe.MoeConfig(**options)


@pytest.mark.parametrize(
    "name, value, nearest",
    [("router_dtype", "float31", "float32"), ("dispatch", "onehot", "one_hot")],
)
def test_an_unknown_name_is_an_error_with_the_nearest(name, value, nearest):
    with pytest.raises(ValueError, match=f"MoeConfig.{name}: '{value}'; .* nearest: {nearest}"):
        moe.MoeConfig(**{name: value})
