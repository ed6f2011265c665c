"""Cross entropy against a float64 loop; what is counted beside it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt.losses import Objective, cross_entropy, measure


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("z_loss", [0.0, 1e-2])
def test_the_loss_equals_a_loop(smoothing, z_loss):
    random = np.random.default_rng(0)
    logits, targets = random.normal(size=(2, 3, 7)) * 4, random.integers(0, 7, (2, 3))
    loss, nll = cross_entropy(
        jnp.asarray(logits, jnp.float32), jnp.asarray(targets),
        label_smoothing=smoothing, z_loss=z_loss,
    )  # fmt: skip
    for b in range(2):
        for t in range(3):
            log_z = np.log(np.exp(logits[b, t]).sum())
            log_p = logits[b, t] - log_z
            distribution = np.full(7, smoothing / 7)
            distribution[targets[b, t]] += 1 - smoothing
            assert nll[b, t] == pytest.approx(-log_p[targets[b, t]], rel=1e-5)
            smoothed = -(distribution * log_p).sum()
            assert loss[b, t] == pytest.approx(smoothed + z_loss * log_z**2, rel=1e-5)


def test_gradient_is_softmax_minus_target():
    logits = jnp.asarray(np.random.default_rng(1).normal(size=(1, 1, 5)), jnp.float32)
    gradient = jax.grad(lambda x: cross_entropy(x, jnp.array([[3]]))[0].sum())(logits)
    expected = jax.nn.softmax(logits) - jax.nn.one_hot(jnp.array([[3]]), 5)
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_the_right_tokens_are_counted_where_there_is_a_label():
    random = np.random.default_rng(3)
    logits = random.normal(size=(3, 7, 11)).astype(np.float32)
    targets = random.integers(0, 11, (3, 7))
    targets[0] = logits[0].argmax(-1)
    weights = (random.random((3, 7)) < 0.7).astype(np.float32)
    batch = jax.tree.map(jnp.asarray, {
        "decoder_loss_weights": weights, "decoder_target_tokens": targets,
        "encoder_segment_ids": np.ones((3, 5), int), "decoder_language_ids": np.zeros((3, 7), int),
    })  # fmt: skip
    sums = measure(Objective(), jnp.asarray(logits), batch, languages=1).sums
    assert float(sums["accuracy"]) == (weights * (logits.argmax(-1) == targets)).sum() > 0
    assert float(sums["tokens"]) == weights.sum() + 15
