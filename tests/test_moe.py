"""Routers against plain loops in float64, and the layer against sums over its experts."""

import dataclasses
import functools
import math
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from mmt.model import moe

# Tests compile more than they compute.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
F32 = jnp.dtype("float32")
ROUTERS = {"gshard": moe.gshard_top2, "switch": moe.switch_top1}


def route(router, logits, real, uniform, *, factor):
    """The router's decision as NumPy arrays; compiled, as in training."""
    run = jit(functools.partial(ROUTERS[router], capacity_factor=factor))
    arrays = map(jnp.asarray, (logits, real))
    return jax.tree.map(np.asarray, run(*arrays, uniform=jnp.asarray(uniform)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gshard_in_loops(logits, real, capacity_factor, uniform):
    """Algorithm 1 of GShard, one token after another. The second loop is the second choices'."""
    tokens, experts = logits.shape
    capacity = min(tokens, max(1, math.ceil(2 * tokens * capacity_factor / experts)))
    gates, counter = softmax(logits.astype(np.float64)), [0] * experts
    weight = np.zeros((tokens, experts))
    slot = np.full((tokens, experts), -1)
    pairs = {}
    for s in range(tokens):
        e1 = int(gates[s].argmax())
        e2 = int(np.where(np.arange(experts) == e1, -1, gates[s]).argmax())
        g2 = gates[s, e2] if experts > 1 else 0.0
        pairs[s] = e1, e2, gates[s, e1] / (gates[s, e1] + g2), g2 / (gates[s, e1] + g2)
        if real[s]:
            if counter[e1] < capacity:
                weight[s, e1], slot[s, e1] = pairs[s][2], counter[e1]
            counter[e1] += 1
    aux = balance(counter, gates[real])  # first choices only
    for s in range(tokens):
        _, e2, _, g2 = pairs[s]
        if real[s]:
            if counter[e2] < capacity and 2 * g2 > uniform[s]:
                weight[s, e2], slot[s, e2] = g2, counter[e2]
            counter[e2] += 1
    return weight, slot, aux


def switch_in_loops(logits, real, capacity_factor, uniform):
    tokens, experts = logits.shape
    capacity = min(tokens, max(1, math.ceil(tokens * capacity_factor / experts)))
    gates, counter = softmax(logits.astype(np.float64)), [0] * experts
    weight = np.zeros((tokens, experts))
    slot = np.full((tokens, experts), -1)
    for s in range(tokens):
        if real[s]:
            e = int(gates[s].argmax())
            if counter[e] < capacity:
                weight[s, e], slot[s, e] = gates[s, e], counter[e]
            counter[e] += 1
    return weight, slot, balance(counter, gates[real])


def balance(first_choices, gates):
    """E x sum of f x P, equations 4-6 of Switch."""
    f = np.asarray(first_choices) / max(len(gates), 1)
    return len(f) * float(np.sum(f * gates.mean(0))) if len(gates) else 0.0


LOOPS = {"gshard": gshard_in_loops, "switch": switch_in_loops}


def example(tokens=24, experts=5, groups=2, *, skew=0.0, padding=0.0, seed=0):
    random = np.random.default_rng(seed)
    logits = random.normal(size=(groups, tokens, experts)) * 1.5
    logits[..., 0] += skew
    real = random.random((groups, tokens)) >= padding
    return logits.astype(np.float32), real, random.random((groups, tokens)).astype(np.float32)


CASES = {
    "plain": ({}, 1.0),
    "little room": ({}, 0.4),
    "all to one expert": ({"skew": 50.0}, 1.0),
    "tokens do not divide": ({"tokens": 23, "experts": 7}, 1.25),
    "one expert": ({"experts": 1}, 0.5),
    "more experts than tokens": ({"tokens": 3, "experts": 8}, 1.0),
    "padding": ({"padding": 0.4}, 0.8),
    "nothing but padding": ({"padding": 1.0}, 1.0),
}


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("case", CASES)
def test_routing_is_the_papers(router, case):
    options, factor = CASES[case]
    logits, real, uniform = example(**options)
    got = route(router, logits, real, uniform, factor=factor)
    expert, slot, gate, kept, *_ = got
    aux = []
    for g in range(len(logits)):
        weight, slots, loss = LOOPS[router](logits[g], real[g], factor, uniform[g])
        aux.append((real[g].sum(), loss))
        mine, my_slots = np.zeros_like(weight), np.full_like(slots, -1)
        for s, k in np.argwhere(kept[g]):
            mine[s, expert[g, s, k]] += gate[g, s, k]
            my_slots[s, expert[g, s, k]] = slot[g, s, k]
        np.testing.assert_allclose(mine, weight, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(my_slots, slots)
    total = max(sum(n for n, _ in aux), 1)
    want = sum(n * loss for n, loss in aux) / total
    assert float(got.measures["moe_aux_loss"]) == pytest.approx(want, rel=1e-5)
    left = (real & ~kept.any(-1)).sum() / total
    assert float(got.measures["moe_dropped"]) == pytest.approx(left, abs=1e-6)


def test_the_second_expert_comes_with_twice_its_gate_as_probability():
    gate = 0.2  # of the second; kept in 40 % of cases
    logits = jnp.log(jnp.asarray([1 - gate, gate]))[None, None].repeat(20_000, axis=1)
    real = jnp.ones(logits.shape[:2], bool)
    uniform = jax.random.uniform(jax.random.key(0), real.shape)
    kept = route("gshard", logits, real, uniform, factor=2.0).kept
    assert kept[..., 0].all()
    assert float(kept[..., 1].mean()) == pytest.approx(2 * gate, abs=0.015)


@pytest.mark.parametrize("router", ROUTERS)
def test_measures_of_uniform_routing(router):
    experts = 4
    logits = 1e-4 * jnp.eye(experts).repeat(8, axis=0)[None]  # each expert first 8 times
    real = jnp.ones(logits.shape[:2], bool)
    got = route(router, logits, real, np.zeros(real.shape, np.float32), factor=1.0).measures
    assert float(got["moe_aux_loss"]) == pytest.approx(1.0, rel=1e-3)
    assert float(got["moe_z_loss"]) == pytest.approx(math.log(experts) ** 2, rel=1e-3)
    assert float(got["moe_load_entropy"]) == pytest.approx(1.0)
    assert float(got["moe_dropped"]) == 0.0


@pytest.mark.parametrize("router", ROUTERS)
def test_padding_does_not_count(router):
    logits, real, uniform = example(groups=1)
    alone = route(router, logits, real, uniform, factor=5.0)
    padded = [np.concatenate([a, a[:, :9]], axis=1) for a in (logits, real, uniform)]
    padded[1][:, real.shape[1] :] = False
    beside = route(router, *padded, factor=5.0)
    for name in moe.MEASURES:
        np.testing.assert_allclose(beside.measures[name], alone.measures[name], rtol=1e-5)
    tokens = alone.kept.shape[1]
    assert not beside.kept[:, tokens:].any()
    np.testing.assert_array_equal(beside.slot[:, :tokens], alone.slot)


@pytest.mark.parametrize("router", ROUTERS)
def test_dispatch_and_combine(router):
    logits, real, uniform = map(jnp.asarray, example(padding=0.2))
    x = jax.random.normal(jax.random.key(1), (*real.shape, 3))

    @jit
    def there_and_back(x):
        routing = ROUTERS[router](logits, real, capacity_factor=0.7, uniform=uniform)
        buffers = moe.dispatch(x, routing)
        scaled = buffers * (1 + jnp.arange(5)[:, None, None, None])  # expert e times e + 1
        return routing, buffers, moe.combine(scaled, routing)

    routing, buffers, y = jax.tree.map(np.asarray, there_and_back(x))
    assert buffers.shape == (5, 2, routing.capacity, 3)
    want, want_sum = np.zeros_like(buffers), np.zeros_like(y)
    for g, s, k in np.argwhere(routing.kept):
        e, c = routing.expert[g, s, k], routing.slot[g, s, k]
        want[e, g, c] = x[g, s]
        want_sum[g, s] += routing.gate[g, s, k] * (x[g, s] * (e + 1))
    np.testing.assert_array_equal(buffers, want)
    np.testing.assert_allclose(y, want_sum, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("router", ROUTERS)
def test_the_gradient_that_gathers_is_that_of_plain_indexing(router):
    logits, real, uniform = map(jnp.asarray, example(padding=0.2))
    x = jax.random.normal(jax.random.key(1), (*real.shape, 3))

    def plain_take(x, index, inverse):
        del inverse
        return jax.vmap(lambda rows, i: rows.at[i].get(mode="fill", fill_value=0))(x, index)

    def loss(x, logits):
        routing = ROUTERS[router](logits, real, capacity_factor=0.7, uniform=uniform)
        y = moe.combine(jnp.sin(moe.dispatch(x, routing)), routing)
        return jnp.sum(jnp.cos(y)) + routing.measures["moe_aux_loss"]

    ours = jit(jax.grad(loss, (0, 1)))(x, logits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moe, "take_rows", plain_take)
        plain = jit(jax.grad(lambda *a: loss(*a), (0, 1)))(x, logits)
    for got, want in zip(ours, plain, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def layer(router="gshard", experts=4, **options):
    config = moe.MoeConfig(num_experts=experts, router=ROUTERS[router], group_size=16, **options)
    return moe.MoeMlp(hidden=8, activations=("gelu", "linear"), dtype=F32, config=config)


def parameters(module, x, real):
    params = nn.meta.unbox(jit(module.init)(jax.random.key(0), x, real))["params"]
    params["router"] *= 10  # clear preferences
    return {"params": params}


@pytest.fixture
def tokens():
    x = jax.random.normal(jax.random.key(3), (6, 7, 5))
    real = jnp.asarray(np.random.default_rng(0).random((6, 7)) > 0.2)
    return x, real


def training(module):
    """The layer in training, compiled: (params, x, real, seed) -> y."""

    @jit
    def run(params, x, real, seed):
        return module.apply(params, x, real, True, rngs={"dropout": jax.random.key(seed)})

    return run


def every_expert(params, x, real, choices):
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
    return jnp.einsum("bte,bted->btd", gates, outputs) * real[..., None]


# (GShard drops second experts at random in training.)
@pytest.mark.parametrize(
    "router, in_training", [("gshard", False), ("switch", False), ("switch", True)]
)
def test_with_room_for_all_the_layer_is_a_sum_over_experts(router, in_training, tokens):
    """In value and in every gradient; also where all tokens choose one expert."""
    x, real = tokens
    x = x.at[..., 0].set(1.0)
    module = layer(router, capacity_factor=4.0)
    params = parameters(module, x, real)

    def loss(run):
        return jit(jax.value_and_grad(lambda *a: jnp.sum(jnp.sin(run(*a))), (0, 1)))

    rngs = {"dropout": jax.random.key(0)}
    ours = loss(lambda p, x: module.apply(p, x, real, in_training, rngs=rngs))
    plain = loss(lambda p, x: every_expert(p, x, real, 2 if router == "gshard" else 1))
    for favour in (0.0, 40.0):
        params["params"]["router"] = params["params"]["router"].at[0, 1].add(favour)
        got, want = ours(params, x), plain(params, x)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), got, want)


@pytest.mark.parametrize("router", ROUTERS)
def test_without_training_no_token_depends_on_another(router, tokens):
    x, real = tokens
    module = layer(router)
    params = parameters(module, x, real)
    run = jit(lambda x, real: module.apply(params, x, real))
    base = run(x, real)
    for seed in range(5):
        others = jax.random.normal(jax.random.key(seed), x.shape) * 3
        changed = run(x.at[1:].set(others[1:]), real.at[1:].set(True))
        np.testing.assert_array_equal(changed[0], base[0])  # the same program: to the bit
    alone = run(x[:1], real[:1])
    np.testing.assert_allclose(alone[0], base[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("router", ROUTERS)
def test_noise_belongs_to_the_token_whatever_the_groups(router, tokens):
    x, real = tokens
    outputs = []
    for size in (42, 5):  # 42 tokens: in one group, and in 9 of 5 with three to fill up
        module = layer(router, capacity_factor=4.0, jitter=0.1)
        module = module.clone(config=dataclasses.replace(module.config, group_size=size))
        outputs.append(training(module)(parameters(module, x, real), x, real, 7))
    for other in outputs[1:]:
        np.testing.assert_allclose(other, outputs[0], rtol=1e-5, atol=1e-6)


def test_tokens_without_room_get_nothing(tokens):
    x, real = tokens
    module = layer("switch", capacity_factor=0.25)
    params = parameters(module, x, real)
    options = {"rngs": {"dropout": jax.random.key(0)}, "mutable": ["intermediates"]}
    y, state = jit(lambda x: module.apply(params, x, real, True, **options))(x)
    dropped = float(moe.summarize(state["intermediates"])["moe_dropped"])
    nothing = np.asarray((y == 0).all(-1))
    assert dropped > 0.3
    assert (nothing & np.asarray(real)).sum() == round(dropped * int(real.sum()))
    assert nothing[~np.asarray(real)].all()


def test_expert_dropout_and_jitter_only_in_training(tokens):
    x, real = tokens
    module = layer("switch", capacity_factor=4.0, jitter=0.3, expert_dropout=0.5)
    params = parameters(module, x, real)
    plain = jit(lambda x: module.apply(params, x, real))(x)  # needs no random numbers
    run = training(module)
    noisy = [run(params, x, real, seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(noisy[0], noisy[1])
    assert not np.allclose(noisy[0], noisy[2]) and not np.allclose(noisy[0], plain)


def test_the_router_computes_in_float32(tokens):
    x, real = tokens
    module = layer()
    params = parameters(module, x, real)
    x = x.astype(jnp.bfloat16)
    seen = {}

    def spy(logits, real, **options):
        seen["dtype"] = logits.dtype
        return moe.gshard_top2(logits, real, **options)

    config = dataclasses.replace(module.config, router=spy)
    half = module.clone(dtype=jnp.dtype("bfloat16"), config=config)
    y = jit(half.apply)(params, x, real)
    assert seen["dtype"] == jnp.float32 and y.dtype == jnp.bfloat16
    full = jit(module.apply)(params, x.astype(jnp.float32), real)
    np.testing.assert_allclose(y.astype(jnp.float32), full, atol=0.03)


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


@pytest.mark.parametrize("choices, experts", [(1, 8), (16, 8), (512, 8), (8192, 8), (8192, 128)])
def test_the_dropless_path_costs_about_the_active_experts(choices, experts):
    """Rows in blocks that are not skipped, at most: not every expert on every row."""
    rows = moe.block_rows(choices, experts)
    worst = (choices // rows + min(experts, choices)) * rows
    assert rows % 8 == 0 and worst <= 2 * choices + 8 * experts


@pytest.mark.parametrize(
    "options",
    [
        {"num_experts": 0},
        {"group_size": 0},
        {"capacity_factor": 0.0},
        {"jitter": 1.0},
        {"expert_dropout": -0.1},
        {"init_scale": float("nan")},
    ],
)
def test_impossible_settings_are_errors_that_say_what_is_allowed(options):
    [(name, value)] = options.items()
    with pytest.raises(ValueError, match=rf"MoeConfig.{name} = {value}; allowed"):
        moe.MoeConfig(**options)


MESH_PROGRAM = """
import re, sys, jax, jax.numpy as jnp, numpy as np
from flax import linen as nn
from mmt.model import moe
x = jax.random.normal(jax.random.key(0), (8, 16, 12))
real = jnp.ones((8, 16), bool)
module = moe.MoeMlp(20, ("gelu", "linear"), jnp.dtype("float32"), moe.MoeConfig(4, group_size=32))
boxed = module.init(jax.random.key(1), x, real)
def loss(params, x):
    rngs = {"dropout": jax.random.key(2)}
    return jnp.sum(jnp.sin(module.apply(params, x, real, True, rngs=rngs)))
grad = lambda: jax.jit(jax.value_and_grad(loss, (0, 1)))
alone = grad()(nn.meta.unbox(boxed), x)
mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
rules = [("batch", "data"), ("group", "data"), ("expert", "data")]
spec = nn.get_partition_spec(boxed)
params = jax.device_put(nn.meta.unbox(boxed), nn.logical_to_mesh_sharding(spec, mesh, rules))
rows = jax.device_put(x, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data")))
with jax.set_mesh(mesh), nn.logical_axis_rules(rules):
    compiled = grad().lower(params, rows).compile()
text = compiled.as_text()
assert len(re.findall(r" all-to-all(?:-start)?\\(", text)) == 4, "dispatch, combine, and back"
assert not re.search(r" all-gather(?:-start)?\\(", text), "tokens or experts were gathered"
for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(compiled(params, rows)), strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
"""


@pytest.mark.mesh
def test_on_a_mesh_experts_exchange_tokens_by_all_to_all():
    flags = "--xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-c", MESH_PROGRAM],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        cwd=Path(__file__).resolve().parent.parent,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
