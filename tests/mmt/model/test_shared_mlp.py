"""The shared MLP beside the experts, conditional routing and masked outputs, in float64 loops."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from mmt.model import moe

# Tests compile more than they compute.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
F32 = jnp.dtype("float32")


def layer(**options):
    config = moe.MoeConfig(num_experts=4, group_size=16, capacity_factor=4.0, **options)
    return moe.MoeMlp(hidden=8, activations=("gelu", "linear"), dtype=F32, config=config)


@pytest.fixture
def tokens():
    x = jax.random.normal(jax.random.key(3), (6, 7, 5))
    padding_mask = jnp.asarray(np.random.default_rng(0).random((6, 7)) > 0.2)
    return x, padding_mask


def parameters(module, x, padding_mask):
    params = nn.meta.unbox(jit(module.init)(jax.random.key(0), x, padding_mask))["params"]
    return {"params": params | {name: params[name] * 10 for name in ("router", "gate")
                                if name in params}}  # fmt: skip


def without_shared(module, params):
    """The same layer and parameters without the shared MLP and the gate."""
    config = dataclasses.replace(
        module.config, shared_mlp_dim=0, gate_budget=0.0, gate_dropout=0.0
    )
    kept = {name: leaf for name, leaf in params["params"].items() if name not in ("shared", "gate")}
    return module.clone(config=config), {"params": kept}


def mlp_in_loops(weights, x):
    """The gated GELU of one token after another, in float64."""
    wi_0, wi_1, wo = (np.asarray(weights[name], np.float64) for name in ("wi_0", "wi_1", "wo"))
    rows = []
    for row in np.asarray(x, np.float64).reshape(-1, x.shape[-1]):
        a, b = row @ wi_0, row @ wi_1
        gelu = 0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)))
        rows.append((gelu * b) @ wo)
    return np.reshape(rows, x.shape)


def gates_in_loops(params, x):
    kernel = np.asarray(params["params"]["gate"], np.float64)[:, 0]
    return 1 / (1 + np.exp(-np.asarray(x, np.float64) @ kernel))


def test_a_shared_expert_is_added_to_the_experts(tokens):
    x, padding_mask = tokens
    module = layer(shared_mlp_dim=6)
    params = parameters(module, x, padding_mask)
    y = jit(module.apply)(params, x, padding_mask)
    experts, rest = without_shared(module, params)
    want = jit(experts.apply)(rest, x, padding_mask) + mlp_in_loops(params["params"]["shared"], x)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)


def test_conditional_routing_mixes_both_by_the_gate(tokens):
    """y = (1 - g) shared + g experts, and the budget loss is |mean g - budget| over tokens."""
    x, padding_mask = tokens
    module = layer(shared_mlp_dim=6, gate_budget=0.8)
    params = parameters(module, x, padding_mask)
    y, state = jit(functools.partial(module.apply, mutable=["intermediates"]))(
        params, x, padding_mask
    )
    experts, rest = without_shared(module, params)
    g = gates_in_loops(params, x)
    shared = mlp_in_loops(params["params"]["shared"], x)
    want = (1 - g)[..., None] * shared + g[..., None] * jit(experts.apply)(rest, x, padding_mask)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
    measured = moe.summarize(state["intermediates"])
    assert set(measured) == set(moe.measures(module.config))
    mean = g[np.asarray(padding_mask)].mean()
    assert float(measured["moe_gate"]) == pytest.approx(mean, rel=1e-5)
    assert float(measured["moe_budget_loss"]) == pytest.approx(abs(mean - 0.8), rel=1e-4)


def test_gate_dropout_gives_some_tokens_the_shared_mlp_alone():
    x = jax.random.normal(jax.random.key(5), (40, 25, 5))
    padding_mask = jnp.ones(x.shape[:2], bool)
    module = layer(shared_mlp_dim=6, gate_budget=0.8, gate_dropout=0.3, router=moe.switch_top1)
    params = parameters(module, x, padding_mask)
    train = functools.partial(module.apply, rngs={"dropout": jax.random.key(0)})
    y = jit(lambda params: train(params, x, padding_mask, True))(params)
    mixed = jit(module.apply)(params, x, padding_mask)
    shared = mlp_in_loops(params["params"]["shared"], x)
    close = functools.partial(np.isclose, rtol=1e-4, atol=1e-5)
    alone, both = close(y, shared).all(-1), close(y, mixed).all(-1)
    assert (alone | both).all()
    assert alone.mean() == pytest.approx(0.3, abs=0.05)


def test_final_output_masking_masks_all_experts_of_a_token():
    """In training whole outputs are 0 with probability p; in decoding all are weighted by 1 - p."""
    x = jax.random.normal(jax.random.key(5), (40, 25, 5))
    padding_mask = jnp.ones(x.shape[:2], bool)
    plain = layer(router=moe.switch_top1)
    masked = plain.clone(config=dataclasses.replace(plain.config, final_output_masking=0.2))
    params = parameters(plain, x, padding_mask)
    y, want = (jit(module.apply)(params, x, padding_mask) for module in (masked, plain))
    np.testing.assert_allclose(y, 0.8 * want, rtol=1e-5, atol=1e-7)
    train = functools.partial(masked.apply, rngs={"dropout": jax.random.key(0)})
    y = jit(lambda params: train(params, x, padding_mask, True))(params)
    whole, zero = np.isclose(y, want, rtol=1e-5, atol=1e-7).all(-1), np.asarray(y == 0).all(-1)
    assert (whole | zero).all()
    assert zero.mean() == pytest.approx(0.2, abs=0.04)


@pytest.mark.parametrize(
    "options, names",
    [
        ({"gate_budget": 0.8}, ("gate_budget = 0.8", "shared_mlp_dim = 0", "1 or more")),
        ({"gate_dropout": 0.1, "shared_mlp_dim": 8}, ("gate_dropout = 0.1", "gate_budget above 0")),
        ({"gate_budget": 1.5, "shared_mlp_dim": 8}, ("gate_budget = 1.5", "0 to 1")),
        ({"balance_rate": -1.0}, ("balance_rate = -1.0", "0 or more")),
    ],
)
def test_options_that_do_not_fit_are_named(options, names):
    with pytest.raises(ValueError) as error:
        moe.MoeConfig(**options)
    assert all(name in str(error.value) for name in names)
