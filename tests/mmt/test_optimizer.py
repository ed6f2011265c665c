"""Stacked layers and experts are optimised as if they were written out."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from mmt import optimizer


@pytest.mark.slow
def test_the_optimizer_sees_one_layer_and_one_expert_at_a_time(toy_program):
    """Adafactor on the scanned parameters = Adafactor on each layer's (each expert's) alone."""
    adafactor = optax.adafactor(0.1, min_dim_size_to_factor=4)
    program = toy_program(moe_period=2, optimizer=adafactor)
    params = program.init(3).params
    gradients = jax.tree.map(
        lambda x: jnp.asarray(np.random.default_rng(x.size).normal(size=x.shape), x.dtype), params
    )
    state = optimizer.init(adafactor, program._stack_axes, params)
    updates, _ = optimizer.update(
        adafactor, program._stack_axes, gradients=gradients, state=state, params=params
    )
    checked = 0
    for update, gradient, value, stacked in zip(
        *map(jax.tree.leaves, (updates, gradients, params, program._stack_axes)), strict=True
    ):
        for index in np.ndindex(value.shape[:stacked]):
            state = adafactor.init(value[index])
            alone, _ = adafactor.update(gradient[index], state, value[index])
            np.testing.assert_allclose(update[index], alone, rtol=2e-5, atol=1e-7)
            checked += stacked == 2
    assert checked  # there are experts among them


def test_a_longer_run_has_the_same_rate_until_the_cooldown():
    base = optimizer.inverse_sqrt(0.05, warmup_steps=10)
    short, long = (optimizer.cooldown(base, steps=n, cooldown_steps=20) for n in (100, 200))
    rates = [[float(schedule(step)) for step in range(200)] for schedule in (short, long, base)]
    assert rates[0][:81] == rates[1][:81] == rates[2][:81]
    assert rates[0][90] == pytest.approx(rates[2][90] / 2) and not any(rates[0][100:])
    assert rates[1][180] == rates[2][180] and rates[1][199] == pytest.approx(rates[2][199] / 20)


@pytest.mark.parametrize("count", [0, 101])
def test_a_cooldown_is_a_part_of_the_run(count):
    base = optimizer.inverse_sqrt(0.05, warmup_steps=10)
    with pytest.raises(ValueError, match=rf"cooldown_steps is {count}; allowed: 1 to 100"):
        optimizer.cooldown(base, steps=100, cooldown_steps=count)


def test_a_square_root_needs_a_warm_up():
    with pytest.raises(ValueError, match=r"warmup_steps is 0; allowed: 1 or more"):
        optimizer.inverse_sqrt(0.05, warmup_steps=0)


def test_muon_orthogonalises_each_layers_matrix_and_leaves_tables_to_others():
    shapes = {
        "query": (2, 64, 4, 8), "out": (2, 4, 8, 64), "wi": (2, 3, 64, 48), "wo": (2, 3, 48, 64),
        "embedding": (500, 64), "logits": (64, 500), "router": (2, 64, 8), "scale": (2, 64),
    }  # fmt: skip
    stacked = {"query": 1, "out": 1, "wi": 2, "wo": 2, "embedding": 0, "logits": 0, "router": 1}
    stacked["scale"] = 1
    matrices = {"query": (64, 32), "out": (32, 64), "wi": (64, 48), "wo": (48, 64)}
    random = np.random.default_rng(0)
    params, gradients = (
        {name: jnp.asarray(random.normal(size=of), jnp.float32) for name, of in shapes.items()}
        for _ in range(2)
    )
    muon = optimizer.muon(1.0, others=optax.adam(0.5), vocab_size=500)
    state = optimizer.init(muon, stacked, params)
    update_all = jax.jit(functools.partial(optimizer.update, muon, stacked))
    updates, _ = update_all(gradients=gradients, state=state, params=params)
    for name, shape in matrices.items():
        for layer in np.ndindex(shapes[name][: stacked[name]]):
            update = np.asarray(updates[name][layer]).reshape(shape)
            left, _, right = np.linalg.svd(
                np.asarray(gradients[name][layer]).reshape(shape), full_matrices=False
            )
            wanted = -0.2 * np.sqrt(max(shape)) * left @ right  # the nearest orthonormal matrix
            cosine = (update * wanted).sum() / np.linalg.norm(update) / np.linalg.norm(wanted)
            assert cosine > 0.97
            assert np.linalg.norm(update) == pytest.approx(np.linalg.norm(wanted), rel=0.3)
    adam = optax.adam(0.5)
    for name in shapes.keys() - matrices.keys():
        alone, _ = adam.update(gradients[name], adam.init(params[name]), params[name])
        np.testing.assert_allclose(updates[name], alone, rtol=1e-4)


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        (("blocks", "mlp", "router"), (2, 64, 32)),  # of 32 experts
        (("blocks", "mlp", "router_bias"), (2, 32, 32)),
        (("blocks", "mlp", "gate"), (2, 64, 48)),
        (("relative_bias", "embedding"), (32, 64)),  # of 64 heads
    ],
)
def test_muon_leaves_routers_and_position_biases_of_any_size_to_others(path, shape):
    random = np.random.default_rng(0)
    value, gradient = (jnp.asarray(random.normal(size=shape), jnp.float32) for _ in range(2))
    params, gradients, stacked, narrow_params = (
        functools.reduce(lambda tree, key: {key: tree}, reversed(path), leaf)
        for leaf in (value, gradient, len(shape) - 2, jnp.zeros((*shape[:-1], 8)))
    )
    muon = optimizer.muon(1.0, others=optax.adam(0.5), vocab_size=500)
    state = optimizer.init(muon, stacked, params)
    updates, _ = optimizer.update(muon, stacked, gradients=gradients, state=state, params=params)
    alone, _ = optax.adam(0.5).update(gradient, optax.adam(0.5).init(value))
    np.testing.assert_allclose(jax.tree.leaves(updates)[0], alone, rtol=1e-4)
    narrow = optimizer.init(muon, stacked, narrow_params)  # decided by its shape, in old runs too
    assert jax.tree.structure(state) == jax.tree.structure(narrow)


def test_relative_adam_is_adam_times_the_size_of_a_parameter():
    random = np.random.default_rng(0)
    params = {"embedding": random.normal(size=(40, 8)), "wi": random.normal(size=(8, 16)) / 16,
              "zero": np.zeros(4)}  # fmt: skip
    gradients = {name: random.normal(size=value.shape) for name, value in params.items()}
    relative, adam = optimizer.relative_adam(0.06), optax.adam(1.0, b1=0.9, b2=0.98)
    stacked = dict.fromkeys(params, 0)
    updates, _ = optimizer.update(
        relative, stacked, gradients=gradients, params=params,
        state=optimizer.init(relative, stacked, params),
    )  # fmt: skip
    for name, value in params.items():
        alone, _ = adam.update(gradients[name], adam.init(value))
        size = max(np.sqrt((value**2).mean()), 1e-3)
        np.testing.assert_allclose(updates[name], 0.06 * size * alone, rtol=1e-4)
