"""All dispatchers equal a plain loop; on a mesh they exchange tokens by all-to-all."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt.model import dispatch, routing

# Tests compile more than they compute.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
ROUTERS = {"gshard": routing.gshard_top2, "switch": routing.switch_top1}
EVERY_WAY = {**dispatch.DISPATCHERS, "blocks": dispatch.blocks}


def example(tokens=24, experts=5, groups=2, *, skew=0.0, padding=0.2, seed=0):
    """Logits, real tokens, noise, vectors of 3."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(groups, tokens, experts)) * 1.5
    logits[..., 0] += skew
    padding_mask = random.random((groups, tokens)) >= padding
    noise, x = random.random((groups, tokens)), random.normal(size=(groups, tokens, 3))
    arrays = (a.astype(np.float32) for a in (logits, noise, x))
    logits, noise, x = map(jnp.asarray, arrays)
    return logits, jnp.asarray(padding_mask), noise, x


def weights(experts, seed=1):
    random = np.random.default_rng(seed)
    shapes = (experts, 3, 4), (experts, 4, 3)
    return tuple(jnp.asarray(random.normal(size=shape), jnp.float32) for shape in shapes)


def in_loops(x, r, wi, wo):
    """The sum of gate x MLP over the experts that keep a token, in float64."""
    x, wi, wo = (np.asarray(a, np.float64) for a in (x, wi, wo))
    y = np.zeros_like(x)
    for g, s, k in np.argwhere(np.asarray(r.dispatched)):
        e = r.expert[g, s, k]
        y[g, s] += r.gate[g, s, k] * (np.tanh(x[g, s] @ wi[e]) @ wo[e])
    return y


CASES = {
    "plain": ("gshard", {}, 0.7),
    "room for all": ("switch", {}, 5.0),
    "all to one expert": ("gshard", {"skew": 50.0}, 1.0),
    "tokens do not divide": ("gshard", {"tokens": 23, "experts": 7}, 1.0),
    "one expert": ("gshard", {"experts": 1}, 1.0),
    "more experts than tokens": ("switch", {"tokens": 3, "experts": 8, "groups": 1}, 1.0),
    "nothing but padding": ("switch", {"padding": 1.0}, 1.0),
}


@pytest.mark.parametrize("case", CASES)
def test_all_dispatchers_equal_the_loop_and_each_other_in_every_gradient(case):
    """Gradients with respect to tokens, weights and, through the gates, logits. Those of GShard's
    dispatcher, products with one-hot masks, are plain autodiff.
    """
    router, options, factor = CASES[case]
    logits, padding_mask, noise, x = example(**options)
    ws = weights(logits.shape[-1])

    def run(way, x, logits, ws):
        r = ROUTERS[router](logits, padding_mask, capacity_factor=factor, uniform=noise)

        def mlp(rows, weights, product):
            return product(jnp.tanh(product(rows, weights[0])), weights[1])

        y = EVERY_WAY[way](x, r, mlp, ws)
        return jnp.sum(jnp.sin(y)) + r.measures["moe_aux_loss"], (y, r)

    gradient = jax.grad(run, (1, 2, 3), has_aux=True)
    gradients = jit(lambda *args: {way: gradient(way, *args) for way in EVERY_WAY})(x, logits, ws)
    want, (_, r) = gradients["one_hot"]
    loops = in_loops(x, r, *ws)
    for way, (got, (y, _)) in gradients.items():
        np.testing.assert_allclose(y, loops, rtol=1e-5, atol=1e-5, err_msg=way)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=way)


@pytest.mark.parametrize("router", ROUTERS)
def test_buffers(router):
    logits, padding_mask, noise, x = example()

    @jit
    def there_and_back(x):
        r = ROUTERS[router](logits, padding_mask, capacity_factor=0.7, uniform=noise)
        buffers = dispatch.to_buffers(x, r)
        scaled = buffers * (1 + jnp.arange(5)[:, None, None, None])  # expert e times e + 1
        return r, buffers, dispatch.from_buffers(scaled, r)

    r, buffers, y = jax.tree.map(np.asarray, there_and_back(x))
    assert buffers.shape == (5, 2, r.capacity, 3)
    want, want_sum = np.zeros_like(buffers), np.zeros_like(y)
    for g, s, k in np.argwhere(r.dispatched):
        e, c = r.expert[g, s, k], r.position_in_expert[g, s, k]
        want[e, g, c] = x[g, s]
        want_sum[g, s] += r.gate[g, s, k] * (x[g, s] * (e + 1))
    np.testing.assert_array_equal(buffers, want)
    np.testing.assert_allclose(y, want_sum, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("choices, experts", [(1, 8), (16, 8), (512, 8), (8192, 8), (8192, 128)])
def test_blocks_cost_about_as_much_as_the_active_experts(choices, experts):
    """Rows in blocks that are not skipped, at most: not every expert on every row."""
    rows = dispatch.block_rows(choices, experts)
    worst = (choices // rows + min(experts, choices)) * rows
    assert rows % 8 == 0 and worst <= 2 * choices + 8 * experts


def test_auto_is_one_of_the_dispatchers():
    assert dispatch.fastest("auto") in dispatch.DISPATCHERS.values()
    for name, way in dispatch.DISPATCHERS.items():
        assert dispatch.fastest(name) is way


MESH_PROGRAM = """
import re, sys, jax, jax.numpy as jnp, numpy as np
from flax import linen as nn
from mmt.model import moe
x = jax.random.normal(jax.random.key(0), (8, 16, 12))
real = jnp.ones((8, 16), bool)
config = moe.MoeConfig(4, group_size=32, dispatch=sys.argv[1])
module = moe.MoeMlp(20, ("gelu", "linear"), jnp.dtype("float32"), config)
boxed = {"params": module.init(jax.random.key(1), x, real)["params"]}
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
@pytest.mark.parametrize("way", ["auto", "gather", "one_hot"])
def test_on_a_mesh_experts_exchange_tokens_by_all_to_all(way):
    flags = os.environ["XLA_FLAGS"] + " --xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-c", MESH_PROGRAM, way],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        cwd=Path(__file__).resolve().parents[3],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
