"""Stacked layers and experts are optimised as if they were written out."""

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
    state = optimizer.init(adafactor, program._stacked, params)
    updates, _ = optimizer.update(
        adafactor, program._stacked, gradients=gradients, state=state, params=params
    )
    checked = 0
    for update, gradient, value, stacked in zip(
        *map(jax.tree.leaves, (updates, gradients, params, program._stacked)), strict=True
    ):
        for index in np.ndindex(value.shape[:stacked]):
            state = adafactor.init(value[index])
            alone, _ = adafactor.update(gradient[index], state, value[index])
            np.testing.assert_allclose(update[index], alone, rtol=2e-5, atol=1e-7)
            checked += stacked == 2
    assert checked  # there are experts among them
